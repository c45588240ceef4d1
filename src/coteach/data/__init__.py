"""Datasets: load them by name or from an .npz file, fetch them, verify that they are what they say."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from coteach.data.cache import cache_folder
from coteach.data.checksums import Check, verified
from coteach.data.dataset import Array, Dataset
from coteach.data.digits import digits_arrays
from coteach.data.fetching import fetch
from coteach.data.known import CATALOGUE, Known, find
from coteach.data.official import find_official, places, read_official
from coteach.data.readers import read_npz
from coteach.errors import DataError

__all__ = [
    "CATALOGUE",
    "NAMES",
    "Check",
    "Dataset",
    "Known",
    "Status",
    "cache_folder",
    "fetch",
    "load",
    "status",
    "verify",
]

NAMES = tuple(CATALOGUE)
"""The names that `load` knows."""


@dataclass(frozen=True)
class Status:
    """Whether a known dataset can be loaded now, and from where (None for embedded and missing data)."""

    name: str
    state: Literal["embedded", "ready", "missing"]
    where: Path | None


def load(source: str | Path) -> Dataset:
    """A known dataset by name, its checksums verified, or your own data from the path of an .npz file.

    Your file holds x_train, y_train, x_test and y_test, and may hold class_names, an array of strings.
    """
    if isinstance(source, str) and (source in CATALOGUE or not _looks_like_path(source)):
        known = find(source)
        arrays, _ = _verified(known)
        return Dataset.checked(known.name, **arrays, class_names=known.class_names)
    return _load_own(Path(source).expanduser())


def verify(name: str) -> tuple[Check, ...]:
    """What was compared with the official checksums and found right; DataError if anything differs."""
    _, checks = _verified(find(name))
    return checks


def status(name: str) -> Status:
    """Whether a known dataset is embedded, ready or missing. Looks for the files without reading them."""
    known = find(name)
    where = _where(known)
    state: Literal["embedded", "ready", "missing"] = "ready" if where else "missing"
    return Status(name, "embedded" if known.official is None else state, where)


def _looks_like_path(source: str) -> bool:
    return source.endswith(".npz") or os.sep in source or "/" in source or Path(source).is_file()


def _where(known: Known) -> Path | None:
    cache = cache_folder()
    prepared = cache / f"{known.name}.npz"
    if prepared.is_file():
        return prepared
    return next(filter(None, (find_official(known, folder) for folder in places(known, cache))), None)


def _verified(known: Known) -> tuple[dict[str, Array], tuple[Check, ...]]:
    if known.official is None:
        where, way_out = "digits", "install the scikit-learn and numpy named in constraints.txt"
        arrays = digits_arrays()
    else:
        place = _where(known)
        if place is None:
            looked = " and ".join(map(str, sorted({cache_folder(), *places(known, cache_folder())})))
            raise DataError(f"{known.name} is not here: run `coteach data fetch {known.name}` (looked in {looked})")
        way_out = f"delete it and run `coteach data fetch {known.name}`"
        arrays = read_npz(place, way_out) if place.suffix == ".npz" else read_official(known, place, way_out)
        where = str(place)
        if place.is_dir():  # which may be the whole cache, so that "delete it" would be bad advice
            where, way_out = (
                f"{known.name} in {place}",
                way_out.replace("delete it", "delete its files there"),
            )
    return verified(known, arrays, where, way_out)


def _load_own(path: Path) -> Dataset:
    if not path.is_file():
        raise DataError(f"{path} does not exist: give the path of an .npz file or a name ({', '.join(NAMES)})")
    if path.suffix != ".npz":
        raise DataError(f"{path} is no .npz file: save x_train, y_train, x_test and y_test with numpy.savez")
    arrays = read_npz(path, "write it again with numpy.savez, without object arrays")
    names = arrays.pop("class_names", None)
    if names is not None and (names.ndim != 1 or names.dtype.kind != "U"):
        raise DataError(f"{path}: class_names is not a list of strings: save it as numpy.array([...], dtype=str)")
    return Dataset.checked(path.stem, **arrays, class_names=None if names is None else names.tolist())
