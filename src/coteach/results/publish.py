"""A finished run as one small JSON file, to be committed beside a table."""

import json
from pathlib import Path
from typing import Any

from coteach.results.run import Result
from coteach.storage import write_over

_MEASURES = ("test_accuracy", "train_loss", "label_precision", "picked", "held_out_loss")


def compact(result: Result) -> dict[str, Any]:
    """Config, epochs and summary of a run; a measure is a list with one entry an epoch, one number a network."""
    epochs = {
        measure: [[round(value, 5) for value in getattr(record, measure)] for record in result.epochs]
        for measure in _MEASURES
    }
    measured = {measure: values for measure, values in epochs.items() if any(values)}
    return {"config": result.config.to_dict(), "summary": result.summary, "epochs": measured}


def publish(results: list[Result], folder: Path) -> None:
    """Write each run to `folder` under the name of its run folder."""
    for result in results:
        text = json.dumps(compact(result), separators=(",", ":"))
        write_over(folder / f"{result.config.name}.json", text + "\n")
