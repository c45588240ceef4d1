import dataclasses

import numpy as np
import pytest

from coteach.data import Dataset
from coteach.errors import DataError


def parts(**changes):
    """The arrays of a small valid dataset, some of them replaced."""
    return {
        "x_train": np.arange(6 * 4 * 4, dtype=np.uint8).reshape(6, 4, 4, 1),
        "y_train": np.array([0, 1, 2, 0, 1, 2]),
        "x_test": np.zeros((3, 4, 4, 1), np.uint8),
        "y_test": np.array([0, 1, 2]),
        **changes,
    }


def make(**changes):
    return Dataset.checked("mine", **parts(**changes))


def test_a_valid_dataset_says_what_it_is():
    dataset = make()
    assert (dataset.name, dataset.shape, dataset.classes) == ("mine", (4, 4, 1), 3)
    assert dataset.class_names == ("0", "1", "2")
    assert dataset.x_train.dtype == np.uint8
    assert dataset.y_train.dtype == np.int64
    with pytest.raises(dataclasses.FrozenInstanceError):
        dataset.name = "yours"


@pytest.mark.parametrize(
    ("values", "shape", "dtype"),
    [
        (np.zeros((6, 4, 5), np.uint8), (4, 5, 1), np.uint8),
        (np.zeros((6, 4, 5, 3), np.int64), (4, 5, 3), np.uint8),
        (np.zeros((6, 4, 5, 3), np.float64), (4, 5, 3), np.float32),
        (np.zeros((6, 4, 5), np.float16), (4, 5, 1), np.float32),
        (np.zeros((6, 7), np.float64), (7,), np.float32),
        (np.zeros((6, 7), np.uint8), (7,), np.float32),
        ([[0, 1]] * 6, (2,), np.float32),
    ],
)
def test_samples_of_usual_kinds_are_normalised(values, shape, dtype):
    dataset = make(x_train=values, x_test=values[:3])
    assert dataset.shape == shape
    assert dataset.x_train.dtype == dataset.x_test.dtype == dtype


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.float32, np.float64, "column"])
def test_labels_of_usual_kinds_are_normalised(kind):
    labels = np.array([0, 1, 2, 0, 1, 2])
    labels = labels[:, np.newaxis] if kind == "column" else labels.astype(kind)
    dataset = make(y_train=labels)
    assert dataset.y_train.dtype == np.int64
    assert dataset.y_train.tolist() == [0, 1, 2, 0, 1, 2]


def test_a_class_may_be_missing_from_the_test_split_or_have_no_sample_at_all():
    dataset = make(y_test=[0, 0, 0], class_names=("a", "b", "c", "d"))
    assert dataset.classes == 4


def test_numbers_that_leave_some_out_are_names():
    dataset = make(y_train=[1, 2, 3, 1, 2, 3], y_test=[3, 3, 7])
    assert dataset.class_names == ("1", "2", "3", "7")
    assert (dataset.y_train.tolist(), dataset.y_test.tolist()) == ([0, 1, 2, 0, 1, 2], [2, 2, 3])


@pytest.mark.parametrize("kind", [np.str_, np.bytes_, object, "column"])
def test_labels_may_be_texts(kind):
    labels = np.array(["owl", "cat", "owl", "cat", "dog", "dog"])
    labels = labels[:, np.newaxis] if kind == "column" else labels.astype(kind)
    dataset = make(y_train=labels, y_test=["dog", "dog", "cat"])
    assert dataset.class_names == ("cat", "dog", "owl")
    assert (dataset.y_train.tolist(), dataset.y_test.tolist()) == ([2, 0, 2, 0, 1, 1], [1, 1, 0])
    ordered = make(y_train=labels, y_test=["dog", "dog", "cat"], class_names=("owl", "dog", "cat", "elk"))
    assert (ordered.classes, ordered.y_test.tolist()) == (4, [1, 1, 2])


def test_texts_that_are_numbers_keep_the_order_of_numbers():
    dataset = make(y_train=["10", "9", "0", "10", "9", "0"], y_test=["0", "9", "10"])
    assert dataset.class_names == ("0", "9", "10")
    assert dataset.y_test.tolist() == [0, 1, 2]


def test_a_test_set_need_not_be_given():
    for test in ({"x_test": None, "y_test": None}, {"x_test": [], "y_test": []}):
        dataset = make(**test)
        assert (dataset.x_test.shape, dataset.y_test.shape) == ((0, 4, 4, 1), (0,))
        assert dataset.x_test.dtype == dataset.x_train.dtype


