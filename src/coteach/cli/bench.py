"""`coteach bench`: every run of a grid, and their table."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro


@dataclass(frozen=True)
class Ask:
    """Run what is missing of a grid of runs and print its table. Stopped or killed, the same command goes on."""

    grid: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="GRID")]
    """A grid that comes with coteach (digits, mnist, cifar10, cifar100), or the path of a TOML file."""
    out: Path = Path("runs")
    """Folder for run folders."""
    device: str = "auto"
    """Device: auto takes a GPU when there is one, else the CPU."""
    threads: int = 0
    """CPU threads; 0 for one a core."""
    publish: Path | None = None
    """Also write each run as one small JSON file, and the tables as Markdown, into this folder."""
    json: bool = False
    """Print the cells as JSON on standard output."""


def main(argv: list[str]) -> int:
    """Run the grid and print its tables; 1 if a run failed."""
    ask = tyro.cli(Ask, prog="coteach bench", args=argv)

    from rich.console import Console

    from coteach.analysis.numbers import LAST_TEN, label_precision, test_accuracy
    from coteach.analysis.tables import table
    from coteach.bench.grid import read_grid
    from coteach.data import load
    from coteach.errors import CoteachError
    from coteach.methods import catalogue
    from coteach.progress import RunProgress
    from coteach.results.publish import publish
    from coteach.results.run import InterruptedRun, Runner
    from coteach.storage import storage_errors, write_over

    grid = read_grid(ask.grid)
    runs = list(grid.runs())
    dataset = load(grid.data)
    for config, _ in runs:
        catalogue.load(config.method)(dataset.classes, **config.settings)  # a wrong setting is told now, not in days
    if ask.publish is not None:
        with storage_errors(ask.publish, "write into"):
            ask.publish.mkdir(parents=True, exist_ok=True)
    results, failures = [], []
    with RunProgress() as progress:
        runner = Runner(ask.out, ask.device, ask.threads, on_progress=progress.step, on_message=progress.message)
        for place, (config, labels) in enumerate(runs, 1):
            try:
                result = runner.run(config, dataset=dataset, labels=labels, wait=True)
            except InterruptedRun:
                raise
            except CoteachError as error:
                failures.append(f"{config.method} on {config.noise_name}, seed {config.init_seed}: {error}")
                continue
            results.append(result)
            if ask.publish is not None:
                publish([result], ask.publish)
            if not result.already_done:
                progress.message(f"{place} of {len(runs)} done: {result.path.name}")
    for failure in failures:
        print(f"coteach: failed: {failure}", file=sys.stderr)
    tables = [
        table(f"{grid.title}, test accuracy", results, test_accuracy, LAST_TEN),
        table(f"{grid.title}, label precision", results, label_precision, LAST_TEN),
    ]
    shown = [found for found in tables if found.cells]
    if ask.json:
        json.dump([cell for found in shown for cell in found.to_list()], sys.stdout, indent=2)
        print()
    else:
        wide = Console(width=None if sys.stdout.isatty() else 140)
        for found in shown:
            wide.print(found.rich())
    if ask.publish is not None:
        missing = f"\n{len(failures)} runs failed and are not in the tables.\n" if failures else ""
        write_over(ask.publish / "tables.md", "\n".join(found.markdown() for found in shown) + missing)
    return 1 if failures else 0
