"""A classification dataset in memory, checked once so that nothing after it needs to check again."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coteach.data.labels import names_of, numbered
from coteach.errors import DataError

Array = NDArray[Any]

_DARK = 16
"""Bytes of images that are all this small are likely no bytes."""
MOST_CLASSES = 100_000
"""Without class names, a label above this is a mistake in the labels and not a class."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Training and test samples with their labels, made by `Dataset.checked`. Do not write to the arrays.

    x: uint8 or float32 images [n, height, width, channels], or float32 vectors [n, features].
    y: int64 [n], each label an index into `class_names`.
    Without a test set, x_test and y_test have length 0.
    """

    name: str
    x_train: Array
    y_train: NDArray[np.int64]
    x_test: Array
    y_test: NDArray[np.int64]
    class_names: tuple[str, ...]
    ids: tuple[str, ...] | None = None
    """Of the training samples: the file of each, as its source names it, or its row there, counted from 0."""
    test_labels: Literal["clean", "as given"] = "clean"
    """As given: no test set was there, so a part of the data was held out, and its labels may be wrong too."""
    notes: tuple[str, ...] = ()
    """What a user should know: what was left out, filled in or held out, a line each."""
    preprocessing: Mapping[str, Any] = field(default_factory=lambda: {"kind": "arrays"})
    """JSON-ready: how the source became x. With it `read_samples` makes samples of new files the same way."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample: (height, width, channels) or (features,)."""
        return self.x_train.shape[1:]

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return len(self.class_names)

    @cached_property
    def fingerprint(self) -> str:
        """Sha256 over the class names and the type, shape and bytes of the four arrays: equal for equal data."""
        digest = hashlib.sha256("\0".join(self.class_names).encode(errors="surrogateescape"))
        for array in (self.x_train, self.y_train, self.x_test, self.y_test):
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    @classmethod
    def checked(
        cls,
        name: str,
        x_train: ArrayLike,
        y_train: ArrayLike,
        x_test: ArrayLike | None = None,
        y_test: ArrayLike | None = None,
        *,
        class_names: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
        test_labels: Literal["clean", "as given"] = "clean",
        notes: Sequence[str] = (),
        preprocessing: Mapping[str, Any] | None = None,
    ) -> "Dataset":
        """A dataset from arrays of any usual kind, or a DataError that says what is wrong with them.

        Images without a channel axis get one, vectors and wider floats become float32, integer images with
        values 0..255 become uint8, labels become int64 (whole floats and a column [n, 1] are fine).
        Without `class_names` the classes are the different labels, sorted: numbers or texts. With them, a label is a
        text, or the number of its class, counted from 0. A test set need not be given.
        """
        if (x_test is None) != (y_test is None):
            raise DataError(f"{name}: {'x' if x_test is None else 'y'}_test is missing: give both or neither")
        y_train, y_test, class_names = _from_texts(name, y_train, y_test, class_names)
        x_train, y_train = _split(name, "train", x_train, y_train)
        if x_test is None or y_test is None or (np.size(x_test) == 0 and np.size(y_test) == 0):
            x_test, y_test = x_train[:0], y_train[:0]
        else:
            x_test, y_test = _split(name, "test", x_test, y_test)
        if x_train.shape[1:] != x_test.shape[1:]:
            raise DataError(
                f"{name}: a training sample has shape {x_train.shape[1:]} and "
                f"a test sample {x_test.shape[1:]}: give both the same shape"
            )
        if x_train.dtype != x_test.dtype:
            raise DataError(f"{name}: x_train is {x_train.dtype} and x_test is {x_test.dtype}: give both the same type")
        if class_names is None:
            class_names, y_train, y_test = _from_numbers(name, y_train, y_test)
        names = _class_names(name, class_names, y_train, y_test)
        if ids is not None and len(ids) != len(x_train):
            raise DataError(f"{name}: {len(ids)} ids for {len(x_train)} training samples: give one for each sample")
        return cls(
            name,
            x_train,
            y_train,
            x_test,
            y_test,
            names,
            None if ids is None else tuple(ids),
            test_labels,
            (*notes, *_doubts(x_train)),
            _as_arrays(x_train) if preprocessing is None else preprocessing,
        )


def _doubts(x: Array) -> list[str]:
    """What speaks against images being what they are taken for."""
    found = []
    if x.ndim == 4 and x.shape[1] in (1, 3) and min(x.shape[2:]) >= 8:
        found.append(
            f"a sample of shape {x.shape[1:]} is read as height, width and channels: "
            "if the channels come first, give x.transpose(0, 2, 3, 1)"
        )
    if x.dtype == np.uint8 and x.max() <= _DARK:
        found.append(
            f"the brightest pixel is {x.max()} of 255, for whole numbers are read as bytes: "
            "if they are not, scale them to 0..255, or to 0..1 as float32"
        )
    return found


def _split(name: str, split: str, x: ArrayLike, y: ArrayLike) -> tuple[Array, NDArray[np.int64]]:
    samples, labels = as_samples(f"{name}: x_{split}", x), _labels(f"{name}: y_{split}", y)
    if len(samples) != len(labels):
        raise DataError(
            f"{name}: x_{split} holds {len(samples)} samples and y_{split} {len(labels)} labels: "
            "give one label for each sample"
        )
    return samples, labels


