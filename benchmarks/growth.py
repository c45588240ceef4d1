"""How time and memory grow with the number of samples (1x to 8x) and of classes (10 to 1,000), on the CPU.

python -m benchmarks.growth --out results/speed

Each size is measured in a process of its own, so that its peak memory is its own: digits repeated for more samples,
random labels for more classes, co-teaching on the small CNN. `of it more` is what the process took after torch and the
digits were loaded. One thread, and the fastest of five epochs in each of three rounds, so that the machine's other work
disturbs less.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch

from coteach.data import Dataset, load
from coteach.recipes import recipe
from coteach.results.environment import environment
from coteach.training.setup import draw_labels, make_trainer

CPU = torch.device("cpu")
COPIES = 4  # of the digits, so that an epoch is long enough to be timed
ROUNDS = 3
SIZES = [(times, 10) for times in (1, 2, 4, 8)] + [(1, classes) for classes in (100, 1000)]


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(times: int, classes: int) -> dict[str, float]:
    """Seconds of an epoch and of its noise draw, and peak memory in MiB, in this process."""
    torch.set_num_threads(1)
    digits = load("digits")
    before = peak_mib()
    x = np.concatenate([digits.x_train] * times * COPIES)
    rng = np.random.default_rng(0)
    y = (
        np.concatenate([digits.y_train] * times * COPIES)
        if classes == 10
        else rng.permutation(np.arange(len(x)) % classes)
    )
    y_test = digits.y_test if classes == 10 else rng.integers(0, classes, len(digits.y_test))
    data = Dataset.checked("digits", x, y, digits.x_test, y_test, class_names=[str(c) for c in range(classes)])
    config = recipe(data, noise="symmetric", rate=0.5)
    start = time.perf_counter()
    draw = draw_labels(config, data)
    drawn = time.perf_counter() - start
    trainer = make_trainer(config, data, draw, device=CPU)
    seconds = []
    for _ in range(6):
        start = time.perf_counter()
        for _ in trainer.run_epoch():
            pass
        trainer.finish_epoch()
        seconds.append(time.perf_counter() - start)
    return {
        "samples": len(x),
        "classes": classes,
        "epoch_s": min(seconds[1:]),
        "draw_s": drawn,
        "peak_mib": peak_mib(),
        "more_mib": peak_mib() - before,
    }


def measured(times: int, classes: int) -> dict[str, float]:
    """`measure` in a process of its own."""
    words = [sys.executable, "-m", "benchmarks.growth", "--one", str(times), str(classes)]
    found: dict[str, float] = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="folder for growth-cpu.json")
    parser.add_argument("--one", nargs=2, type=int, help=argparse.SUPPRESS)
    ask = parser.parse_args()
    if ask.one:
        print(json.dumps(measure(*ask.one)))
        return
    rounds = [[measured(*size) for size in SIZES] for _ in range(ROUNDS)]
    rows = [min(tries, key=lambda row: row["epoch_s"]) for tries in zip(*rounds, strict=True)]
    titles = {"samples": 9, "classes": 9, "s an epoch": 12, "us a sample": 13, "draw, ms": 10, "peak, MiB": 11}
    print("".join(f"{title:>{width}}" for title, width in (titles | {"of it more": 12}).items()))
    for row in rows:
        each = 1e6 * row["epoch_s"] / row["samples"]
        print(
            f"{row['samples']:>9,}{row['classes']:>9}{row['epoch_s']:>12.3f}{each:>13.1f}"
            f"{1000 * row['draw_s']:>10.1f}{row['peak_mib']:>11.0f}{row['more_mib']:>12.0f}"
        )
    if ask.out:
        ask.out.mkdir(parents=True, exist_ok=True)
        file = ask.out / "growth-cpu.json"
        file.write_text(json.dumps({"rows": rows, "environment": environment(CPU)}, indent=2) + "\n")
        print(f"written to {file}")


if __name__ == "__main__":
    main()
