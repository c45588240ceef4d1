"""Wrong labels on purpose: transition matrices, a draw from them, and what was really drawn.

Q[i, j] is the probability that a sample of class i gets the label j.
"""

import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coteach.errors import DataError, SettingError, StorageError
from coteach.storage import write_over

Labels = NDArray[np.int64]
Matrix = NDArray[np.float64]


def pair(classes: int, rate: float) -> Matrix:
    """Each class is mistaken for the next one, the last for the first."""
    _check(classes, rate)
    return (1 - rate) * np.eye(classes) + rate * np.roll(np.eye(classes), 1, axis=1)


def symmetric(classes: int, rate: float) -> Matrix:
    """Each class is mistaken for any other with the same probability."""
    _check(classes, rate)
    return (1 - rate) * np.eye(classes) + rate / (classes - 1) * (1 - np.eye(classes))


KINDS = {"pair": pair, "symmetric": symmetric}


def _check(classes: int, rate: float) -> None:
    if classes < 2:
        raise SettingError(f"noise needs at least two classes, got {classes}")
    if not 0 <= rate < 1:
        raise SettingError(f"rate is {rate:g}: it must be at least 0 and less than 1")


def check_matrix(matrix: ArrayLike) -> Matrix:
    """The matrix as float64, after a check that it is square, non-negative and that its rows sum to 1."""
    try:
        q = np.asarray(matrix, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError("the transition matrix holds something that is not a number") from error
    if q.ndim != 2 or q.shape[0] != q.shape[1] or q.shape[0] < 2:
        raise DataError(f"the transition matrix has shape {q.shape}: it must be square, one row and column a class")
    if not np.isfinite(q).all() or (q < 0).any():
        raise DataError("the transition matrix has a negative, NaN or infinite entry: probabilities lie in [0, 1]")
    off = np.abs(q.sum(1) - 1)
    if off.max() > 1e-6:
        row = int(off.argmax())
        raise DataError(f"row {row} of the transition matrix sums to {q[row].sum():.6g}: every row must sum to 1")
    exact: Matrix = q / q.sum(1, keepdims=True)
    return exact


@dataclass(frozen=True, eq=False)
class Draw:
    """Labels as drawn, with the clean ones they came from, the matrix they were drawn from and the seed."""

    noisy: Labels
    clean: Labels
    matrix: Matrix
    seed: int

    @property
    def rate(self) -> float:
        """The share of labels that really are wrong."""
        return float((self.noisy != self.clean).mean())

    @property
    def realised(self) -> Matrix:
        """The transition matrix counted from the labels; a class without samples keeps a row of zeros."""
        n = len(self.matrix)
        counts = np.bincount(self.clean * n + self.noisy, minlength=n * n).reshape(n, n)
        share: Matrix = counts / np.maximum(counts.sum(1, keepdims=True), 1)
        return share

    @property
    def mistaken(self) -> list[tuple[int, int]]:
        """The classes that have another label more often than their own, each with that label.

        By the labels alone such a class is the other one: only a method that is told the matrix can know better.
        """
        return _mostly_another(self.realised)

    @property
    def unlucky(self) -> bool:
        """Whether classes are mistaken by this draw and not by its matrix: another seed may be better."""
        return bool(self.mistaken) and not _mostly_another(self.matrix)

    @property
    def sha256(self) -> str:
        """A hash of the noisy labels: two people with the same hash train on the same labels."""
        return hashlib.sha256(np.ascontiguousarray(self.noisy, "<i8").tobytes()).hexdigest()


def _mostly_another(share: Matrix) -> list[tuple[int, int]]:
    """The rows whose largest entry is not the diagonal's, each with its column."""
    return [(c, int(row.argmax())) for c, row in enumerate(share) if row.max() > row[c]]


def corrupt(labels: ArrayLike, matrix: ArrayLike, seed: int = 0) -> Draw:
    """Draw each label independently from its class's row of the matrix."""
    given = np.asarray(labels)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise DataError(f"labels are {given.dtype} {list(given.shape)}: give one whole number a sample")
    clean = given.astype(np.int64)
    q = check_matrix(matrix)
    if clean.size and not 0 <= clean.min() <= clean.max() < len(q):
        raise DataError(f"labels run from {clean.min()} to {clean.max()}, but the matrix has {len(q)} classes")
    ladder = q.cumsum(1)
    ladder[:, -1] = 1.0  # rounding must not leave a gap below 1
    chance = np.random.default_rng(seed).random(len(clean))
    noisy = np.empty_like(clean)
    for c in range(len(q)):
        rows = np.flatnonzero(clean == c)
        noisy[rows] = np.searchsorted(ladder[c], chance[rows], side="right")
    return Draw(noisy, clean, q, seed)


def save_draw(draw: Draw, path: Path) -> None:
    """Write a draw to an .npz file, with its hash, for somebody else to train on."""
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        noisy=draw.noisy,
        clean=draw.clean,
        matrix=draw.matrix,
        seed=np.int64(draw.seed),
        sha256=np.array(draw.sha256),
    )
    write_over(path, buffer.getvalue())


def load_draw(path: Path) -> Draw:
    """Read a draw back; its labels must match the hash written with them."""
    try:
        with np.load(path, allow_pickle=False) as file:
            parts: dict[str, Any] = {key: file[key] for key in ("noisy", "clean", "matrix", "seed", "sha256")}
    except FileNotFoundError as error:
        raise DataError(f"no such file: {path}") from error
    except KeyError as error:
        raise DataError(f"{path} has no {error.args[0].split()[0]}: save labels with `coteach noise`") from error
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from error
    except Exception as error:  # zipfile, zlib and numpy each have their own for a damaged file
        raise DataError(f"{path} is damaged ({error}): save the labels again with `coteach noise`") from error
    matrix = check_matrix(parts["matrix"])
    for key in ("noisy", "clean"):
        y = parts[key]
        if y.ndim != 1 or y.dtype.kind not in "iu" or len(y) != len(parts["noisy"]):
            raise DataError(f"{path}: {key} is {y.dtype} {list(y.shape)}: one whole number a sample is needed")
        if len(y) and not 0 <= y.min() <= y.max() < len(matrix):
            raise DataError(f"{path}: {key} runs from {y.min()} to {y.max()}, its matrix has {len(matrix)} classes")
    if parts["seed"].shape != ():
        raise DataError(f"{path}: seed is not a number: save the labels again with `coteach noise`")
    draw = Draw(parts["noisy"].astype(np.int64), parts["clean"].astype(np.int64), matrix, int(parts["seed"]))
    if draw.sha256 != str(parts["sha256"]):
        raise DataError(f"the labels in {path} do not match their hash: ask for the file again")
    return draw


def read_matrix(path: Path) -> Matrix:
    """A transition matrix from a .csv or .npy file."""
    try:
        if path.suffix == ".npy":
            return check_matrix(np.load(path, allow_pickle=False))
        return check_matrix(np.loadtxt(path, delimiter=",", ndmin=2))
    except FileNotFoundError as error:
        raise DataError(f"no such file: {path}") from error
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from error
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    except ValueError as error:
        raise DataError(f"{path} is not a matrix of numbers, one row a line, separated by commas") from error
