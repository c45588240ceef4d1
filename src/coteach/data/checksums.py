"""Whether arrays are the official data of a known dataset, by their shapes and checksums."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from coteach.data.dataset import Array
from coteach.data.known import Known
from coteach.errors import DataError


@dataclass(frozen=True)
class Check:
    """One thing that was compared with the catalogue and found to be right."""

    what: str
    sha256: str


def verified(
    known: Known, arrays: Mapping[str, Array], where: str, way_out: str
) -> tuple[dict[str, Array], tuple[Check, ...]]:
    """The official arrays and what was checked; if they differ, a DataError with `where` and `way_out`."""
    official = _official_form(known, arrays, where, way_out)
    checks = _check(known, official, where, way_out)
    for split in known.split_sha256:
        x, y = official[f"x_{split}"], official[f"y_{split}"]
        order = one_order(x, y)
        official |= {f"x_{split}": x[order], f"y_{split}": y[order]}
    return official, checks


def _official_form(known: Known, arrays: Mapping[str, Array], where: str, way_out: str) -> dict[str, Array]:
    """The four arrays in the one form that the checksums are made from: uint8, with the catalogue's shapes.

    Copies made by other tools often lack the channel axis or store wider labels, without being other data.
    """
    shapes = {
        "x_train": (known.train, *known.shape),
        "y_train": (known.train,),
        "x_test": (known.test, *known.shape),
        "y_test": (known.test,),
    }
    form = {}
    for key, shape in shapes.items():
        array = arrays[key]
        same_size = array.size == np.prod(shape) and len(array) == shape[0]
        if array.dtype.kind not in "ui" or not same_size or array.min() < 0 or array.max() > 255:
            raise DataError(
                f"{where} is not the official {known.name}: {key} is {array.dtype} {list(array.shape)} "
                f"instead of uint8 {list(shape)}: {way_out}"
            )
        form[key] = np.ascontiguousarray(array.reshape(shape), dtype=np.uint8)
    return form


def _check(known: Known, arrays: Mapping[str, Array], where: str, way_out: str) -> tuple[Check, ...]:
    found = []
    for key, wanted in known.array_sha256.items():
        shape = "×".join(map(str, arrays[key].shape))
        found.append((f"{key} {shape}", sha256(arrays[key]), wanted))
    for split, wanted in known.split_sha256.items():
        x, y = arrays[f"x_{split}"], arrays[f"y_{split}"]
        found.append((f"{split} split, {len(x)} samples in any order", unordered_sha256(x, y), wanted))
    for what, got, wanted in found:
        if got != wanted:
            raise DataError(
                f"{where} is damaged or was changed: {what} has sha256 {got[:12]}… instead of {wanted[:12]}…: {way_out}"
            )
    return tuple(Check(what, got) for what, got, _ in found)


def sha256(array: Array) -> str:
    """Sha256 of the raw bytes of an array."""
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()


def unordered_sha256(x: Array, y: Array) -> str:
    """Sha256 over the sorted sha256 of each sample: the same in any order."""
    return hashlib.sha256(b"".join(sorted(_digests(x, y)))).hexdigest()


def one_order(x: Array, y: Array) -> list[int]:
    """Rows by class and, within a class, by sha256: one order whatever order a copy came in.

    Noise is drawn by position, so the same config must find the same samples in the same places.
    """
    digests = _digests(x, y)
    return sorted(range(len(y)), key=lambda row: (y[row], digests[row]))


def _digests(x: Array, y: Array) -> list[bytes]:
    """The sha256 of each sample: its pixels, then its label."""
    rows = np.concatenate([x.reshape(len(x), -1), y.reshape(-1, 1)], axis=1)
    return [hashlib.sha256(row.data).digest() for row in rows]
