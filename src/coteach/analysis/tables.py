"""The tables of a grid: a row a noise, a column a method, as in the paper, beside the numbers that the paper prints."""

import csv
import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table as RichTable

from coteach.analysis.numbers import LAST_TEN, MEASURES, Choice, cell, test_accuracy
from coteach.bench.grid import Grid, TablePlan
from coteach.bench.status import duration
from coteach.paper import Cell
from coteach.results.collection import Collection


@dataclass(frozen=True)
class Table:
    """Cells by row and column, and how their numbers were made."""

    title: str
    caption: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: dict[tuple[str, str], Cell]
    printed: dict[tuple[str, str], Cell]
    n: int
    """Repetitions asked for; a cell that has fewer says how many."""
    number: str
    """The name of how a run became one number."""
    about: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    """The data, measure, noise and method of each cell."""
    source: str = ""
    """Whose printed numbers these are, if not this table's."""
    seconds: tuple[float, ...] = ()
    """How long each run behind the cells took."""

    @property
    def compared(self) -> bool:
        """Whether the numbers can be held against the printed ones, which are means of the last ten epochs."""
        return bool(self.printed) and self.number == LAST_TEN.name

    def best(self, row: str) -> set[str]:
        """The columns with the highest mean as shown; none while a column is missing, for that may be the best."""
        shown = {c: round(100 * self.cells[row, c].mean, 2) for c in self.columns if (row, c) in self.cells}
        if not len(shown) == len(self.columns) > 1:
            return set()
        return {column for column, mean in shown.items() if mean == max(shown.values())}

    def difference(self, row: str, column: str) -> float | None:
        """Measured minus printed; None if one is missing, or if this number is not of the last ten epochs."""
        if not self.compared:
            return None
        measured, printed = self.cells.get((row, column)), self.printed.get((row, column))
        return measured.mean - printed.mean if measured and printed else None

    def measured(self, row: str, column: str) -> str:
        """Mean ± std, and n where it is not what was asked for."""
        found = self.cells.get((row, column))
        if found is None:
            return "-"
        return found.percent() if found.n == self.n else f"{found.percent()} (n = {found.n})"

    def beside(self, row: str, column: str) -> str:
        """The printed number, and by how many points the measured one differs; empty if none is printed."""
        printed, points = self.printed.get((row, column)), self.points(row, column)
        if printed is None:
            return ""
        return f"{100 * printed.mean:.2f}" if points is None else f"{100 * printed.mean:.2f}, {points:+.2f}"

    def points(self, row: str, column: str) -> float | None:
        """The difference in percent, of the numbers as they are shown, so that a reader who subtracts finds it."""
        if self.difference(row, column) is None:
            return None
        measured, printed = (round(100 * cells[row, column].mean, 2) for cells in (self.cells, self.printed))
        return measured - printed

    def full_caption(self) -> str:
        """The caption; it says what brackets are, if there are printed numbers, and what the runs took."""
        took = f"; {_runs(len(self.seconds))} took {duration(sum(self.seconds))}" if self.seconds else ""
        beside = self.said_beside()
        return self.caption + (f"; in brackets {beside}" if beside else "") + took

    def said_beside(self) -> str:
        """What stands beside the measured numbers, if anything does."""
        if not self.printed:
            return ""
        what = f"the number printed{self.source}"
        return f"{what} and the difference from it" if self.compared else f"{what}, which is of the last ten epochs"

    def text(self, row: str, column: str, form: "Form") -> str:
        """A cell: measured, in bold if it is the best of its row, and beside it what is printed."""
        text, beside = form.escape(self.measured(row, column)), self.beside(row, column)
        text = form.bold(text) if column in self.best(row) else text
        return text + form.between + form.small(form.escape(f"({beside})")) if beside else text

    def lines(self, form: "Form") -> list[list[str]]:
        """The rows as texts, each with its name first."""
        return [[form.escape(row), *(self.text(row, column, form) for column in self.columns)] for row in self.rows]

    def to_list(self) -> list[dict[str, Any]]:
        """The cells as plain values, those that are only printed too."""
        values = []
        for row in self.rows:
            for column in self.columns:
                measured, printed = self.cells.get((row, column)), self.printed.get((row, column))
                if measured or printed:
                    values.append(
                        {
                            "table": self.title,
                            "row": row,
                            "column": column,
                            **self.about.get((row, column), {}),
                            "number": self.number,
                            "mean": measured.mean if measured else None,
                            "std": measured.std if measured else None,
                            "n": measured.n if measured else 0,
                            "n_asked": self.n,
                            "printed_mean": printed.mean if printed else None,
                            "printed_std": printed.std if printed else None,
                            "difference": self.difference(row, column),
                        }
                    )
        return values


