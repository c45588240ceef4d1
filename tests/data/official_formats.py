"""Small datasets in the official file formats, written byte by byte as the originals are."""

import gzip
import io
import struct
import tarfile

import numpy as np

from coteach.data.checksums import sha256, unordered_sha256
from coteach.data.known import CifarArchive, IdxFiles, Known

IDX_CODES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}
BATCHES = CifarArchive(
    "tiny-python.tar.gz", "tiny-batches-py", ("data_batch_1", "data_batch_2"), ("test_batch",), "labels"
)


def tiny_arrays(shape=(28, 28, 1), train=400, test=60, seed=0):
    random = np.random.default_rng(seed)
    return {
        "x_train": random.integers(0, 256, (train, *shape), np.uint8),
        "y_train": (np.arange(train) % 3).astype(np.uint8),
        "x_test": random.integers(0, 256, (test, *shape), np.uint8),
        "y_test": (np.arange(test) % 3).astype(np.uint8),
    }


def tiny_known(arrays, official=IdxFiles(), any_order=False, **changes):  # noqa: B008 (it is frozen)
    checksums = {"array_sha256": {key: sha256(array) for key, array in arrays.items()}}
    if any_order:
        splits = ("train", "test")
        checksums = {"split_sha256": {s: unordered_sha256(arrays[f"x_{s}"], arrays[f"y_{s}"]) for s in splits}}
    entry = {
        "name": "tiny",
        "title": "Tiny",
        "shape": arrays["x_train"].shape[1:],
        "train": len(arrays["x_train"]),
        "test": len(arrays["x_test"]),
        "class_names": ("a", "b", "c"),
        "official": official,
    }
    return Known(**{**entry, **checksums, **changes})


def idx(array):
    code = IDX_CODES[array.dtype.str[1:]]
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, code, array.ndim, *array.shape)
    return header + array.astype(array.dtype.newbyteorder(">")).tobytes()


def idx_files(arrays):
    files = vars(IdxFiles())
    squeezed = {key: array[..., 0] if key.startswith("x") else array for key, array in arrays.items()}
    return {files[key]: gzip.compress(idx(array), mtime=0) for key, array in squeezed.items()}


def cifar_files(arrays):
    """Name to bytes of the batches of BATCHES."""
    half = len(arrays["x_train"]) // 2
    slices = {
        "data_batch_1": ("train", slice(0, half)),
        "data_batch_2": ("train", slice(half, None)),
        "test_batch": ("test", slice(None)),
    }
    return {
        name: python2_pickle(
            {
                "batch_label": f"{name} of tiny",
                "labels": arrays[f"y_{split}"][part].tolist(),
                "data": planes(arrays[f"x_{split}"][part]),
            }
        )
        for name, (split, part) in slices.items()
    }


def planes(images):
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2).reshape(len(images), -1))


def cifar_archive(batches):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, batch in {"batches.meta": b"unused", **batches}.items():
            member = tarfile.TarInfo(f"tiny-batches-py/{name}")
            member.size = len(batch)
            archive.addfile(member, io.BytesIO(batch))
    return content.getvalue()


def python2_pickle(values):
    """Protocol 2 as Python 2's cPickle writes it: strings are bytes, and arrays name numpy.core."""
    body = b"".join(_pickled(key) + _pickled(value) for key, value in values.items())
    return b"\x80\x02}(" + body + b"u."


def _pickled(value):
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, bytes):
        return b"U" + bytes([len(value)]) + value if len(value) < 256 else b"T" + struct.pack("<i", len(value)) + value
    if isinstance(value, int):
        return b"J" + struct.pack("<i", value)
    if isinstance(value, list):
        return b"](" + b"".join(map(_pickled, value)) + b"e"
    shape = b"(" + b"".join(map(_pickled, value.shape)) + b"t"
    dtype = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNN" + 2 * _pickled(-1) + b"K\x00tb"
    empty = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    return empty + b"(K\x01" + shape + dtype + b"\x89" + _pickled(value.tobytes()) + b"tb"
