"""The folder where datasets are kept, and how a file gets there: whole, or not at all."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import filelock
import numpy as np
import platformdirs

from coteach.data.dataset import Array
from coteach.storage import storage_errors, written_over


def cache_folder() -> Path:
    """The folder of the datasets: the environment variable COTEACH_DATA, or the user's cache folder."""
    return Path(os.environ.get("COTEACH_DATA") or platformdirs.user_cache_dir("coteach")).expanduser()


def write_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays to `path`; whatever happens on the way, it is the old file or the whole new one."""
    with written_over(path) as file:
        np.savez(file, allow_pickle=False, **arrays)


@contextmanager
def claimed(folder: Path, name: str) -> Iterator[None]:
    """Let one process at a time fetch a dataset; the others wait here. The claim ends with the process."""
    lock = filelock.FileLock(folder / f".{name}.lock")
    with storage_errors(folder, "write into"):
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
