"""`coteach figures`: the figures of a grid."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from coteach.cli.grids import Part, say_passed_over


@dataclass(frozen=True)
class Ask(Part):
    """Draw the figures of a grid from the runs that are there.

    Test accuracy and label precision against the epoch, each with a cropped and with a full axis, and the paper's
    Figure 2. The same runs give the same bytes.
    """

    runs: Path = Path("runs")
    """Folder with run folders, or with published runs, such as results/paper."""
    out: Path = Path("figures")
    """Folder for the figures."""
    formats: tuple[Literal["svg", "pdf", "png"], ...] = ("svg", "pdf", "png")
    """File formats."""


def main(argv: list[str]) -> int:
    """Draw, print the files and say which figures have no runs."""
    ask = tyro.cli(Ask, prog="coteach figures", args=argv)

    from coteach.analysis.charts import charts
    from coteach.analysis.figures import draw
    from coteach.results.collection import read_runs

    grid, runs = ask.read(), read_runs(ask.runs)
    say_passed_over(runs)
    for path in draw(grid, runs, ask.out, ask.formats):
        print(path)
    drawn = charts(grid, runs)
    there = {chart.title for chart in drawn if not chart.empty}
    for chart in drawn:
        if chart.empty:
            why = (
                "not measured, or no method there leaves samples out"
                if chart.title in there
                else f"no runs in {ask.runs}"
            )
            print(f"no figure of {chart.title}, {chart.measure}: {why}", file=sys.stderr)
    return 0
