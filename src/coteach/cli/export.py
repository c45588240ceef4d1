"""`coteach export`: a run, or its model, for another program."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from coteach.errors import SettingError, unknown

_USAGE = """usage: coteach export tensorboard RUN [RUN ...] [--out OUT]
       coteach export onnx MODEL [--out OUT]"""


@dataclass(frozen=True)
class TensorBoard:
    """Replay the epochs of runs, finished or not, for TensorBoard. Look at them with `tensorboard --logdir OUT`."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN ...]")]
    """Run folders."""
    out: Path = Path("tensorboard")
    """Folder for TensorBoard's files, one folder a run."""


@dataclass(frozen=True)
class Onnx:
    """Write a model as ONNX and compare it with torch in onnxruntime.

    The file takes samples as they are stored, images [n, height, width, channels] or vectors [n, features], and gives
    probabilities [n, classes].
    """

    model: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """Run folder, or another with model.json and weights.safetensors."""
    out: Path = Path("model.onnx")
    """File to write; it must not be there yet."""
    network: Annotated[str | None, tyro.conf.arg(metavar="MODULE:FUNCTION")] = None
    """Your own network, if the model was trained with one; it is imported."""


def main(argv: list[str]) -> int:
    """Export, and say where it is."""
    programs = {"tensorboard": _tensorboard, "onnx": _onnx}
    if not argv or argv[0] in ("-h", "--help"):
        print(_USAGE)
        return 0 if argv else 2
    if argv[0] not in programs:
        raise unknown("program to export to", argv[0], programs)
    programs[argv[0]](argv[1:])
    return 0


def _tensorboard(argv: list[str]) -> None:
    ask = tyro.cli(TensorBoard, prog="coteach export tensorboard", args=argv)
    if not ask.runs:
        raise SettingError("which run? give its folder, such as runs/digits-pair-45-co-teaching-s1-...")

    from coteach.results.tensorboard import export

    for run in ask.runs:
        print(export(run, ask.out))


def _onnx(argv: list[str]) -> None:
    ask = tyro.cli(Onnx, prog="coteach export onnx", args=argv)

    from coteach.model import load_model
    from coteach.model.onnx import export

    difference = export(load_model(ask.model, network=ask.network, device="cpu"), ask.out)
    print(ask.out)
    print(f"largest difference from torch in onnxruntime: {difference:.1e}")
