"""What a figure of a grid shows: for each measure a panel a noise, in it a line a method, with its spread."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from coteach.analysis.numbers import MEASURES, Measure, over_networks
from coteach.bench.grid import Grid, TablePlan
from coteach.config import data_name
from coteach.results.collection import Collection
from coteach.results.run import Result
from coteach.training.loop import EpochRecord


@dataclass(frozen=True)
class Line:
    """A method's measure against the epoch, in percent; NaN where an epoch did not measure it."""

    method: str
    mean: np.ndarray
    std: np.ndarray
    """Over repetitions, with n - 1 in the divisor; NaN in an epoch that only one has."""
    n: int


@dataclass(frozen=True)
class Chart:
    """One measure of a table of a grid: a panel a noise, a line a method that has runs there."""

    name: str
    """What its files are called."""
    title: str
    measure: str
    """As its axis says."""
    methods: tuple[str, ...]
    """Those that belong here, with runs or without."""
    panels: dict[str, tuple[Line, ...]]

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not any(self.panels.values())

    def counts(self, method: str) -> tuple[int, int]:
        """The least and the most repetitions of a method in a panel; panels without any run do not count."""
        found = [{line.method: line.n for line in lines}.get(method, 0) for lines in self.panels.values() if lines]
        return min(found, default=0), max(found, default=0)

    def key(self) -> tuple[str, dict[str, str]]:
        """What a line is, and the label of each method that has one: with its n where that is not all the same."""
        there = {method: counts for method in self.methods if (counts := self.counts(method))[1]}
        spans = {method: f"n = {a}" if a == b else f"n = {a} to {b}" for method, (a, b) in there.items()}
        same = spans[next(iter(spans))] if len(set(spans.values())) == 1 else None
        title = "n = 1 seed" if same == "n = 1" else f"mean over {same or 'n'} seeds"
        if any(most > 1 for _, most in there.values()):
            title += ", shaded by their std"
        absent = [method for method in self.methods if method not in there]
        if absent:
            title += f"; no runs of {', '.join(absent)}"
        return title, {method: method if same else f"{method} ({span})" for method, span in spans.items()}


def line(method: str, repetitions: Sequence[Sequence[EpochRecord]], measure: Measure) -> Line | None:
    """The mean and the spread over repetitions, which may differ in length; None if none measured it."""
    values = np.full((len(repetitions), max(map(len, repetitions), default=0)), np.nan)
    for row, epochs in zip(values, repetitions, strict=True):
        row[: len(epochs)] = np.array([over_networks(record, measure) for record in epochs], float)
    known = 100 * values[~np.isnan(values).all(1)]
    if not len(known):
        return None
    n = (~np.isnan(known)).sum(0)
    mean = np.nansum(known, 0) / np.where(n > 0, n, np.nan)
    std = np.sqrt(np.nansum((known - mean) ** 2, 0) / np.where(n > 1, n - 1, np.nan))
    return Line(method, mean, std, len(known))


def charts(grid: Grid, runs: Collection) -> list[Chart]:
    """Every chart of a grid, the paper's Figures 3 to 6: for each table without a sweep, one a measure."""
    plans = [plan for plan in grid.tables if not plan.sweep]
    datasets = Counter(data_name(plan.data) for plan in plans)
    found: list[Chart] = []
    for plan in plans:
        cells = _cells(plan, runs)
        data = data_name(plan.data)
        title = data if datasets[data] == 1 else f"{data}, {plan.title}"
        for label, measure in MEASURES.values():
            # what a method that takes every sample picks is as clean as the data: no line worth drawing
            shown = plan.methods if measure is MEASURES["accuracy"][1] else _may_select(plan.methods, cells)
            panels = {
                noise_name: tuple(
                    drawn
                    for method in shown
                    if (drawn := line(method, [result.epochs for result in by_method[method]], measure))
                )
                for noise_name, by_method in cells.items()
            }
            name = slug(f"{title} {label}")
            while any(chart.name == name for chart in found):
                name += "-again"  # titles that differ only in what a file name cannot have
            found.append(Chart(name, title, label, shown, panels))
    return found


def _cells(plan: TablePlan, runs: Collection) -> dict[str, dict[str, list[Result]]]:
    """The runs that are there, by noise and method, in the order of the plan."""
    cells: dict[str, dict[str, list[Result]]] = {}
    for planned in plan.planned:
        place = cells.setdefault(planned.row, {}).setdefault(planned.column, [])
        if (result := runs.find(planned.config)) is not None:
            place.append(result)
    return cells


def _may_select(methods: Iterable[str], cells: Mapping[str, Mapping[str, list[Result]]]) -> tuple[str, ...]:
    """The methods that left out samples in some epoch, and those without runs, of which nobody knows here."""

    def may_select(method: str) -> bool:
        epochs = [epoch for by_method in cells.values() for result in by_method[method] for epoch in result.epochs]
        return not epochs or any(share < 1 for epoch in epochs for share in epoch.picked)

    return tuple(filter(may_select, methods))


def slug(text: str) -> str:
    """A text as a file name or an id."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def limits(lines: Sequence[Line], *, full: bool) -> tuple[float, float]:
    """The y axis of a panel: 0 to 100, or cropped to where the methods settle.

    Cropped, it holds mean ± std of every method after the first eighth of its epochs, and above that the highest mean
    of any epoch. So the climb of the first epochs is cut off, and an early peak that is lost again is not.
    """
    if full or not lines:
        return 0.0, 100.0
    low, high = 100.0, 0.0
    for each in lines:
        end = slice(len(each.mean) // 8, None)
        std = np.nan_to_num(each.std[end])
        low = min([low, *_known(each.mean[end] - std)])
        high = max([high, *_known(each.mean[end] + std), *_known(each.mean)])
    low = min(low, high)  # no method has a number at its end
    margin = max(0.04 * (high - low), 0.5)  # at least one point is shown
    return max(low - margin, 0.0), min(high + margin, 100.0)


def _known(values: np.ndarray) -> list[float]:
    return [float(value) for value in values if not np.isnan(value)]
