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


@contextmanager
def written_over(path: Path) -> Iterator[BinaryIO]:
    """A file to write beside `path`, renamed over it at the end; on any failure the old one stays as it was.

    There is one name beside each file, so that what a kill leaves behind is overwritten by the next try.
    """
    beside = path.with_name(f".{path.name}.part")
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
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


def write_over(path: Path, content: bytes | str) -> None:
    """Put this content under that name, whole or not at all."""
    with written_over(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)
