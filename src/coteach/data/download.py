"""Download one file over HTTP, going on where an earlier attempt broke off."""

import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO

from coteach.errors import DataError, StorageError

Report = Callable[[str, int | None, int | None], None]
"""Called with a message and, while bytes come in, with how many are there and how many there will be."""

TIMEOUT_S = 10.0
TRIES = 4
_CHUNK = 1 << 17


class _BrokenTransferError(Exception):
    """The server answered, and then the connection broke: worth another try."""


def download(address: str, target: Path, report: Report, timeout_s: float = TIMEOUT_S) -> None:
    """Bring the file at `address` to `target`, which appears only once it is complete.

    Until then the bytes are in `<target>.part`; a later call, of any process, asks for the rest only.
    Raises DataError if the server does not answer, refuses, or breaks off again and again.
    """
    part = target.with_name(target.name + ".part")
    reason = ""
    for _ in range(TRIES):
        try:
            _transfer(address, part, report, timeout_s)
            part.replace(target)
            return
        except _BrokenTransferError as error:
            reason = str(error)
        except OSError as error:
            raise StorageError(f"cannot write {target}: {error.strerror or error}") from error
    raise DataError(f"{address}: the transfer broke off {TRIES} times ({reason})")


def _transfer(address: str, part: Path, report: Report, timeout_s: float) -> None:
    there = part.stat().st_size if part.exists() else 0
    response = _open(address, there, timeout_s)
    if response is None:  # the server has nothing after what is there: it is not the beginning of this file
        part.unlink()
        there, response = 0, _open(address, 0, timeout_s)
    if response is None:
        raise DataError(f"{address}: the server refuses to send the file")
    with response:
        if response.status != http.client.PARTIAL_CONTENT:
            there = 0  # the server sends the whole file, whatever it was asked for
        length = response.headers.get("Content-Length", "")
        total = there + int(length) if length.isdigit() else None
        with part.open("r+b" if there else "wb") as file:
            file.seek(there)
            _copy(response, file, there, total, partial(report, address))


def _open(address: str, start: int, timeout_s: float) -> http.client.HTTPResponse | None:
    """The answer of the server, or None if it has no bytes from `start` on."""
    request = urllib.request.Request(address, headers={"User-Agent": "coteach"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    try:
        response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=timeout_s)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and start:
            return None
        raise DataError(f"{address}: the server answers {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        raise DataError(f"{address}: no connection ({_reason(error.reason)})") from error
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenTransferError(_reason(error)) from error
    sent_from = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    if response.status == http.client.PARTIAL_CONTENT and (not sent_from or int(sent_from[1]) != start):
        response.close()
        return None
    return response


def _copy(
    response: http.client.HTTPResponse,
    file: IO[bytes],
    done: int,
    total: int | None,
    progress: Callable[[int, int | None], None],
) -> None:
    progress(done, total)
    while True:
        try:
            chunk = response.read1(_CHUNK)
        except (OSError, http.client.HTTPException) as error:
            raise _BrokenTransferError(_reason(error)) from error
        if not chunk:
            break
        file.write(chunk)
        file.flush()  # what has arrived is kept, even if this process is killed
        done += len(chunk)
        progress(done, total)
    if total is not None and done != total:
        raise _BrokenTransferError(f"{done} of {total} bytes came")


def _reason(error: object) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