def test_the_fingerprint_is_that_of_the_data_alone():
    told = make(notes=["told"], ids=list("abcdef"), test_labels="as given", preprocessing={"kind": "images", "size": 4})
    assert told.fingerprint == make().fingerprint
    assert make().preprocessing == {"kind": "arrays", "size": 4, "channels": 1}


nan = np.zeros((6, 2), np.float32)
nan[4, 1] = np.nan
infinite = np.zeros((6, 2), np.float64)
infinite[2, 0] = 1e300  # finite until it becomes float32


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"x_train": np.zeros((0, 4, 4, 1), np.uint8), "y_train": []}, "x_train is empty"),
        ({"y_test": []}, "y_test is empty"),
        ({"x_train": nan}, r"x_train holds NaN or infinite values \(first in sample 4\)"),
        ({"x_train": infinite}, r"x_train holds NaN or infinite values \(first in sample 2\)"),
        ({"y_train": [0, 1]}, "x_train holds 6 samples and y_train 2 labels"),
        ({"y_test": [0, 1]}, "x_test holds 3 samples and y_test 2 labels"),
        ({"x_test": np.zeros((3, 4, 5, 1), np.uint8)}, r"shape \(4, 4, 1\) and a test sample \(4, 5, 1\)"),
        ({"x_test": np.zeros((3, 4, 4, 1), np.float32)}, "x_train is uint8 and x_test is float32"),
        ({"y_train": [0, 1, 0.5, 0, 1, 2]}, "y_train holds labels that are not integers"),
        ({"y_train": [0, 1, np.nan, 0, 1, 2]}, "y_train holds labels that are not integers"),
        ({"y_train": list("abcabc")}, "y_test holds the label '0' .*, which is no class of the training data"),
        ({"y_train": ["a", "b", "", "a", "b", "c"], "y_test": list("abc")}, "y_train has an empty label .* sample 2"),
        ({"x_test": None}, "x_test is missing: give both or neither"),
        ({"ids": ["a"]}, "1 ids for 6 training samples"),
        ({"y_train": np.eye(6)}, r"y_train has shape \(6, 6\): give one integer for each sample"),
        ({"y_train": [0, 1, -2, 0, 1, 2]}, "y_train holds the negative label -2"),
        ({"y_test": [0, 1, 3], "class_names": "abc"}, "label 3 is out of range, at most 3 classes"),
        ({"y_test": [0, 1, 10**9]}, "label 1000000000 is out of range"),
        ({"class_names": ("a", "a", "b")}, "two classes have the name 'a'"),
        ({"y_train": [1] * 6}, "all training labels are 1"),
        ({"x_train": np.array([None] * 6)}, "x_train is an object array"),
        ({"y_train": np.array([0, 1, None, 0, 1, 2])}, "y_train is an object array"),
        ({"x_train": [[1], [1, 2]]}, "x_train is ragged"),
        ({"x_train": np.zeros(6)}, r"x_train has shape \(6,\)"),
        ({"x_train": np.zeros((6, 4), complex)}, "x_train holds complex128 values"),
        ({"x_train": np.full((6, 4, 4), 256)}, "x_train holds integers from 256 to 256"),
    ],
)
def test_invalid_data_is_refused_with_cause_and_way_out(changes, cause):
    with pytest.raises(DataError, match=cause) as raised:
        make(**changes)
    message = str(raised.value)
    assert message.startswith("mine: ")
    assert "\n" not in message
    assert message.count(": ") >= 2, "no way out in the message"


def test_the_fingerprint_depends_on_the_content_and_on_nothing_else():
    one = make()
    assert len(one.fingerprint) == 64
    assert one.fingerprint == make(y_train=np.array([0, 1, 2, 0, 1, 2], np.uint8)).fingerprint
    for key, value in parts().items():
        changed = value.copy()
        changed.flat[0] += 1
        assert make(**{key: changed}).fingerprint != one.fingerprint, key
    flat = {key: parts()[key].reshape(-1, 2, 8, 1) for key in ("x_train", "x_test")}
    assert make(**flat).fingerprint != one.fingerprint


def test_the_fingerprint_of_a_view_is_that_of_its_content():
    turned = parts()["x_train"].transpose(0, 2, 1, 3)
    assert make(x_train=turned).fingerprint == make(x_train=turned.copy()).fingerprint
