"""`coteach noise`: draw wrong labels and save them."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import tyro

from coteach.errors import SettingError


@dataclass(frozen=True)
class Ask:
    """Draw wrong labels for a dataset and save them to a file that others can train on (--noise FILE.npz)."""

    data: str
    """Dataset: a known name or the path of your own data."""
    noise: str
    """pair, symmetric, or the path of a transition matrix (.csv, .npy)."""
    out: Path
    """File to write, ending in .npz."""
    rate: float | None = None
    """Share of labels to make wrong, for pair and symmetric."""
    seed: int = 0
    """Seed of the draw."""
    label: str = ""
    """Where the labels of your own data are: a column of a table, or an .npy file. As for `coteach train`."""
    test: str = ""
    """Path of a test set for your own data. As for `coteach train`."""
    test_share: float = 0.2
    """Share of your own data to hold out for testing if there is no test set. As for `coteach train`."""
    json: bool = False
    """Print the result as JSON."""


def main(argv: list[str]) -> int:
    """Draw, save and say what was really drawn."""
    ask = tyro.cli(Ask, prog="coteach noise", args=argv)
    if ask.out.suffix != ".npz":
        raise SettingError("the labels go into an .npz file: give a name such as --out labels.npz")
    if ask.noise.endswith(".npz"):
        raise SettingError(f"{ask.noise} holds labels that are drawn already: give pair, symmetric or a matrix")
    if ask.out.exists():
        raise SettingError(f"{ask.out} is there already: give another --out, or delete it first")

    from coteach.data import load_source
    from coteach.noise import save_draw
    from coteach.recipes import recipe
    from coteach.training.setup import draw_labels

    config = recipe(
        ask.data,
        noise=ask.noise,
        rate=ask.rate,
        method="standard",
        noise_seed=ask.seed,
        label=ask.label,
        test=ask.test,
        test_share=ask.test_share,
    )
    dataset = load_source(config.source)
    for note in dataset.notes:
        print(note, file=sys.stderr)
    draw = draw_labels(config, dataset)
    save_draw(draw, ask.out)
    if ask.json:
        json.dump({"file": str(ask.out), "sha256": draw.sha256, "rate": draw.rate, "seed": ask.seed}, sys.stdout)
        print()
    else:
        wrong = int((draw.noisy != draw.clean).sum())
        print(f"{wrong:,} of {len(draw.noisy):,} labels are wrong ({100 * draw.rate:.2f} %)")
        print(f"sha256 {draw.sha256}")
        print(f"saved in {ask.out}; train on them with --noise {ask.out}")
    return 0
