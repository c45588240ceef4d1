"""`coteach table`: the tables of a grid, measured beside printed."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from coteach.cli.grids import Part, say_passed_over


@dataclass(frozen=True)
class Ask(Part):
    """Print the tables of a grid from the runs that are there, beside the numbers that the paper prints."""

    runs: Path = Path("runs")
    """Folder with run folders, or with published runs, such as results/paper."""
    number: Literal["last-ten", "final", "best"] = "last-ten"
    """How a run becomes one number: mean of the last ten epochs (the paper's way), the last epoch, or the best."""
    measure: tuple[Literal["accuracy", "precision"], ...] = ("accuracy", "precision")
    """Test accuracy, label precision, or both."""
    format: Literal["text", "markdown", "latex", "csv", "json"] = "text"
    """How to print it."""


def main(argv: list[str]) -> int:
    """Print the tables."""
    ask = tyro.cli(Ask, prog="coteach table", args=argv)

    from coteach.analysis.numbers import CHOICES
    from coteach.analysis.tables import as_csv, latex, markdown, show, tables
    from coteach.progress import console
    from coteach.results.collection import read_runs

    grid = ask.read()
    runs = read_runs(ask.runs)
    say_passed_over(runs)
    found = tables(grid, runs, CHOICES[ask.number], *ask.measure)
    if not any(runs.find(planned.config) for planned in grid.planned()):
        print(f"coteach: none of the runs asked for is in {ask.runs}: give another folder with --runs", file=sys.stderr)
    match ask.format:
        case "text":
            for each in found:
                show(each, console())
        case "markdown":
            print("\n".join(map(markdown, found)), end="")
        case "latex":
            print("\n".join(map(latex, found)), end="")
        case "csv":
            print(as_csv(found), end="")
        case "json":
            json.dump([cell for each in found for cell in each.to_list()], sys.stdout, indent=2)
            print()
    return 0 if found else 1