def _as_arrays(x: Array) -> dict[str, Any]:
    """How arrays are described: of images also the form that a file must be brought into to be one of them."""
    if x.dtype == np.uint8 and x.shape[1] == x.shape[2] and x.shape[3] in (1, 3):
        return {"kind": "arrays", "size": x.shape[1], "channels": x.shape[3]}
    return {"kind": "arrays"}


def _plain(what: str, values: ArrayLike) -> Array:
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise DataError(f"{what} is ragged: give every sample the same shape") from error
    if array.dtype.kind == "O":
        raise DataError(f"{what} is an object array: convert it to an array of numbers")
    if array.ndim == 0 or array.size == 0:
        raise DataError(f"{what} is empty: give at least one sample")
    return array


def as_samples(what: str, values: ArrayLike) -> Array:
    """Samples as a Dataset holds them, or a DataError about `what`."""
    array = _plain(what, values)
    if array.dtype.kind not in "buif":
        raise DataError(f"{what} holds {array.dtype} values: convert them to uint8 or float32")
    if array.ndim not in (2, 3, 4):
        raise DataError(
            f"{what} has shape {array.shape}: give images [n, height, width, channels] or vectors [n, features]"
        )
    if array.ndim == 3:
        array = array[..., np.newaxis]
    if array.ndim == 4 and array.dtype.kind in "ui":
        if array.dtype != np.uint8 and (array.min() < 0 or array.max() > 255):
            raise DataError(
                f"{what} holds integers from {array.min()} to {array.max()}: "
                "scale images to 0..255 as uint8, or store them as float32"
            )
        return array.astype(np.uint8, copy=False)
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is reported just below
        array = array.astype(np.float32, copy=False)
    finite = np.isfinite(array)
    if not finite.all():
        sample = int(np.argmin(finite.reshape(len(array), -1).all(axis=1)))
        raise DataError(f"{what} holds NaN or infinite values (first in sample {sample}): fill or remove them")
    return array


def _labels(what: str, values: ArrayLike) -> NDArray[np.int64]:
    array = _plain(what, values)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(f"{what} has shape {array.shape}: give one integer for each sample, such as y.argmax(1)")
    if array.dtype.kind == "f" and np.isfinite(array).all() and (array == np.rint(array)).all():
        array = array.astype(np.int64)
    if array.dtype.kind not in "bui":
        raise DataError(f"{what} holds labels that are not integers: number the classes 0, 1, 2, ...")
    if array.min() < 0:
        raise DataError(f"{what} holds the negative label {array.min()}: number the classes 0, 1, 2, ...")
    return array.astype(np.int64, copy=False)


def _from_texts(
    name: str, y_train: ArrayLike, y_test: ArrayLike | None, given: Sequence[str] | None
) -> tuple[ArrayLike, ArrayLike | None, Sequence[str] | None]:
    """The labels as numbers and the names of the classes, if the labels are texts; else all as it is."""
    train, test = _as_texts(y_train), None if y_test is None else _as_texts(y_test)
    if train is None and test is None:
        return y_train, y_test, given
    train = np.asarray(y_train).reshape(-1).astype(str).tolist() if train is None else train
    names = names_of(train) if given is None else tuple(given)
    if "" in names:
        raise DataError(f"{name}: y_train has an empty label (first in sample {train.index('')}): fill or remove it")
    if test is None and y_test is not None:
        test = np.asarray(y_test).reshape(-1).astype(str).tolist()
    return (
        numbered(f"{name}: y_train", train, names),
        None if test is None else numbered(f"{name}: y_test", test, names),
        names,
    )


def _as_texts(labels: ArrayLike) -> list[str] | None:
    """The labels as texts, if they are texts: strings, bytes, or objects that are strings, [n] or [n, 1]."""
    try:
        array = np.asarray(labels)
    except ValueError:  # ragged, which is told where all labels are checked
        return None
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        return None
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8", "replace")
    texts: list[Any] = array.tolist()
    is_text = array.dtype.kind in "UT" or (array.dtype.kind == "O" and all(isinstance(each, str) for each in texts))
    return list(map(str, texts)) if is_text and texts else None


def _from_numbers(
    name: str, y_train: NDArray[np.int64], y_test: NDArray[np.int64]
) -> tuple[tuple[str, ...] | None, NDArray[np.int64], NDArray[np.int64]]:
    """Labels that leave out a number, such as 1 to 10, counted from 0, and their names: no class is without samples."""
    labels = np.union1d(y_train, y_test)
    if labels[-1] >= MOST_CLASSES or len(labels) == labels[-1] + 1:
        return None, y_train, y_test
    return tuple(map(str, labels.tolist())), np.searchsorted(labels, y_train), np.searchsorted(labels, y_test)


def _class_names(
    name: str, given: Sequence[str] | None, y_train: NDArray[np.int64], y_test: NDArray[np.int64]
) -> tuple[str, ...]:
    largest = int(max(y_train.max(), y_test.max(initial=0)))
    limit = MOST_CLASSES if given is None else len(given)
    if largest >= limit:
        way_out = "number the classes 0, 1, 2, ..." if given is None else "correct the labels or the class names"
        raise DataError(f"{name}: label {largest} is out of range, at most {limit} classes: {way_out}")
    names = tuple(map(str, range(largest + 1) if given is None else given))
    if len(set(names)) < len(names):
        twice = next(each for each in names if names.count(each) > 1)
        raise DataError(f"{name}: two classes have the name {twice!r}: give each its own")
    if (y_train == y_train[0]).all():
        raise DataError(f"{name}: all training labels are {names[y_train[0]]}: a classifier needs at least two classes")
    return names
