"""What the commands about a grid share: which grid, which part of it, and where its runs are."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from coteach.bench.grid import Grid
    from coteach.results.collection import Collection


@dataclass(frozen=True)
class Part:
    """A grid, or a part of one."""

    grid: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="GRID")]
    """A grid that comes with coteach (paper, mnist, cifar10, cifar100, digits, smoke, assumptions, f-correction,
    stage-one, schedule), or a TOML file."""
    only: tuple[str, ...] = ()
    """Only these tables, data, noises and methods, such as --only mnist pair-45 co-teaching."""
    seeds: int | None = None
    """The seeds from 1 to this number instead of the grid's."""

    def read(self) -> "Grid":
        """The part of the grid that is asked for."""
        from coteach.bench.grid import read_grid

        grid = read_grid(self.grid)
        if self.only:
            grid = grid.only(self.only)
        return grid if self.seeds is None else grid.repeated(self.seeds)


def say_passed_over(runs: "Collection") -> None:
    """Name what could not be read."""
    for cause in runs.passed_over:
        print(f"coteach: passed over: {cause}", file=sys.stderr)
