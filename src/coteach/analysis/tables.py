"""Tables of runs: a row a noise, a column a method, as in the paper."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.markup import escape
from rich.table import Table as RichTable

from coteach.analysis.numbers import Cell, Choice, Measure, cell
from coteach.paper import in_order
from coteach.results.run import Result


@dataclass(frozen=True)
class Table:
    """Cells by noise and method, and how their numbers were made."""

    title: str
    caption: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: dict[tuple[str, str], Cell]
    n: int
    """Repetitions behind a cell, where the cell does not say otherwise."""

    def best(self, row: str) -> str | None:
        """The method with the highest mean of a row."""
        there = {column: self.cells[row, column].mean for column in self.columns if (row, column) in self.cells}
        return max(there, key=there.__getitem__) if there else None

    def text(self, row: str, column: str) -> str:
        """What a cell says: mean ± std, and n where it is not the caption's."""
        found = self.cells.get((row, column))
        if found is None:
            return "-"
        return found.percent() if found.n == self.n else f"{found.percent()} (n = {found.n})"

    def to_list(self) -> list[dict[str, Any]]:
        """The cells as plain values."""
        return [
            {"table": self.title, "noise": row, "method": column, **vars(found)}
            for (row, column), found in self.cells.items()
        ]

    def rich(self) -> RichTable:
        """For a terminal, the best of each row in bold."""
        title, caption = escape(self.title), escape(self.caption)
        table = RichTable(title=title, caption=caption, title_justify="left", caption_justify="left")
        table.add_column("noise")
        for column in self.columns:
            table.add_column(column, justify="right")
        for row in self.rows:
            best = self.best(row)
            marked = [f"[bold]{self.text(row, c)}[/bold]" if c == best else self.text(row, c) for c in self.columns]
            table.add_row(escape(row), *marked)
        return table

    def markdown(self) -> str:
        """For a README, the best of each row in bold."""
        lines = ["| noise | " + " | ".join(self.columns) + " |", "|---|" + "---:|" * len(self.columns)]
        for row in self.rows:
            best = self.best(row)
            marked = [f"**{self.text(row, c)}**" if c == best else self.text(row, c) for c in self.columns]
            lines.append(f"| {row} | " + " | ".join(marked) + " |")
        return "\n".join([*lines, "", f"{self.caption}."]) + "\n"


def table(title: str, results: Sequence[Result], measure: Measure, choice: Choice) -> Table:
    """The table of some runs, their rows in the order of the runs, their columns in the paper's."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        groups.setdefault((result.config.noise_name, result.config.method), []).append(result)
    cells = {
        place: found
        for place, runs in groups.items()
        if (found := cell(choice(run.epochs, measure) for run in runs)) is not None
    }
    n = max((c.n for c in cells.values()), default=0)
    return Table(
        title=title,
        caption=f"{title}, %: {choice.caption}; " + (f"± std over n = {n} seeds" if n > 1 else "n = 1 seed"),
        rows=tuple(dict.fromkeys(row for row, _ in groups)),
        columns=tuple(in_order({column for _, column in groups})),
        cells=cells,
        n=n,
    )
