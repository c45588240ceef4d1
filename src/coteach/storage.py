"""Writing files so that a kill, a full disk or a power cut never leaves half of one under its name."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from coteach.errors import StorageError


@contextmanager
def storage_errors(path: Path, doing: str = "write") -> Iterator[None]:
    """Turn an OSError about `path` into one line with a way out."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            cause = "no space left on the disk: make room and run the same command again"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            cause = "permission denied: choose a folder that you may write to"
        elif error.errno in (errno.ENOTDIR, errno.EEXIST):
            cause = "a file stands where a folder is needed: choose another place"
        else:
            cause = error.strerror or str(error)
        raise StorageError(f"cannot {doing} {path}: {cause}") from error


def unfinished(path: Path) -> list[Path]:
    """What processes that write `path`, or were killed while they did, have beside it."""
    return list(path.parent.glob(f".{path.name}.*.part"))


@contextmanager
def written_over(path: Path) -> Iterator[BinaryIO]:
    """A file to write beside `path`, renamed over it at the end; on any failure the old one stays as it was.

    Each process has its own name beside it; what a killed one left there is cleared away by the next.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        for left in unfinished(path):
            if not _alive(left.name.split(".")[-2]):
                left.unlink(missing_ok=True)
        try:
            with beside.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        except BaseException:
            with suppress(OSError):
                beside.unlink()
            raise


def _alive(process: str) -> bool:
    """Whether a process of this number may be running."""
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except (OSError, ValueError):
        return True
    return True


def write_over(path: Path, content: bytes | str) -> None:
    """Put this content under that name, whole or not at all."""
    with written_over(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)
