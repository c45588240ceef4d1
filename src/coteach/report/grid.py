"""From a grid and its runs to one HTML file."""

import json
import os
import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from coteach.analysis.charts import Chart, charts
from coteach.analysis.figures import panel
from coteach.analysis.numbers import MEASURES, Choice, label_precision, test_accuracy
from coteach.analysis.style import method_style
from coteach.analysis.tables import Table, tabulate
from coteach.bench.grid import Grid, Planned, TablePlan
from coteach.config import data_name
from coteach.paper import in_order
from coteach.report.page import template
from coteach.results.collection import Collection
from coteach.results.run import Result

_FAR = 3.0
"""A cell is marked when measured and printed differ by more points than this."""


@dataclass(frozen=True)
class Number:
    """A cell of a table, ready to print."""

    text: str
    best: bool
    printed: str
    """What the paper prints; empty if nothing."""
    points: str
    """The difference from it; empty if one of the two is missing."""
    far: bool


@dataclass(frozen=True)
class Numbers:
    """A table, ready to print."""

    title: str
    caption: str
    columns: tuple[str, ...]
    rows: dict[str, list[Number]]


@dataclass(frozen=True)
class Sample:
    """A line of a legend."""

    label: str
    colour: str
    dashes: str
    width: float


@dataclass(frozen=True)
class View:
    """The curves of one table and noise: for each measure its figure for each axis, or why there is none."""

    dataset: str
    noise: str
    figures: dict[str, dict[str, str]]
    legend: list[Sample]
    caption: str


@dataclass(frozen=True)
class Timing:
    """How long the runs of a method took on one device."""

    data: str
    method: str
    device: str
    runs: int
    median: str
    total: str


@dataclass(frozen=True)
class RunLine:
    """One run of the grid, done or missing."""

    cell: str
    also: str
    """Other tables that it stands in."""
    seed: str
    done: bool
    accuracy: str
    precision: str
    seconds: str
    name: str
    link: str


@dataclass(frozen=True)
class GridPage:
    """All that the report of a grid shows."""

    title: str
    lead: str
    tables: list[Numbers]
    without: list[str]
    """Tables that have nothing to show."""
    views: list[View]
    timings: list[Timing]
    total: str
    environments: list[tuple[int, dict[str, str]]]
    runs: list[RunLine]
    counts: dict[str, str]
    """For each table, how many of its runs are there."""
    number: str
    """How a run became a number."""
    command: str

    @property
    def datasets(self) -> list[str]:
        """What the curves can be switched to."""
        return list(dict.fromkeys(view.dataset for view in self.views))

    @property
    def noises(self) -> list[str]:
        """What the curves can be switched to; not every dataset need have all."""
        return list(dict.fromkeys(view.noise for view in self.views))


def render(page: GridPage) -> str:
    """The page as HTML."""
    return template("grid.html").render(page=page)


def build(grid: Grid, runs: Collection, choice: Choice, folder: Path, command: str) -> GridPage:
    """What the report shows. `folder` is where its file will be: links to the runs start from there."""
    found = {plan.title: [tabulate(plan, runs, measure, choice) for measure in MEASURES] for plan in grid.tables}
    shown = [table for tables in found.values() for table in tables if table.cells or table.printed]
    places = _places(grid)
    results = {name: runs.find(planned[0].config) for name, planned in places.items()}
    done = [result for result in results.values() if result is not None]
    lengths = [len(result.epochs) for result in done] or [planned[0].config.epochs for planned in places.values()]
    return GridPage(
        title=grid.title,
        lead=_lead(len(done), len(places)),
        tables=[_numbers(table) for table in shown],
        without=[title for title, tables in found.items() if not any(table in shown for table in tables)],
        views=list(_views(charts(grid, runs))),
        timings=_timings(done),
        total=_span(sum(result.device_seconds for result in done)),
        environments=_environments(done),
        runs=[_run_line(planned, results[name], choice, folder) for name, planned in places.items()],
        counts={plan.title: _count(plan, runs) for plan in grid.tables},
        number=choice.said_of(lengths),
        command=command,
    )


def _places(grid: Grid) -> dict[str, list[Planned]]:
    """Every run once, with each place that it has in a table."""
    places: dict[str, list[Planned]] = {}
    for planned in grid.planned():
        places.setdefault(planned.config.name, []).append(planned)
    return places


def _lead(done: int, asked: int) -> str:
    if done == asked:
        return f"All {asked} runs of the grid are here."
    return f"{done} of {asked} runs of the grid are here. Cells that have fewer seeds than asked for say how many."


