"""`coteach estimate`: how many labels are wrong, and how."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

if TYPE_CHECKING:
    from coteach.estimate.combined import Estimate
    from coteach.noise import Draw

_CONFUSIONS = 5


@dataclass(frozen=True)
class Ask:
    """Estimate how many labels are wrong: two networks, each trained on one half of the data, score the other half.

    The same command again goes on where it stopped, or reads the finished scores. With --noise and --rate, known wrong
    labels are put on the data first, to see how good the estimate is.
    """

    data: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")]
    """Dataset: a known name or the path of your own data."""
    label: str = ""
    """Where the labels of your own data are: a column of a table, or an .npy file. As for `coteach train`."""
    image_size: int = 0
    """Pixels on each side that image files are brought to. As for `coteach train`."""
    network: str | None = None
    """Network; by default the one that suits the data. As for `coteach train`."""
    noise: str = "none"
    """Noise to put on the labels first: pair, symmetric, a matrix or saved labels. As for `coteach train`."""
    rate: float | None = None
    """Share of labels to make wrong, for pair and symmetric."""
    noise_seed: int = 0
    """Seed of the noise draw."""
    seed: int = 1
    """Seed of the halves, the networks and the order of samples."""
    out: Path = Path("runs")
    """Folder for the warm-up's folder."""
    device: str = "auto"
    """Device: auto takes a GPU when there is one, else the CPU."""
    threads: int = 0
    """CPU threads; 0 for as many as pay: one for a small network, else one a core."""
    json: bool = False
    """Print the result as JSON on standard output."""
    quiet: bool = False
    """No progress, and no notes on the data."""


def main(argv: list[str]) -> int:
    """Warm up, estimate, print."""
    ask = tyro.cli(Ask, prog="coteach estimate", args=argv)

    from coteach.data import load_source
    from coteach.estimate.prepare import prepare
    from coteach.progress import RunProgress
    from coteach.recipes import recipe, saved_labels
    from coteach.training.device import choose_device, threads
    from coteach.training.setup import draw_labels, threads_that_pay

    own = {"label": ask.label, "image_size": ask.image_size, "test_share": 0.0}
    config = recipe(
        ask.data,
        noise=ask.noise,
        rate=ask.rate,
        method="standard",
        name="own",
        seed=ask.seed,
        noise_seed=ask.noise_seed,
        **({"network": ask.network} if ask.network else {}),
        **own,
    )
    dataset = load_source(config.source)
    draw = draw_labels(config, dataset, saved_labels(ask.noise))
    with RunProgress(quiet=ask.quiet) as progress, threads(ask.threads or threads_that_pay(config, dataset)):
        for note in dataset.notes:
            progress.message(note)
        prepared = prepare(
            config, dataset, draw, device=choose_device(ask.device), out=ask.out, on_progress=progress.step
        )
    truth = draw if ask.noise != "none" else None
    if ask.json:
        answer = prepared.estimate.to_dict() | {"samples": len(draw.noisy), "class_names": list(dataset.class_names)}
        json.dump(answer | ({} if truth is None else {"true_rate": truth.rate}), sys.stdout, indent=2)
        print()
        return 0
    _show(prepared.estimate, dataset.class_names, truth)
    return 0


def _show(found: "Estimate", names: tuple[str, ...], truth: "Draw | None") -> None:
    from rich.table import Table

    from coteach.progress import console

    table = Table(title="Share of wrong labels, %", title_justify="left")
    for column in ("estimator", "rate", "between"):
        table.add_column(column, justify="left" if column == "estimator" else "right")
    for part in found.parts[:-1]:
        table.add_row(part.name, f"{100 * part.rate:.1f}", f"{100 * part.low:.1f} and {100 * part.high:.1f}")
    table.add_row(f"{found.parts[-1].name} (at most)", f"{100 * found.parts[-1].rate:.1f}", "", end_section=True)
    together = f"{100 * found.low:.1f} and {100 * found.high:.1f}"
    table.add_row("together", f"{100 * found.rate:.1f}", together, style="bold")
    out = console()
    out.print(table)
    if truth is not None:
        out.print(f"really wrong: {100 * truth.rate:.1f} %", soft_wrap=True)
    for warning in found.warnings:
        out.print(f"not sure: {warning}", soft_wrap=True, markup=False)
    off = [(found.matrix[i, j], i, j) for i in range(len(names)) for j in range(len(names)) if i != j]
    for share, true, given in sorted(off, reverse=True)[:_CONFUSIONS]:
        if share >= 0.005:
            line = f"{100 * share:.0f} % of {names[true]} are labelled {names[given]}"
            out.print(line, soft_wrap=True, markup=False)