def tabulate(plan: TablePlan, runs: Collection, measure: str, choice: Choice) -> Table:
    """A table of a grid, filled with the runs that are there; `measure` is a key of `MEASURES`."""
    title, values = MEASURES[measure]
    groups: dict[tuple[str, str], list[float | None]] = {}
    about, seconds, lengths = {}, {}, []
    for planned in plan.planned:
        result = runs.find(planned.config)
        place = groups.setdefault((planned.row, planned.column), [])
        tags = planned.tags()
        about[planned.row, planned.column] = {
            "measure": title,
            **{tag: tags[tag] for tag in ("data", "noise", "method")},
        }
        lengths.append(planned.config.epochs if result is None else len(result.epochs))
        if result is not None:
            place.append(choice(result.epochs, values))
            seconds[result.path] = result.device_seconds  # a run may stand in several cells
    cells = {place: found for place, numbers in groups.items() if (found := cell(numbers)) is not None}
    return Table(
        title=f"{plan.title}, {title}",
        caption=f"{_subject(plan)}, {title}, %: {choice.said_of(lengths)}; {_spread(len(plan.seeds), cells)}",
        rows=tuple(dict.fromkeys(row for row, _ in groups)),
        columns=tuple(dict.fromkeys(column for _, column in groups)),
        cells=cells,
        printed=plan.printed_cells() if values is test_accuracy else {},
        n=len(plan.seeds),
        number=choice.name,
        about=about,
        source="" if plan.printed is None or plan.printed.split("_")[0] == plan.data else f" for {plan.printed}",
        seconds=tuple(seconds.values()),
    )


def _subject(plan: TablePlan) -> str:
    """What a table is about; the one method of a sweep has no row or column that names it."""
    method = f", {plan.methods[0]}" if plan.sweep and len(plan.all_methods) == 1 else ""
    return f"{plan.title} ({plan.data}{method})"


def _spread(n: int, cells: Mapping[tuple[str, str], Cell]) -> str:
    fewer = ", or as many as a cell says" if any(found.n != n for found in cells.values()) else ""
    return f"mean ± std over n = {n} seeds{fewer}" if n > 1 else "n = 1 seed"


def _runs(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"


def tables(grid: Grid, runs: Collection, choice: Choice, *measures: str) -> list[Table]:
    """The tables of a grid that have a number to show."""
    found = [tabulate(plan, runs, measure, choice) for plan in grid.tables for measure in measures or MEASURES]
    return [table for table in found if table.cells or table.printed]


@dataclass(frozen=True)
class Form:
    """How a kind of text marks things up."""

    escape: Callable[[str], str]
    bold: Callable[[str], str]
    small: Callable[[str], str]
    between: str = " "
    """What stands between the measured number and the printed one."""


def show(table: Table, console: Console) -> None:
    """Print it on a terminal or into a file, the best of each row in bold.

    A table that is wider than the terminal is turned, with the printed numbers on lines of their own.
    """
    shown = _rich(table, _TERMINAL, turned=False)
    if Measurement.get(console, console.options.update(max_width=10_000), shown).maximum > console.width:
        shown = _rich(table, replace(_TERMINAL, between="\n"), turned=True)
    console.print(shown)
    console.print(f"{table.full_caption()}\n", style="dim", markup=False, soft_wrap=True)


_TERMINAL = Form(escape, lambda text: f"[bold]{text}[/bold]", lambda text: f"[dim]{text}[/dim]")


def _rich(table: Table, form: Form, *, turned: bool) -> RichTable:
    shown = RichTable(title=escape(table.title), title_justify="left")
    shown.add_column("", no_wrap=True)
    for column in table.rows if turned else table.columns:
        shown.add_column(escape(column), justify="right", no_wrap=True)
    if turned:
        for column in table.columns:
            shown.add_row(escape(column), *(table.text(row, column, form) for row in table.rows))
    else:
        for line in table.lines(form):
            shown.add_row(*line)
    return shown


_MARKDOWN = Form(lambda text: text.replace("|", r"\|"), lambda text: f"**{text}**", str, between="<br>")


def markdown(table: Table) -> str:
    """For a README, the best of each row in bold."""
    titles = map(_MARKDOWN.escape, table.columns)
    lines = ["| | " + " | ".join(titles) + " |", "|---|" + "---:|" * len(table.columns)]
    lines += ["| " + " | ".join(line) + " |" for line in table.lines(_MARKDOWN)]
    return "\n".join([*lines, "", f"{table.full_caption()}."]) + "\n"


_SPECIAL = {special: rf"\{special}" for special in "%&#_${}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "±": r"$\pm$",
}


def _latex_text(text: str) -> str:
    """A text with TeX's special characters escaped; a minus or plus before a digit is a sign."""
    escaped = "".join(_SPECIAL.get(character, character) for character in text)
    return re.sub(r"(?<=, )([-+])(?=\d)", r"$\1$", escaped)


_LATEX = Form(_latex_text, lambda text: rf"\textbf{{{text}}}", lambda text: rf"{{\scriptsize {text}}}")


def latex(table: Table) -> str:
    """A table environment for the booktabs package."""
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_latex_text(table.full_caption())}.}}",
            rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}",
            r"\toprule",
            " & ".join(["", *map(_latex_text, table.columns)]) + r" \\",
            r"\midrule",
            *(" & ".join(line) + r" \\" for line in table.lines(_LATEX)),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


_FIELDS = (
    "table", "row", "column", "measure", "data", "noise", "method",
    "number", "mean", "std", "n", "n_asked", "printed_mean", "printed_std", "difference",
)  # fmt: skip


def as_csv(found: list[Table]) -> str:
    """One line a cell, shares in full precision."""
    buffer = io.StringIO()
    values = [cell for table in found for cell in table.to_list()]
    writer = csv.DictWriter(buffer, _FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(values)
    return buffer.getvalue()
