"""`coteach export tensorboard`: a run for another program."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from coteach.errors import SettingError, unknown


@dataclass(frozen=True)
class Ask:
    """Replay the epochs of runs, finished or not, for TensorBoard. Look at them with `tensorboard --logdir OUT`."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN ...]")]
    """Run folders."""
    out: Path = Path("tensorboard")
    """Folder for TensorBoard's files, one folder a run."""


def main(argv: list[str]) -> int:
    """Export each run and say where it is."""
    if not argv or argv[0] in ("-h", "--help"):
        print("usage: coteach export tensorboard RUN [RUN ...] [--out OUT]")
        return 0 if argv else 2
    if argv[0] != "tensorboard":
        raise unknown("program to export to", argv[0], ["tensorboard"])
    ask = tyro.cli(Ask, prog="coteach export tensorboard", args=argv[1:])
    if not ask.runs:
        raise SettingError("which run? give its folder, such as runs/digits-pair-45-co-teaching-s1-...")

    from coteach.results.tensorboard import export

    for run in ask.runs:
        print(export(run, ask.out))
    return 0
