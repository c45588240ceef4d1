"""Tables of runs: a row a noise, a column a method, as in the paper."""

from collections.abc import Sequence
from dataclasses import dataclass

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

    def best(self, row: str) -> str | None:
        """The method with the highest mean of a row."""
        there = {column: self.cells[row, column].mean for column in self.columns if (row, column) in self.cells}
        return max(there, key=there.__getitem__) if there else None

    def text(self, row: str, column: str) -> str:
        """What a cell says: mean ± std, and n where it is not the caption's."""
        found = self.cells.get((row, column))
        return found.percent() if found else "-"

    def rich(self) -> RichTable:
        """For a terminal, the best of each row in bold."""
        table = RichTable(title=self.title, caption=self.caption, title_justify="left", caption_justify="left")
        table.add_column("noise")
        for column in self.columns:
            table.add_column(column, justify="right")
        for row in self.rows:
            best = self.best(row)
            marked = [f"[bold]{self.text(row, c)}[/bold]" if c == best else self.text(row, c) for c in self.columns]
            table.add_row(row, *marked)
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
    counts = sorted({c.n for c in cells.values()})
    n = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return Table(
        title=title,
        caption=f"{title}, %: {choice.caption}; ± std over n = {n} seeds",
        rows=tuple(dict.fromkeys(row for row, _ in groups)),
        columns=tuple(in_order({column for _, column in groups})),
        cells=cells,
    )
