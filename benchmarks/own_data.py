"""What the benchmarks on labels of unknown quality share: the data, the noises, and a file that grows cell by cell."""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from coteach.data import Dataset, load
from coteach.noise import KINDS, Draw, corrupt
from coteach.results.environment import environment
from coteach.storage import write_over
from coteach.training.device import choose_device

PART = 10_000
"""Images of MNIST that are used."""


def dataset_named(name: str) -> Dataset:
    """The digits, or a fixed part of MNIST with the whole test set."""
    if name == "digits":
        return load("digits")
    mnist = load("mnist")
    rows = np.random.default_rng(0).permutation(len(mnist.y_train))[:PART]
    return Dataset.checked("mnist-10k", mnist.x_train[rows], mnist.y_train[rows], mnist.x_test, mnist.y_test)


def asking(doc: str | None, seeds: int) -> argparse.ArgumentParser:
    """What both benchmarks ask for."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", choices=["digits", "mnist"])
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    return parser


def drawn(dataset: Dataset, kind: str, rate: float, seed: int) -> Draw:
    """Wrong labels; other ones for each seed."""
    return corrupt(dataset.y_train, KINDS[kind](dataset.classes, rate), 100 + seed)


class Cells:
    """Measured cells in a JSON file: what is there is not measured again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: list[dict[str, Any]] = json.loads(path.read_text())["cells"] if path.exists() else []

    def measure(self, key: dict[str, Any], work: Callable[[], dict[str, Any]]) -> None:
        if not any(key.items() <= cell.items() for cell in self.found):
            made = environment(choose_device("auto"))
            self.found.append(key | work() | {name: made[name] for name in ("device", "commit")})
            write_over(self.path, json.dumps({"environment": made, "cells": self.found}, indent=1) + "\n")

    def measure_all(
        self,
        data: Sequence[str],
        noises: Sequence[tuple[str, float]],
        seeds: int,
        work: Callable[[Dataset, Draw, int], dict[str, Any]],
    ) -> None:
        """Every noise with every seed, on one dataset after another."""
        for name in data:
            dataset = dataset_named(name)
            for seed in range(1, seeds + 1):
                for kind, rate in noises:
                    key = {"data": dataset.name, "noise": f"{kind} {rate:g}", "seed": seed}
                    self.measure(key, partial(work, dataset, drawn(dataset, kind, rate, seed), seed))

    def groups(self, *names: str) -> Iterator[tuple[tuple[Any, ...], list[dict[str, Any]]]]:
        for key in dict.fromkeys(tuple(cell[name] for name in names) for cell in self.found):
            yield key, [cell for cell in self.found if tuple(cell[name] for name in names) == key]
