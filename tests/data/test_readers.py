import gzip
import os
import pickle
import warnings
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from official_formats import (
    BATCHES,
    IDX_CODES,
    cifar_archive,
    cifar_files,
    idx,
    planes,
    python2_pickle,
    tiny_arrays,
)

from coteach.data.inert_pickle import load_dict
from coteach.data.readers import parse_idx, read_cifar, read_idx, read_npz
from coteach.errors import DataError, StorageError

WAY_OUT = "delete it and run `coteach data fetch tiny`"
SHAPE = (4, 5, 3)


@pytest.fixture
def arrays():
    return tiny_arrays(SHAPE, train=12, test=6)


def assert_same(found, wanted):
    assert found.keys() == wanted.keys()
    for key, array in wanted.items():
        assert found[key].dtype == array.dtype
        np.testing.assert_array_equal(found[key], array)


@settings(deadline=None)  # other work on the machine must not fail a test
@given(
    st.sampled_from(sorted(IDX_CODES)).flatmap(
        lambda code: hnp.arrays(np.dtype(code), hnp.array_shapes(max_dims=4, min_side=0))
    ),
    st.booleans(),
)
def test_idx_round_trip(array, compressed):
    content = gzip.compress(idx(array)) if compressed else idx(array)
    found = parse_idx(content)
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)


WHOLE = idx(np.arange(60, dtype=np.uint8).reshape(3, 4, 5))
ZIPPED = gzip.compress(WHOLE, mtime=0)


