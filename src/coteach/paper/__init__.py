"""The numbers that the paper prints, as data, and the order in which it prints its methods."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

DATASETS = ("mnist", "cifar10", "cifar100")
"""Those with a table of all methods."""

SWEPT: dict[str, dict[str, tuple[float, ...]]] = {
    "mnist_schedule": {"t_k": (5, 10, 15), "c": (0.5, 1, 2)},
    "mnist_tau": {"tau": (0.5, 0.75, 1, 1.25, 1.5)},
}
"""Tables of co-teaching on MNIST with other settings, and their values from the outermost list in; tau is in parts of
the noise rate."""

REPETITIONS = 5
"""Behind every printed number."""


@cache
def tables() -> dict[str, Any]:
    """Everything in tables.toml."""
    return tomllib.loads(files("coteach.paper").joinpath("tables.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Cell:
    """A mean over repetitions with its standard deviation (n - 1 in the divisor) and n. Shares, not percent."""

    mean: float
    std: float | None
    """None for a single repetition."""
    n: int

    def percent(self) -> str:
        """As tables print it: 87.63 ± 0.21."""
        spread = "" if self.std is None else f" ± {100 * self.std:.2f}"
        return f"{100 * self.mean:.2f}{spread}"


def printed(table: str, noise: str, places: tuple[int, ...] | None) -> Cell | None:
    """A cell of a printed table, by noise and by its places in the lists there; None if it has none."""
    found = tables()[table].get(noise)
    if found is None or places is None:
        return None
    for place in places:
        found = found[place]
    mean, std = found
    return Cell(mean / 100, std / 100, REPETITIONS)


def column(method: str) -> tuple[int, ...] | None:
    """The place of a method in the tables of all methods."""
    methods = tables()["methods"]
    return (methods.index(method),) if method in methods else None


def place(table: str, method: str, settings: Mapping[str, Any], rate: float) -> tuple[int, ...] | None:
    """The place in a swept table of a run with these settings under noise of a rate; None if it has none."""
    parts = dict(settings)
    if isinstance(parts.get("tau"), int | float):
        parts["tau"] = round(parts["tau"] / rate, 6)
    axes = SWEPT[table]
    if method != "co-teaching" or any(parts[name] not in values for name, values in axes.items()):
        return None
    return tuple(values.index(parts[name]) for name, values in axes.items())


def in_order(methods: Iterable[str]) -> list[str]:
    """Methods in the paper's order, those that it does not have after them."""
    printed = tables()["methods"]
    return sorted(methods, key=lambda name: (printed.index(name) if name in printed else len(printed), name))
