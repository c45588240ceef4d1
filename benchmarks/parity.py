"""Whether bf16 trains as fp32 does: the same runs in both, on CIFAR-10 with half of the labels wrong.

    python -m benchmarks.parity --out results/speed/parity

Each run is written there as a small JSON file, and one that is there is not trained again; stop it and go on at will.
The curves are as one when bf16 and fp32 are no further apart than two seeds: the root mean square over the epochs.
"""

import argparse
import math
import statistics
from pathlib import Path

from coteach.recipes import recipe
from coteach.results.publish import publish, read_published
from coteach.results.run import Progress, Result, Runner

METHODS = ("co-teaching", "standard")
PRECISIONS = ("bf16", "fp32")


def accuracy(result: Result) -> list[float]:
    """Test accuracy by epoch, in percent, the mean of the networks."""
    return [100 * statistics.mean(record.test_accuracy) for record in result.epochs]


def apart(one: Result, other: Result) -> float:
    """How far two curves are from each other, in points: the root mean square over the epochs."""
    squares = [(a - b) ** 2 for a, b in zip(accuracy(one), accuracy(other), strict=True)]
    return math.sqrt(statistics.mean(squares))


def trained(runner: Runner, out: Path, *, data: str, epochs: int, seeds: int) -> dict[tuple[str, str, int], Result]:
    there = [read_published(file) for file in sorted(out.glob("*.json"))]
    same = [result for result in there if (result.config.data, result.config.epochs) == (data, epochs)]
    found = {(result.config.method, result.config.precision, result.config.init_seed): result for result in same}
    for seed in range(1, seeds + 1):
        for precision in PRECISIONS:
            for method in METHODS:
                config = recipe(
                    data,
                    method=method,
                    noise="symmetric",
                    rate=0.5,
                    seed=seed,
                    epochs=epochs,
                    decay_from=epochs * 2 // 5,
                    precision=precision,
                )
                if (method, precision, seed) not in found:
                    result = found[method, precision, seed] = runner.run(config)
                    publish([result], out)
    return found


def show(found: dict[tuple[str, str, int], Result], seeds: int) -> None:
    print("\n| method | seed | bf16, last five epochs | fp32 | apart, all epochs | s an epoch, bf16 | fp32 |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    verdicts = []
    for method in METHODS:
        distances = []
        for seed in range(1, seeds + 1):
            fast, exact = (found[method, precision, seed] for precision in PRECISIONS)
            distances.append(apart(fast, exact))
            tails = [statistics.mean(accuracy(result)[-5:]) for result in (fast, exact)]
            seconds = [result.summary["seconds"] / result.config.epochs for result in (fast, exact)]
            print(
                f"| {method} | {seed} | {tails[0]:.2f} | {tails[1]:.2f} | {distances[-1]:.2f} | "
                f"{seconds[0]:.2f} | {seconds[1]:.2f} |"
            )
        by_seed = [
            apart(found[method, precision, 1], found[method, precision, seed])
            for precision in PRECISIONS
            for seed in range(2, seeds + 1)
        ]
        verdicts.append(
            f"{method}: bf16 and fp32 are {statistics.mean(distances):.2f} points apart, two seeds "
            f"{statistics.mean(by_seed):.2f}"
        )
    print("", *verdicts, sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for one JSON file a run")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="folder of the runs themselves")
    parser.add_argument("--data", default="cifar10")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=2)
    ask = parser.parse_args()
    if ask.seeds < 2:
        parser.error("--seeds must be at least 2: what a seed alone changes is the measure")
    ask.out.mkdir(parents=True, exist_ok=True)

    def tell(progress: Progress) -> None:
        if progress.record is not None and progress.epoch % 5 == 0:
            print(f"  epoch {progress.epoch}: {progress.record.test_accuracy}", flush=True)

    runner = Runner(ask.runs, on_progress=tell, on_message=print)
    show(trained(runner, ask.out, data=ask.data, epochs=ask.epochs, seeds=ask.seeds), ask.seeds)


if __name__ == "__main__":
    main()
