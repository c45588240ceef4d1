"""Arrays in .npz and .npy files of the user's own, under the names that people give them."""

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coteach.data.dataset import Array
from coteach.data.readers import damage_named
from coteach.errors import DataError, SettingError

SUFFIXES = (".npz", ".npy")
_WAY_OUT = "write it again with numpy, without object arrays"


@dataclass(frozen=True)
class Arrays:
    """Samples and labels as they were saved, and the test set that lay in the same file."""

    where: str
    x: Array
    y: Array
    class_names: tuple[str, ...] | None = None
    test: "Arrays | None" = None


def read_arrays(path: Path, label: str = "") -> Arrays:
    """x_train and y_train, or x and y, of an .npz file; or an .npy file of samples with the one of its labels."""
    if path.suffix.lower() == ".npy":
        return Arrays(str(path), _npy(path), _npy(labels_beside(path, label)))
    if label:
        raise SettingError(f"{path} holds its labels itself, so that --label {label} has no meaning: leave it out")
    arrays = _npz(path)
    pairs = [pair for pair in (("x_train", "y_train"), ("x", "y")) if pair[0] in arrays or pair[1] in arrays]
    x, y = _pair(path, arrays, pairs[0] if pairs else ("x_train", "y_train"))
    tested = "x_test" in arrays or "y_test" in arrays
    test = Arrays(str(path), *_pair(path, arrays, ("x_test", "y_test"))) if tested else None
    return Arrays(str(path), x, y, _names(path, arrays), test)


def read_test_arrays(path: Path) -> Arrays:
    """Samples and labels to test on: x_test and y_test where a file has them, else all that it has."""
    found = read_arrays(path)
    return found.test or found


def read_inputs(path: Path) -> Array:
    """Samples without their labels: x, x_test or x_train of an .npz file, or an .npy file."""
    if path.suffix.lower() == ".npy":
        return _npy(path)
    arrays = _npz(path)
    name = next((name for name in ("x", "x_test", "x_train") if name in arrays), None)
    if name is None:
        raise DataError(f"{path} holds no x, no x_test and no x_train: save the samples as x in it")
    return arrays[name]


def labels_beside(path: Path, label: str = "") -> Path:
    """The file of the labels for an .npy file of samples: the one that was named, or y.npy beside x.npy."""
    if label:
        return Path(label).expanduser()
    stem = path.stem
    names = [f"{y}{stem[1:]}.npy" for y in "yY"] if stem[:1] in ("x", "X") else []
    there = [path.with_name(name) for name in names if path.with_name(name).is_file()]
    if not there:
        raise SettingError(f"which labels belong to {path}? give --label, such as --label y.npy")
    return there[0]


def _npy(path: Path) -> Array:
    with damage_named(str(path), _WAY_OUT), path.open("rb") as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def _npz(path: Path) -> dict[str, Array]:
    """Every array of the file, the single letters x and y in either case."""
    with damage_named(str(path), "write it again with numpy.savez, without object arrays"):
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise ValueError("it is no .npz file or was cut short")
        with np.load(path, allow_pickle=False) as file:
            wanted = {"x_train", "y_train", "x_test", "y_test", "x", "y", "class_names"}
            return {key.lower(): file[key] for key in file.files if key.lower() in wanted}


def _pair(path: Path, arrays: dict[str, Array], names: tuple[str, str]) -> tuple[Array, Array]:
    missing = [name for name in names if name not in arrays]
    if missing:
        raise DataError(f"{path} holds no {' and no '.join(missing)}: save {' and '.join(names)} in it")
    return arrays[names[0]], arrays[names[1]]


def _names(path: Path, arrays: dict[str, Array]) -> tuple[str, ...] | None:
    names = arrays.get("class_names")
    if names is None:
        return None
    if names.ndim != 1 or names.dtype.kind != "U":
        raise DataError(f"{path}: class_names is not a list of strings: save it as numpy.array([...], dtype=str)")
    return tuple(names.tolist())
