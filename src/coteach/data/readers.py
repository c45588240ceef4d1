"""Read the file formats in which datasets come: IDX (MNIST), Python batches (CIFAR) and numpy's .npz.

`way_out` is what an error tells the reader to do about a damaged file, such as "fetch it again".
"""

import gzip
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from coteach.data.dataset import Array
from coteach.data.inert_pickle import load_dict
from coteach.data.known import CifarArchive
from coteach.errors import DataError, StorageError

ARRAYS = ("x_train", "y_train", "x_test", "y_test")

_IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_GZIP_MAGIC = b"\x1f\x8b"


@contextmanager
def damage_named(where: str, way_out: str) -> Iterator[None]:
    """Turn whatever goes wrong while a file is taken apart into one error that names the file."""
    try:
        yield
    except (DataError, StorageError):
        raise
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        raise StorageError(f"cannot read {where}: {error.strerror}") from error
    except Exception as error:  # damaged bytes can make a parser fail in any way it knows
        raise DataError(f"{where} is damaged ({str(error) or type(error).__name__}): {way_out}") from error


def read_idx(path: Path, way_out: str) -> Array:
    """The array in an IDX file, compressed with gzip or not."""
    with damage_named(str(path), way_out):
        return parse_idx(path.read_bytes())


def parse_idx(content: bytes) -> Array:
    """The array in the bytes of an IDX file; ValueError, EOFError or a gzip error if they are damaged."""
    if content.startswith(_GZIP_MAGIC):
        content = gzip.decompress(content)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _IDX_TYPES:
        raise ValueError("it is no IDX file")
    dtype, start = np.dtype(_IDX_TYPES[content[2]]), 4 + 4 * content[3]
    if len(content) < start:
        raise ValueError("it ends within its header")
    shape = [int(size) for size in np.frombuffer(content[4:start], ">u4")]
    count = 1
    for size in shape:  # not np.prod, which would wrap around at 2**63
        count *= size
    if len(content) - start != count * dtype.itemsize:
        raise ValueError(f"it holds {len(content) - start} bytes of data instead of {count * dtype.itemsize}")
    return np.frombuffer(content, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))


def read_cifar(place: Path, files: CifarArchive, shape: tuple[int, int, int], way_out: str) -> dict[str, Array]:
    """The four arrays of CIFAR from its archive or from the folder that was unpacked from it."""
    wanted = files.train + files.test
    with damage_named(str(place), way_out):
        batches = {
            name: _parse_batch(name, content, files.label_key, shape)
            for name, content in (_unpacked if place.is_dir() else _archived)(place, wanted)
        }
        missing = [name for name in wanted if name not in batches]
        if missing:
            raise ValueError(f"it lacks {', '.join(missing)}")
        return {
            f"{letter}_{split}": np.concatenate([batches[name][index] for name in names])
            for split, names in (("train", files.train), ("test", files.test))
            for index, letter in enumerate("xy")
        }


def _unpacked(folder: Path, wanted: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    return ((name, (folder / name).read_bytes()) for name in wanted if (folder / name).is_file())


def _archived(path: Path, wanted: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(path) as archive:
        for member in archive:  # in the order of the file, so that it is decompressed only once
            name = Path(member.name).name
            content = archive.extractfile(member) if name in wanted else None
            if content is not None:
                yield name, content.read()


def _parse_batch(name: str, content: bytes, label_key: str, shape: tuple[int, int, int]) -> tuple[Array, Array]:
    try:
        batch = load_dict(content)
        height, width, channels = shape
        planes = batch["data"].reshape(-1, channels, height, width)
        labels = np.array(batch[label_key], np.uint8)
        if planes.dtype != np.uint8 or labels.shape != (len(planes),):
            raise ValueError("images and labels do not fit together")
    except Exception as error:  # see damage_named
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{name}: {reason or type(error).__name__}") from error
    return planes.transpose(0, 2, 3, 1), labels


def read_npz(path: Path, way_out: str) -> dict[str, Array]:
    """The arrays x_train, y_train, x_test, y_test of an .npz file, and class_names where it has them."""
    with damage_named(str(path), way_out):
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise ValueError("it is no .npz file or was cut short")
        with np.load(path, allow_pickle=False) as file:
            missing = [key for key in ARRAYS if key not in file]
            if missing:
                raise DataError(f"{path} holds no {' and no '.join(missing)}: save {', '.join(ARRAYS)} in it")
            return {key: file[key] for key in (*ARRAYS, "class_names") if key in file}
