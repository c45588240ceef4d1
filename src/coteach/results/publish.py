"""A finished run as one small JSON file, to be committed beside a table, and read again."""

import json
from pathlib import Path
from typing import Any

from coteach.config import Config
from coteach.errors import DataError, SettingError, StorageError
from coteach.results.run import Result, epochs_made
from coteach.storage import write_over
from coteach.training.loop import EpochRecord

_MEASURES = ("test_accuracy", "train_loss", "label_precision", "picked", "held_out_loss")

_MATRICES = ("noise_matrix", "matrix_of_stage_one", "matrix_at_the_end")
_MOST_CLASSES = 20
"""With more, matrices are left out: they would be most of the file."""
_SHARES = ("test_accuracy", "label_precision", "picked")


def compact(result: Result) -> dict[str, Any]:
    """Config, epochs and summary of a run, without large matrices.

    A measure is a list with one entry an epoch, one number a network.
    """
    epochs = {
        measure: [[round(value, 5) for value in getattr(record, measure)] for record in result.epochs]
        for measure in _MEASURES
    }
    measured = {measure: values for measure, values in epochs.items() if any(values)}
    many = len(result.summary.get("class_names", ())) > _MOST_CLASSES
    summary = {name: value for name, value in result.summary.items() if not (many and name in _MATRICES)}
    return {"config": result.config.to_dict(), "summary": summary, "epochs": measured}


def read_published(path: Path) -> Result:
    """The run in a file that `publish` wrote; its numbers are rounded to five digits."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        config, summary, measured = Config.from_dict(content["config"]), content["summary"], content["epochs"]
        if not summary["seconds"] >= 0 or not isinstance(summary["environment"]["device"], str):
            raise ValueError("its summary is damaged")
        made = epochs_made(config, summary)
        for name, values in measured.items():
            if len(values) != made:
                raise ValueError(f"its {name} has {len(values)} of {made} epochs")
        records = [
            EpochRecord(
                epoch, **{name: tuple(measured[name][epoch - 1]) if name in measured else () for name in _MEASURES}
            )
            for epoch in range(1, made + 1)
        ]
        if not all(0 <= share <= 1 for record in records for name in _SHARES for share in getattr(record, name)):
            raise ValueError("it has a share that is not between 0 and 1")
        return Result(config, path, records, summary, already_done=True)
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, SettingError) as error:
        raise DataError(f"{path} is no published run ({error}): take it out of the folder") from error


def publish(results: list[Result], folder: Path) -> None:
    """Write each run to `folder` under the name of its run folder."""
    for result in results:
        text = json.dumps(compact(result), separators=(",", ":"))
        write_over(folder / f"{result.config.name}.json", text + "\n")
