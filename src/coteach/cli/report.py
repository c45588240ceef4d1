"""`coteach report`: a grid's tables, figures and runs in one HTML page."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from coteach.cli.grids import Part, say_passed_over


@dataclass(frozen=True)
class Ask(Part):
    """Write the tables, the figures and the list of runs of a grid into one HTML page that works offline."""

    runs: Path = Path("runs")
    """Folder with run folders, or with published runs, such as results/paper."""
    out: Path = Path("report.html")
    """File to write."""
    number: Literal["last-ten", "final", "best"] = "last-ten"
    """How a run becomes one number: mean of the last ten epochs (the paper's way), the last epoch, or the best."""


def main(argv: list[str]) -> int:
    """Write the page and say where it is."""
    ask = tyro.cli(Ask, prog="coteach report", args=argv)

    from coteach.analysis.numbers import CHOICES
    from coteach.report.grid import build, render
    from coteach.results.collection import read_runs
    from coteach.storage import write_over

    command = shlex.join(["coteach", "report", *argv])
    grid = ask.read()
    runs = read_runs(ask.runs)
    say_passed_over(runs)
    page = build(grid, runs, CHOICES[ask.number], ask.out.parent, command)
    write_over(ask.out, render(page))
    done = sum(run.done for run in page.runs)
    print(f"{ask.out}: {done} of {len(page.runs)} runs")
    return 0
