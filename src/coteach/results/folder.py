"""The folder of one run.

config.json            the whole config; written first
labels.npz             the labels it trained on, clean and noisy
epochs.jsonl           one line an epoch
checkpoint.pt          to go on from; gone when the run is done
failure.log            why the last try failed, if it did
weights.safetensors    the trained networks
evidence.npz           what the networks made of each sample, where nobody knows which labels are right
model.json             what they are of: classes, shape, preprocessing
summary.json           written last: it means that the run is done
"""

import dataclasses
import io
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import filelock
import numpy as np
from numpy.typing import NDArray

from coteach.config import Config
from coteach.errors import DataError, SettingError, StorageError
from coteach.noise import Draw, save_draw
from coteach.storage import storage_errors, write_over
from coteach.training.ledger import Ledger
from coteach.training.loop import EpochRecord

_LOOK = 1.0
"""Seconds to wait for a folder: `running` holds it for a moment, only to look."""


class RunFolder:
    """The files of one run, read and written whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config_file = path / "config.json"
        self.labels_file = path / "labels.npz"
        self.epochs_file = path / "epochs.jsonl"
        self.weights_file = path / "weights.safetensors"
        self.evidence_file = path / "evidence.npz"
        self.model_file = path / "model.json"
        self.summary_file = path / "summary.json"
        self.failure_file = path / "failure.log"

    @contextmanager
    def claimed(self, *, on_wait: Callable[[str], None] | None = None) -> Iterator[None]:
        """Hold the folder for this process; a second one is refused, or says so with `on_wait` and waits.

        A kill ends the claim too.
        """
        lock = filelock.FileLock(self.path / ".lock", timeout=_LOOK)
        with storage_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            try:
                lock.acquire()
            except filelock.Timeout:
                if on_wait is None:
                    raise StorageError(f"another process is working on {self.path}: wait for it, or stop it") from None
                on_wait(f"{self.path.name} is being made by another process: waiting for it")
                lock.acquire(timeout=-1)
        try:
            yield
        finally:
            lock.release()

    @property
    def done(self) -> bool:
        """Whether the run is finished."""
        return self.summary_file.exists()

    @property
    def running(self) -> bool:
        """Whether a process is working on the run."""
        lock = filelock.FileLock(self.path / ".lock", timeout=0)
        if not self.path.is_dir():
            return False
        try:
            with lock:
                return False
        except filelock.Timeout:
            return True

    @property
    def failed(self) -> bool:
        """Whether the last try to make the run failed."""
        return not self.done and self.failure_file.exists()

    def fail(self, log: str) -> None:
        """Keep why the run failed."""
        write_over(self.failure_file, log)

    def start(self, config: Config, draw: Draw) -> None:
        """Write what is known before the first step, unless it is there."""
        with storage_errors(self.failure_file, "delete"):
            self.failure_file.unlink(missing_ok=True)
        if not self.config_file.exists():
            self._write_json(self.config_file, config.to_dict())
        elif self.config().digest != config.digest:  # where the data lie may be another place than before
            raise DataError(f"{self.config_file} was changed: put it back, or delete the folder and run again")
        if not self.labels_file.exists():
            save_draw(draw, self.labels_file)

    def config(self) -> Config:
        """The config that the run was started with."""
        try:
            return Config.from_dict(self._read_json(self.config_file))
        except (SettingError, TypeError) as error:
            raise DataError(f"{self.config_file} is not of this version of coteach: {error}") from error

    def summary(self) -> dict[str, Any]:
        """What the run's last act wrote."""
        summary = self._read_json(self.summary_file)
        for key in ("epochs", "seconds", "environment"):
            if key not in summary:
                raise DataError(f"{self.summary_file} is damaged (it has no {key}): delete the folder and run again")
        return summary

    def finish(self, summary: dict[str, Any]) -> None:
        """Declare the run done."""
        self._write_json(self.summary_file, summary)

    def epochs(self) -> list[EpochRecord]:
        """Every epoch; a last line that a kill cut short does not count."""
        if not self.epochs_file.exists():
            return []
        records = []
        try:
            for line in self.epochs_file.read_text(encoding="utf-8").splitlines(keepends=True):
                if line.endswith("\n"):
                    records.append(record_from(json.loads(line)))
        except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
            raise DataError(f"{self.epochs_file} is damaged ({error}): delete the folder and run again") from error
        return records

    def write_evidence(self, ledger: Ledger) -> None:
        """Keep what the networks made of each sample."""
        content = io.BytesIO()
        np.savez_compressed(content, **{name: value.cpu().numpy() for name, value in ledger.state_dict().items()})
        write_over(self.evidence_file, content.getvalue())

    def evidence(self) -> dict[str, NDArray[Any]]:
        """What `write_evidence` kept: seen [sample], picked and loss [network, sample], each a sum over the epochs."""
        try:
            with np.load(self.evidence_file, allow_pickle=False) as file:
                return {name: file[name] for name in ("seen", "picked", "loss")}
        except Exception as error:  # numpy, zipfile and zlib each have their own for a damaged file
            raise DataError(f"cannot read {self.evidence_file} ({error}): delete the folder and run again") from error

    def rewrite_epochs(self, records: Iterable[EpochRecord]) -> None:
        """Make the file hold these epochs: a checkpoint knows which, the file may have more or be torn."""
        write_over(self.epochs_file, "".join(_line(record) for record in records))

    def append(self, record: EpochRecord) -> None:
        """Add one epoch."""
        with storage_errors(self.epochs_file), self.epochs_file.open("a", encoding="utf-8") as file:
            file.write(_line(record))

    def _read_json(self, path: Path) -> dict[str, Any]:
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error.strerror}") from error
        except ValueError as error:
            raise DataError(f"{path} is damaged ({error}): delete the folder and run again") from error
        if not isinstance(values, dict):
            raise DataError(f"{path} holds no table of values: delete the folder and run again")
        return values

    def _write_json(self, path: Path, values: dict[str, Any]) -> None:
        write_over(path, json.dumps(values, indent=2) + "\n")


def record_from(values: dict[str, Any]) -> EpochRecord:
    """The record that its `dataclasses.asdict` described."""
    measures = {name: tuple(each) for name, each in values.items() if name != "epoch"}
    return EpochRecord(epoch=values["epoch"], **measures)


def _line(record: EpochRecord) -> str:
    return json.dumps(dataclasses.asdict(record)) + "\n"
