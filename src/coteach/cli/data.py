"""`coteach data`: list, fetch and verify the datasets."""

import json
import sys
from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from coteach.data import CATALOGUE, NAMES, cache_folder, fetch, status, verify

_Name = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME", help=f"One of {', '.join(NAMES)}.")]


@dataclass(frozen=True)
class List:
    """Show the known datasets and which of them are here."""

    json: bool = False
    """Print as JSON."""


@dataclass(frozen=True)
class Fetch:
    """Bring a dataset into the cache folder and verify it. A broken download goes on where it broke off."""

    name: _Name


@dataclass(frozen=True)
class Verify:
    """Check a dataset that is here against its checksums."""

    name: _Name


def main(argv: list[str]) -> int:
    """Do one of the three."""
    ask: List | Fetch | Verify = tyro.extras.subcommand_cli_from_dict(
        {"list": List, "fetch": Fetch, "verify": Verify},
        prog="coteach data",
        description="List, fetch and verify the datasets. COTEACH_DATA names another cache folder.",
        args=argv,
    )
    if isinstance(ask, Fetch):
        _fetch(ask.name)
    elif isinstance(ask, Verify):
        for check in verify(ask.name):
            print(f"right  {check.what:<28} sha256 {check.sha256}")
    else:
        _list(as_json=ask.json)
    return 0


def _list(*, as_json: bool) -> None:
    rows = [(CATALOGUE[name], status(name)) for name in NAMES]
    if as_json:
        listed = [
            {"name": k.name, "title": k.title, "train": k.train, "test": k.test, "classes": k.classes,
             "shape": k.shape, "state": s.state, "where": str(s.where) if s.where else None}
            for k, s in rows
        ]  # fmt: skip
        json.dump(listed, sys.stdout, indent=2)
        print()
        return
    for known, state in rows:
        size = "×".join(map(str, known.shape))
        print(
            f"{known.name:<14} {known.train:>6,} + {known.test:>6,}  {size:<8}{known.classes:>4} classes  {state.state}"
        )
    print(f"cache folder: {cache_folder()}")


def _fetch(name: str) -> None:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        tasks: dict[str, TaskID] = {}

        def report(message: str, done: int | None, total: int | None) -> None:
            if done is None:
                print(message, file=sys.stderr) if bars.disable else bars.console.print(message, highlight=False)
            else:
                if message not in tasks:
                    tasks[message] = bars.add_task(message, total=total)
                bars.update(tasks[message], completed=done, total=total)

        fetch(name, report)
