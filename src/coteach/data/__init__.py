"""Datasets: load them by name or from your own files, fetch them, verify that they are what they say."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from coteach.config import Source, check_range
from coteach.data.cache import cache_folder
from coteach.data.checksums import Check, verified
from coteach.data.dataset import Array, Dataset
from coteach.data.digits import digits_arrays
from coteach.data.doors import SUFFIXES, version
from coteach.data.fetching import fetch
from coteach.data.holding_out import SHARE
from coteach.data.known import CATALOGUE, Known, find
from coteach.data.new_samples import read_samples
from coteach.data.official import find_official, places, read_official
from coteach.data.own import load_own
from coteach.data.pairs import from_torch
from coteach.data.readers import ARRAYS, read_npz
from coteach.errors import DataError, SettingError

__all__ = [
    "CATALOGUE",
    "NAMES",
    "Check",
    "Dataset",
    "Known",
    "Status",
    "cache_folder",
    "fetch",
    "from_torch",
    "load",
    "load_source",
    "read_samples",
    "status",
    "verify",
    "version_of",
]

NAMES = tuple(CATALOGUE)
"""The names that `load` knows."""


@dataclass(frozen=True)
class Status:
    """Whether a known dataset can be loaded now, and from where (None for embedded and missing data)."""

    name: str
    state: Literal["embedded", "ready", "missing"]
    where: Path | None


def load(
    source: str | Path,
    *,
    label: str = "",
    test: str | Path = "",
    image_size: int = 0,
    test_share: float | None = None,
) -> Dataset:
    """A known dataset by name, its checksums verified, or your own data from a path.

    Your own data are a folder of images (one subfolder a class), a table or a list of image files (.csv, .tsv,
    .parquet; `label` names the column of labels), an .npz file (x_train and y_train or x and y, maybe x_test and
    y_test, maybe class_names), or an .npy file (`label` is the .npy file of labels; y.npy belongs to x.npy).
    `test` is the path of a test set in the same form. If there is none, `test_share` of the data is held out.
    """
    check_range("image_size", image_size)  # before images are decoded
    path = _own_path(source)
    if path is not None:
        share = SHARE if test_share is None else test_share
        return load_own(path, label=label, test=str(test), image_size=image_size, share=share)
    known = find(str(source), "or the path of your own data, but nothing lies at this one")
    for name, value in (("label", label), ("test", test), ("image_size", image_size)):
        if value:
            raise SettingError(f"{name} goes with your own data, and {known.name} is complete: leave it out")
    arrays, _ = _verified(known)
    return Dataset.checked(known.name, *(arrays[key] for key in ARRAYS), class_names=known.class_names)


def load_source(source: Source) -> Dataset:
    """The dataset of a config."""
    data, label, test, image_size, test_share = source
    return load(data, label=label, test=test, image_size=image_size, test_share=test_share)


def version_of(source: Source) -> str | None:
    """Changes when the files of a config's data do; None for a known dataset, which never changes."""
    path = _own_path(source.data)
    return None if path is None else version(path, label=source.label, test=source.test)


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


def _own_path(source: str | Path) -> Path | None:
    """The path of data that are the user's own; None for a name."""
    path = Path(source).expanduser()
    if isinstance(source, str):
        looks_like_one = source.lower().endswith(SUFFIXES) or os.sep in source or "/" in source or path.exists()
        if source in CATALOGUE or not looks_like_one:
            return None
    return path


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
