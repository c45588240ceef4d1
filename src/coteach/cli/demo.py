"""`coteach demo`: the first minute."""

import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import tyro


@dataclass(frozen=True)
class Ask:
    """See in a minute what wrong labels do, and what co-teaching does about them.

    Trains on real handwritten digits that come with scikit-learn, with almost half of the labels made wrong.
    """

    out: Path = Path("demo")
    """Folder for the report and the runs."""
    methods: tuple[str, ...] = ("standard", "co-teaching")
    """Methods to compare, or all."""
    epochs: int = 100
    """Epochs of each run."""
    seeds: int = 3
    """Repetitions, each with its own initial weights and order."""
    workers: int = 0
    """Processes that train at once; 0 for one a core, or one on a GPU."""
    threads: int = 0
    """CPU threads of each run; 0 for as many as pay: one for a small network, else one a core."""
    json: bool = False
    """Print the results as JSON on standard output."""


def main(argv: list[str]) -> int:
    """Run the demo and print its table."""
    ask = tyro.cli(Ask, prog="coteach demo", args=argv)

    from coteach.demo import demo
    from coteach.training.device import allowed_cores, choose_device

    demo_result = demo(
        ask.out,
        methods=ask.methods,
        epochs=ask.epochs,
        seeds=ask.seeds,
        threads=ask.threads,
        workers=ask.workers or (1 if choose_device("auto").type == "cuda" else allowed_cores()),
        command=shlex.join(["coteach", "demo", *argv]),
    )
    if ask.json:
        json.dump(demo_result.to_dict(), sys.stdout, indent=2)
        print()
    else:
        demo_result.show()
    return 0