def _count(plan: TablePlan, runs: Collection) -> str:
    done = sum(runs.find(planned.config) is not None for planned in plan.planned)
    return f"{done} of {len(plan.planned)} runs"


def _numbers(table: Table) -> Numbers:
    """A table of the analysis with its texts."""
    beside = table.said_beside()
    if table.compared:
        beside += f", marked where it is more than {_FAR:g} points"
    return Numbers(
        title=table.title,
        caption=table.caption + (f"; below each {beside}" if beside else ""),
        columns=table.columns,
        rows={row: [_number(table, row, column) for column in table.columns] for row in table.rows},
    )


def _number(table: Table, row: str, column: str) -> Number:
    measured, printed = table.cells.get((row, column)), table.printed.get((row, column))
    points = table.points(row, column)
    return Number(
        text=table.measured(row, column) if measured else "–",
        best=column in table.best(row),
        printed=f"{100 * printed.mean:.2f}" if printed else "",
        points="" if points is None else f"{points:+.2f}".replace("-", "−"),
        far=points is not None and round(abs(points), 2) > _FAR,
    )


def _views(found: list[Chart]) -> Iterator[View]:
    by_title: dict[str, list[Chart]] = {}
    for chart in found:
        by_title.setdefault(chart.title, []).append(chart)
    for title, measures in by_title.items():
        first = measures[0]
        caption, labels = first.key()
        for noise in first.panels:
            figures = {chart.measure: _figures(chart, noise, there=bool(first.panels[noise])) for chart in measures}
            there = {line.method for line in first.panels[noise]}
            legend = [_sample(method, label) for method, label in labels.items() if method in there]
            yield View(title, noise, figures, legend, caption if there else "")


def _figures(chart: Chart, noise: str, *, there: bool) -> dict[str, str]:
    """A figure for each axis; {} where there are runs, but none to draw."""
    if not chart.panels[noise]:
        return {} if there else {"none": ""}
    return {"cropped": panel(chart, noise, full=False), "full": panel(chart, noise, full=True)}


def _sample(method: str, label: str) -> Sample:
    style = method_style(method)
    return Sample(label, style.colour, " ".join(f"{style.width * length:g}" for length in style.dashes), style.width)


def _timings(done: list[Result]) -> list[Timing]:
    """By dataset, method and device: a median over different devices would say nothing."""
    groups: dict[tuple[str, str, str], list[float]] = {}
    for result in done:
        key = (data_name(result.config.data), result.config.method, str(result.summary["environment"]["device"]))
        groups.setdefault(key, []).append(result.device_seconds)
    methods = in_order({method for _, method, _ in groups})
    ordered = sorted(groups, key=lambda key: (key[0], methods.index(key[1]), key[2]))
    return [
        Timing(*key, len(groups[key]), f"{statistics.median(groups[key]):.1f}", _span(sum(groups[key])))
        for key in ordered
    ]


def _span(seconds: float) -> str:
    """A time that a person can imagine."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _environments(done: list[Result]) -> list[tuple[int, dict[str, str]]]:
    """The different environments, the most frequent first, each with its number of runs."""
    counted = Counter(json.dumps(result.summary["environment"]) for result in done)
    return [(count, _texts(json.loads(text))) for text, count in counted.most_common()]


def _texts(environment: dict[str, Any]) -> dict[str, str]:
    return {name: "unknown" if value is None else str(value) for name, value in environment.items()}


def _run_line(places: list[Planned], result: Result | None, choice: Choice, folder: Path) -> RunLine:
    first, *others = places
    config = first.config
    same = config.init_seed == config.order_seed
    return RunLine(
        cell=f"{first.table}: {first.row}, {first.column}",
        also=", ".join(planned.table for planned in others),
        seed=str(config.init_seed) if same else f"{config.init_seed}.{config.order_seed}",
        done=result is not None,
        accuracy=_percent(choice(result.epochs, test_accuracy)) if result else "–",
        precision=_percent(choice(result.epochs, label_precision)) if result else "–",
        seconds=f"{result.device_seconds:.1f}" if result else "–",
        name=result.path.name if result else "",
        link=_link(result.path, folder) if result else "",
    )


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f}"


def _link(path: Path, folder: Path) -> str:
    """From the report's folder to a run, as a browser reads it."""
    relative = Path(os.path.relpath(path, folder)).as_posix()
    return quote(f"{relative}/" if path.is_dir() else relative)
