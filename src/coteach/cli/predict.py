"""`coteach predict`: what a trained model sees in samples."""

import csv
import io
import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from coteach.errors import DataError, SettingError

if TYPE_CHECKING:
    from coteach.model import Model

MOST_COLUMNS = 100
"""With more classes there is no column for each."""


@dataclass(frozen=True)
class Ask:
    """Predict the class of samples with a trained model, and print or write them as CSV.

    The columns are id, predicted_label, its probability and, with up to 100 classes, p_CLASS for each.
    """

    model: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """Run folder, or another with model.json and weights.safetensors."""
    data: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")]
    """Samples, no labels needed: a folder of images, a table, an .npz or .npy file, or a known dataset's test set."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """CSV file to write, which must not be there yet; by default standard output."""
    network: Annotated[str | None, tyro.conf.arg(metavar="MODULE:FUNCTION")] = None
    """Your own network, if the model was trained with one; it is imported."""
    device: str = "auto"
    """Device: auto takes a GPU when there is one, else the CPU."""
    json: bool = False
    """Print as JSON instead of CSV."""


def main(argv: list[str]) -> int:
    """Load, read, predict, print."""
    models = [word for word in argv if (Path(word) / "model.json").is_file()]
    if len(models) > 1:
        raise SettingError(
            f"{len(models)} models are given, maybe by a *, such as {models[0]} and {models[1]}: give one"
        )
    ask = tyro.cli(Ask, prog="coteach predict", args=argv)
    if ask.out is not None and ask.out.exists():
        raise SettingError(f"{ask.out} is there already: give another --out, or delete it first")

    from coteach.model import load_model
    from coteach.storage import write_over
    from coteach.training.device import set_threads

    set_threads(0)
    model = load_model(ask.model, network=ask.network, device=ask.device)
    x, ids = _samples(ask.data, model)
    rows = _rows(model.predict_proba(x), ids, model.class_names)
    if ask.out is not None:
        write_over(ask.out, _as_csv(rows))
    if ask.json:
        labels = Counter(row["predicted_label"] for row in rows)
        answer = {"samples": len(rows), "predicted": {name: labels[name] for name in model.class_names}}
        answer |= {"predictions": rows} if ask.out is None else {"file": str(ask.out)}
        json.dump(answer, sys.stdout, indent=2)
        print()
    elif ask.out is None:
        sys.stdout.write(_as_csv(rows))
    else:
        print(f"{len(rows):,} predictions in {ask.out}")
    return 0


def _samples(data: str, model: "Model") -> tuple[Any, Sequence[str]]:
    """The samples to predict, and what to call each."""
    from coteach.data import CATALOGUE, load, read_samples

    if data in CATALOGUE:
        x = load(data).x_test
        return x, list(map(str, range(len(x))))
    try:
        return read_samples(data, model.preprocessing, lambda note: print(note, file=sys.stderr))
    except (KeyError, TypeError, AttributeError) as error:
        cause = f"the model's preprocessing in model.json is damaged ({error})"
        raise DataError(f"{cause}: copy the model again, or train again") from error


def _rows(probabilities: Any, ids: Sequence[str], names: Sequence[str]) -> list[dict[str, Any]]:
    """One row a sample, its columns by name."""
    rows = []
    rounded = probabilities.astype(float).round(6).tolist()
    for each, best, found in zip(ids, probabilities.argmax(1), rounded, strict=True):
        shown = each.encode(errors="backslashreplace").decode()  # a file's name may be no text
        row = {"id": shown, "predicted_label": names[best], "probability": found[best]}
        if len(names) <= MOST_COLUMNS:
            row |= {f"p_{name}": p for name, p in zip(names, found, strict=True)}
        rows.append(row)
    return rows


def _as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
