"""What a worker of a cluster does: make a run, tell of it, and hand over its files."""

import contextlib
import hashlib
import os
import pickle
import platform
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from coteach.bench.jobs import Failure, Job, Worker
from coteach.data import Dataset
from coteach.results.checkpoint import Checkpoints
from coteach.results.folder import RunFolder
from coteach.results.run import InterruptedRun, Progress, Runner
from coteach.storage import storage_errors, write_over

_PAUSE = 1.0  # seconds between two words of a run
_PATIENCE = 10.0  # seconds that a word may take to arrive


@dataclass(frozen=True)
class How:
    """What a worker must know to make any job."""

    home: str
    """The machine of the driver."""
    out: Path
    mark: str
    """The name of a file in `out`: who finds it there sees the driver's folder."""
    device: str
    threads: int
    checkpoint_every: float

    @property
    def folder(self) -> Path | None:
        """The driver's folder, if it is seen from here."""
        with contextlib.suppress(OSError):  # it may be closed to us
            if (self.out / self.mark).is_file():
                return self.out
        return None


class Outcome(NamedTuple):
    """A worker's last word on a job."""

    failure: Failure | None = None
    files: dict[str, bytes] | None = None
    """The finished run, if it was made where the driver cannot see it."""
    place: "Place | None" = None
    """Where that is."""
    stopped: bool = False
    """It was asked to stop, and saved where it stood."""


class Place(NamedTuple):
    """A folder on a node."""

    node: str
    folder: str


class Started(NamedTuple):
    """A worker's first word on a job."""


def make(how: How, job: Job, dataset: Dataset, first: list[Any], mailbox: Any) -> Outcome:
    """Make a job in the process of a worker."""
    import ray

    tell = _Teller(mailbox, job.name)
    tell(Started())
    tell.wait()
    out = how.folder or node_folder(how)
    if out != how.out and job.needs is not None and first:
        bring(ray.get(first[0]), out / job.needs)
    runner = Runner(out, how.device, how.threads, how.checkpoint_every, on_progress=tell, on_message=tell)
    try:
        failure = Worker(runner).make(job, dataset)
    except InterruptedRun:
        if not RunFolder(out / job.name).done:
            return Outcome(stopped=True)
        failure = None
    tell.wait()
    if out == how.out or failure is not None:
        return Outcome(failure)
    place = Place(ray.get_runtime_context().get_node_id(), str(out))
    return Outcome(files=finished_files(out / job.name), place=place)


class _Teller:
    """Tells the driver where a run stands: seldom, and without waiting for an answer."""

    def __init__(self, mailbox: Any, job: str) -> None:
        self._mailbox, self._job = mailbox, job
        self._told = 0.0
        self._measured: Progress | None = None
        self._last: list[Any] = []

    def __call__(self, word: Any) -> None:
        if not isinstance(word, Progress):
            self._send(word)
            return
        if word.record is not None:
            self._measured = word
        last = word.over or (word.record is not None and word.epoch == word.config.epochs)
        if last or time.monotonic() - self._told >= _PAUSE:
            self._told = time.monotonic()
            if self._measured is not None and self._measured is not word:
                self._send(self._measured)
            self._measured = None
            self._send(word)

    def wait(self) -> None:
        """Wait until the last word arrived: the first must not be lost, the last not come after the run's end."""
        import ray

        with contextlib.suppress(Exception):
            ray.wait(self._last, timeout=_PATIENCE)

    def _send(self, word: Any) -> None:
        with contextlib.suppress(Exception):  # a word that is lost must not cost the run
            self._last = [self._mailbox.tell.remote(pickle.dumps((self._job, word)))]


def node_folder(how: How) -> Path:
    """Where runs are made on a node that does not see the driver's folder: the same place at every try."""
    key = hashlib.sha256(f"{how.home}:{how.out}".encode()).hexdigest()[:12]
    user = os.getuid() if hasattr(os, "getuid") else platform.node()
    return Path(tempfile.gettempdir()) / f"coteach-{user}" / key


def finished_files(path: Path) -> dict[str, bytes]:
    """What a finished run consists of, by the names of its files."""
    folder = RunFolder(path)
    files = [folder.config_file, folder.labels_file, folder.epochs_file, folder.weights_file, folder.summary_file]
    # evidence is there if nobody knows which labels are right, model.json unless an older version finished the run
    files += [file for file in (folder.evidence_file, folder.model_file) if file.exists()]
    with storage_errors(path, "read"):
        return {file.name: file.read_bytes() for file in files}


def bring(files: Mapping[str, bytes], path: Path) -> None:
    """Put a finished run into its folder, unless it is there: the summary last, for it means done."""
    folder = RunFolder(path)
    if not files or folder.done:
        return
    with folder.claimed(on_wait=lambda message: None):
        if folder.done:
            return
        for name in sorted(files, key=folder.summary_file.name.__eq__):
            write_over(path / name, files[name])
        Checkpoints(path).remove()
        with storage_errors(folder.failure_file, "delete"):
            folder.failure_file.unlink(missing_ok=True)