DAMAGED = {
    "a byte short": (WHOLE[:-1], "59 bytes of data instead of 60"),
    "a byte long": (WHOLE + b"!", "61 bytes of data instead of 60"),
    "cut in the header": (WHOLE[:9], "ends within its header"),
    "empty": (b"", "no IDX file"),
    "a web page": (b"<html>Not Found</html>", "no IDX file"),
    "unknown type": (b"\0\0\x07\x01\0\0\0\1a", "no IDX file"),
    "absurd shape": (b"\0\0\x08\x03" + b"\xff" * 12, "instead of"),
    "gzip cut in half": (ZIPPED[: len(ZIPPED) // 2], "end-of-stream"),
    "gzip cut in its header": (ZIPPED[:5], "end-of-stream|EOF"),
    "gzip with a wrong checksum": (ZIPPED[:-8] + bytes(8), "CRC check failed"),
    "gzip overwritten": (ZIPPED[:10] + b"\xff" * 20 + ZIPPED[30:], "damaged"),
}


@pytest.mark.parametrize(("content", "cause"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_idx_file_is_named_with_the_way_out(tmp_path, content, cause):
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes(content)
    with pytest.raises(DataError, match=cause) as raised:
        read_idx(path, WAY_OUT)
    assert str(path) in str(raised.value)
    assert str(raised.value).endswith(WAY_OUT)


def test_a_file_that_cannot_be_opened_is_not_called_damaged(tmp_path):
    with pytest.raises(StorageError, match="No such file"):
        read_idx(tmp_path / "absent", WAY_OUT)
    with pytest.raises(StorageError, match="directory"):
        read_npz(tmp_path, WAY_OUT)


def test_the_batches_of_these_tests_are_true_pickles(arrays):
    content = cifar_files(arrays)["test_batch"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy.core has moved
        true = pickle.loads(content, encoding="bytes")
    np.testing.assert_array_equal(true[b"data"], planes(arrays["x_test"]))
    assert true[b"labels"] == arrays["y_test"].tolist()


def test_cifar_from_the_archive_and_from_the_unpacked_folder(tmp_path, arrays):
    files = cifar_files(arrays)
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    archive = tmp_path / BATCHES.archive
    archive.write_bytes(cifar_archive(files))
    assert_same(read_cifar(tmp_path, BATCHES, SHAPE, WAY_OUT), arrays)
    assert_same(read_cifar(archive, BATCHES, SHAPE, WAY_OUT), arrays)


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_pickled_by_today_s_numpy_are_read_too(order):
    array = np.asarray(np.arange(12, dtype=np.uint8).reshape(3, 4), order=order)
    found = load_dict(pickle.dumps({b"data": array, b"other": np.arange(3, dtype=">i4")}, protocol=3))
    np.testing.assert_array_equal(found["data"], array)
    assert found["other"].tolist() == [0, 1, 2]


class Call:
    """Pickles as a call of a function."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("function", [os.system, eval, exec, os.mkdir], ids=lambda function: function.__name__)
def test_a_malicious_batch_is_refused_and_nothing_runs(tmp_path, arrays, function, protocol):
    marker = tmp_path / "marker"
    argument = {
        os.system: f"mkdir '{marker}'",
        os.mkdir: str(marker),
    }.get(function, f"__import__('os').mkdir({str(marker)!r})")
    bad = pickle.dumps({b"data": Call(function, argument), b"labels": []}, protocol=protocol)
    archive = tmp_path / BATCHES.archive
    archive.write_bytes(cifar_archive({**cifar_files(arrays), "data_batch_1": bad}))
    with pytest.raises(DataError, match=r"data_batch_1: it asks for .*, which no dataset needs"):
        read_cifar(archive, BATCHES, SHAPE, WAY_OUT)
    assert not marker.exists()
    pickle.loads(bad)  # the attack is a real one
    assert marker.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x02cnumpy\ndtype\n}U\x0c__setstate__Nsb.",  # tries to change a stand-in
        b"\x80\x02cnumpy\nndarray\n)\x81N}U\x05arrayNs\x86b.",
        b"\x80\x02cnumpy.core.multiarray\nndarray.__init__\n.",
        b"\x80\x02cnumpy\ndtype.__init__.__globals__\n.",
        b"\x80\x04\x8c\x05numpy\x8c\x0edtype.__init__\x93.",
        b"\x80\x02Ppersistent\n.",
        b"\x80\x02]q\0h\x07.",
    ],
)
def test_a_pickle_can_neither_reach_through_the_stand_ins_nor_change_them(tmp_path, content, arrays):
    archive = tmp_path / BATCHES.archive
    archive.write_bytes(cifar_archive({**cifar_files(arrays), "test_batch": content}))
    with pytest.raises(DataError, match="test_batch: "):
        read_cifar(archive, BATCHES, SHAPE, WAY_OUT)
    found = load_dict(cifar_files(arrays)["test_batch"])
    np.testing.assert_array_equal(found["data"], planes(arrays["x_test"]))


@pytest.mark.parametrize(
    ("batch", "cause"),
    [
        (lambda whole: whole[: len(whole) // 2], "truncated|Ran out"),
        (lambda _: b"", "Ran out of input"),
        (lambda _: b"\x80\x02].", "no dictionary"),
        (lambda _: python2_pickle({"labels": [0]}), "data_batch_2: no 'data'"),
        (lambda _: python2_pickle({"data": np.zeros((2, 60), np.uint8), "labels": [0]}), "do not fit"),
        (lambda _: python2_pickle({"data": np.zeros((2, 59), np.uint8), "labels": [0, 1]}), "reshape"),
        (lambda _: python2_pickle({"data": np.zeros((1, 60), np.uint8), "labels": [300]}), "300"),
    ],
)
def test_a_damaged_batch_is_named(tmp_path, arrays, batch, cause):
    files = cifar_files(arrays)
    archive = tmp_path / BATCHES.archive
    archive.write_bytes(cifar_archive({**files, "data_batch_2": batch(files["data_batch_2"])}))
    with pytest.raises(DataError, match=cause) as raised:
        read_cifar(archive, BATCHES, SHAPE, WAY_OUT)
    assert f"{archive} is damaged (data_batch_2: " in str(raised.value)
    assert str(raised.value).endswith(WAY_OUT)


def test_a_damaged_or_incomplete_archive_is_named(tmp_path, arrays):
    files, archive = cifar_files(arrays), tmp_path / BATCHES.archive
    whole = cifar_archive(files)
    for content in (whole[: len(whole) // 2], whole[: len(whole) // 5], b"", b"not a tar"):
        archive.write_bytes(content)
        with pytest.raises(DataError, match="is damaged"):
            read_cifar(archive, BATCHES, SHAPE, WAY_OUT)
    del files["test_batch"]
    archive.write_bytes(cifar_archive(files))
    with pytest.raises(DataError, match="it lacks test_batch"):
        read_cifar(archive, BATCHES, SHAPE, WAY_OUT)


def test_npz(tmp_path, arrays):
    path = tmp_path / "mine.npz"
    np.savez(path, **arrays, class_names=np.array(["a", "b"]), more=np.zeros(3))
    found = read_npz(path, WAY_OUT)
    assert found.pop("class_names").tolist() == ["a", "b"]
    assert_same(found, arrays)


def test_a_damaged_npz_is_named(tmp_path, arrays):
    path = tmp_path / "mine.npz"
    np.savez(path, **arrays)
    whole = path.read_bytes()
    changed = bytearray(whole)
    changed[500] ^= 1
    for content in (whole[:-30], whole[: len(whole) // 2], b"", b"PK", pickle.dumps("x"), bytes(changed)):
        path.write_bytes(content)
        with pytest.raises(DataError, match="is damaged") as raised:
            read_npz(path, WAY_OUT)
        assert str(path) in str(raised.value)
        assert str(raised.value).endswith(WAY_OUT)


@settings(deadline=None)
@given(st.data())
def test_no_damage_to_an_npz_gets_through_or_escapes_as_another_error(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "flipped.npz"
    arrays = tiny_arrays((2, 2, 1), train=3, test=2)
    np.savez(path, **arrays)
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    with suppress(DataError):
        assert_same(read_npz(path, WAY_OUT), arrays)  # the flipped bit was of no importance, such as a date


def test_an_npz_with_pickled_objects_is_refused_and_nothing_runs(tmp_path, arrays):
    marker, path = tmp_path / "marker", tmp_path / "mine.npz"
    np.savez(path, **{**arrays, "y_test": np.array([Call(os.mkdir, str(marker))], object)})
    with pytest.raises(DataError, match="Object arrays cannot be loaded"):
        read_npz(path, WAY_OUT)
    assert not marker.exists()


def test_an_npz_without_a_test_split_says_what_is_missing(tmp_path, arrays):
    path = tmp_path / "mine.npz"
    np.savez(path, x_train=arrays["x_train"], y_train=arrays["y_train"])
    with pytest.raises(DataError, match="holds no x_test and no y_test: save x_train, y_train, x_test, y_test in it"):
        read_npz(path, WAY_OUT)
