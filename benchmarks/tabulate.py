"""How long a large grid takes to be read and tabulated: 630 runs of 200 epochs, written here first.

python -m benchmarks.tabulate
"""

import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from coteach.analysis.numbers import LAST_TEN
from coteach.analysis.tables import tables
from coteach.bench.grid import Grid, read_grid
from coteach.methods import catalogue
from coteach.results.collection import read_runs
from coteach.results.folder import RunFolder
from coteach.training.loop import EpochRecord


def write_runs(grid: Grid, out: Path) -> int:
    """Run folders with made-up epochs; answers how many."""
    rng = np.random.default_rng(0)
    runs = list(grid.runs())
    for planned, _ in runs:
        config = replace(planned, precision="bf16")
        folder = RunFolder(out / config.name)
        folder.path.mkdir(parents=True)
        folder.config_file.write_text(json.dumps(config.to_dict()))
        networks = catalogue.load(config.method).networks
        numbers = rng.random((config.epochs, 4, networks))
        folder.rewrite_epochs(EpochRecord(i + 1, *map(tuple, numbers[i].tolist())) for i in range(config.epochs))
        folder.weights_file.touch()
        folder.summary_file.write_text(json.dumps({"seconds": 1.0, "environment": {}}))
    return len(runs)


def main() -> None:
    grid = read_grid("paper").only(["Table 4", "Table 5", "Table 6"]).repeated(10)
    with tempfile.TemporaryDirectory() as folder:
        number = write_runs(grid, Path(folder))
        start = time.perf_counter()
        found = tables(grid, read_runs(Path(folder)), LAST_TEN)
        seconds = time.perf_counter() - start
    cells = sum(len(table.cells) for table in found)
    print(f"{number} runs of 200 epochs, {cells} cells: {seconds:.2f} s")


if __name__ == "__main__":
    main()
