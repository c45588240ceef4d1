"""A step of this tree beside a step of another one, in one run: what a change gains, and whether it moves a number.

    git worktree add ../before HEAD~1
    python -m benchmarks.against ../before/src
    python -m benchmarks.against ../before/src --methods standard co-teaching --turns 20

Each tree has a process of its own; they take turns, so that what else the machine does hits both alike. A turn is an
epoch with its evaluation on a GPU (CIFAR-10's shapes), ten on a CPU (digits). `apart` is how far the weights are from
each other after the first step, as a share of how far that step moved them: 0 is the same bits, and rounding is more
than one would think, for Adam's first step is as long for a small gradient as for a large one.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).parents[1] / "src"


def serve(method: str, weights: Path) -> None:
    """Make one step and leave the weights before and after it in a file; then a turn for each line of standard input.

    What is printed of a turn: seconds of training, steps, and seconds of evaluation.
    """
    import torch

    from benchmarks.epoch import random_cifar, timed
    from coteach.data import load
    from coteach.recipes import recipe
    from coteach.training.arithmetic import settled, switches
    from coteach.training.device import threads
    from coteach.training.setup import draw_labels, make_trainer, threads_that_pay

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data, epochs = (random_cifar(), 1) if device.type == "cuda" else (load("digits"), 10)
    config = recipe(data.name, noise="symmetric", rate=0.5, method=method)
    with threads(threads_that_pay(config, data)), switches(settled(config, device), device):
        trainer = make_trainer(config, data, draw_labels(config, data), device=device)

        def flat() -> np.ndarray:
            return torch.cat([p.detach().flatten() for p in trainer.networks.parameters()]).cpu().numpy()

        before, epoch = flat(), trainer.run_epoch()
        next(epoch)
        np.savez(weights, before=before, after=flat())
        for _ in epoch:
            pass
        trainer.finish_epoch()
        print("ready", flush=True)
        for _ in sys.stdin:
            training = evaluation = 0.0
            for _ in range(epochs):
                training += timed(device, lambda: sum(1 for _ in trainer.run_epoch()))
                evaluation += timed(device, trainer.finish_epoch)
            print(training, epochs * trainer.steps_per_epoch, evaluation, flush=True)


class Tree:
    """A process that trains with the package of one tree."""

    def __init__(self, source: Path, method: str, weights: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.against", str(source), "--serve", method, str(weights)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")])},
            cwd=HERE.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.weights = weights
        self.hear()  # that it is ready: the next one waits, for compiling wants the whole machine

    def hear(self) -> list[str]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the process ended with code {self.process.wait()}: what it says stands above")
        return line.split()

    def turn(self) -> tuple[float, float]:
        """Milliseconds a step, and seconds of an evaluation in a turn."""
        assert self.process.stdin is not None
        print(file=self.process.stdin, flush=True)
        training, steps, evaluation = map(float, self.hear())
        return 1000 * training / steps, evaluation


def apart(mine: Path, other: Path) -> float:
    """How far the weights of two first steps are from each other, as a share of how far a step is."""
    with np.load(mine) as a, np.load(other) as b:
        if a["before"].shape != b["before"].shape or (a["before"] != b["before"]).any():
            return float("nan")  # the networks start differently: there is nothing to compare
        return float(np.linalg.norm(a["after"] - b["after"]) / np.linalg.norm(b["after"] - b["before"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="the folder src of the other tree")
    parser.add_argument("--methods", nargs="+", default=["standard", "co-teaching"])
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--serve", nargs=2, metavar=("METHOD", "FILE"), help=argparse.SUPPRESS)
    ask = parser.parse_args()
    other = ask.source.resolve()
    if not (other / "coteach" / "__init__.py").exists():
        raise SystemExit(f"{ask.source} has no package coteach: give the folder src of another tree")
    if ask.serve:
        import coteach

        found = Path(coteach.__file__).parents[1]
        if found != other:
            raise SystemExit(f"coteach was imported from {found}, not from {other}")
        serve(ask.serve[0], Path(ask.serve[1]))
        return
    print(f"{'method':<14}{'ms, other':>12}{'ms, this':>12}{'ratio':>9}{'of turns':>18}{'evaluation':>12}{'apart':>10}")
    for method in ask.methods:
        with tempfile.TemporaryDirectory() as folder:
            trees = [Tree(source, method, Path(folder) / f"{k}.npz") for k, source in enumerate((other, HERE))]
            turns = np.array([[tree.turn() for tree in trees] for _ in range(ask.turns)])  # [turn, tree, what]
            (before, old), (this, new) = np.median(turns, 0)
            ratios = turns[:, 1, 0] / turns[:, 0, 0]
            span = f"{ratios.min():.3f} to {ratios.max():.3f}"
            print(
                f"{method:<14}{before:>12.3f}{this:>12.3f}{np.median(ratios):>9.3f}{span:>18}{new / old:>12.3f}"
                f"{apart(trees[1].weights, trees[0].weights):>10.1e}",
                flush=True,
            )
            for tree in trees:
                tree.process.communicate()


if __name__ == "__main__":
    main()
