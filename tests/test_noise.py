import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coteach.errors import DataError, SettingError
from coteach.noise import Draw, check_matrix, corrupt, load_draw, pair, read_matrix, save_draw, symmetric

rates = st.floats(0, 0.999)
sizes = st.integers(2, 60)


@given(sizes, rates)
def test_pair_matches_its_definition(n, rate):
    q = pair(n, rate)
    for i in range(n):
        for j in range(n):
            expected = (1 - rate) * (i == j) + rate * (j == (i + 1) % n)
            assert q[i, j] == pytest.approx(expected)
    check_matrix(q)


@given(sizes, rates)
def test_symmetric_matches_its_definition(n, rate):
    q = symmetric(n, rate)
    for i in range(n):
        for j in range(n):
            assert q[i, j] == pytest.approx(1 - rate if i == j else rate / (n - 1))
    check_matrix(q)


@given(st.integers(2, 12), st.integers(0, 2**32), st.lists(st.integers(0, 11), min_size=1, max_size=200))
def test_labels_are_drawn_from_their_own_row(n, seed, labels):
    rng = np.random.default_rng(seed)
    q = rng.random((n, n)) * (rng.random((n, n)) < 0.6) + np.eye(n)
    q /= q.sum(1, keepdims=True)
    clean = np.array(labels) % n
    draw = corrupt(clean, q, seed)
    chance = np.random.default_rng(seed).random(len(clean))
    for label, noisy, u in zip(clean, draw.noisy, chance, strict=True):
        assert q[label, noisy] > 0
        expected = next(j for j in range(n) if u < q[label, : j + 1].sum() or j == n - 1)
        assert noisy == expected
    assert draw.rate == np.mean(draw.noisy != clean)


def test_a_class_that_mostly_has_the_label_of_another_is_known():
    labels = np.repeat([0, 1, 3], [5, 4, 2])  # class 2 has no samples
    noisy = np.array([0, 0, 0, 1, 1, 2, 2, 2, 1, 3, 0])
    draw = Draw(noisy, labels, np.eye(4), 0)
    assert draw.mistaken == [(1, 2)]  # two labels as often are none more often
    assert draw.unlucky
    by_the_matrix = corrupt(np.arange(1000) % 4, pair(4, 0.7))
    assert len(by_the_matrix.mistaken) == 4
    assert not by_the_matrix.unlucky  # no other seed would help
    assert corrupt(labels, np.eye(4)).mistaken == []


def test_rate_zero_changes_nothing():
    y = np.arange(1000) % 10
    for q in (pair(10, 0), symmetric(10, 0), np.eye(10)):
        draw = corrupt(y, q)
        assert (draw.noisy == y).all()
        assert draw.rate == 0


def test_frequencies_follow_the_matrix():
    y = np.repeat(np.arange(10), 20_000)
    for q in (pair(10, 0.45), symmetric(10, 0.5)):
        draw = corrupt(y, q, seed=3)
        assert np.abs(draw.realised - q).max() < 0.015
        assert draw.rate == pytest.approx(1 - np.trace(draw.realised) / 10)


def test_own_seed_and_nothing_else_decides():
    y = np.arange(5000) % 10
    np.random.seed(1)
    first = corrupt(y, pair(10, 0.45), seed=7)
    np.random.seed(2)
    assert corrupt(y, pair(10, 0.45), seed=7).sha256 == first.sha256
    assert corrupt(y, pair(10, 0.45), seed=8).sha256 != first.sha256


def test_sixty_thousand_labels_need_no_patience():
    y = np.arange(60_000) % 100
    q = symmetric(100, 0.5)
    start = time.perf_counter()
    corrupt(y, q)
    assert time.perf_counter() - start < 1  # some 5 ms; the bound only catches a loop over samples


@pytest.mark.parametrize(
    ("matrix", "cause"),
    [
        ([[0.5, 0.5]], "square"),
        ([[1.0]], "square"),
        ([[1.2, -0.2], [0, 1]], "negative"),
        ([[np.nan, 1], [0, 1]], "NaN"),
        ([[0.5, 0.4], [0, 1]], "row 0 of the transition matrix sums to 0.9"),
        ([["a", 1], [0, 1]], "not a number"),
    ],
)
def test_bad_matrices_are_refused(matrix, cause):
    with pytest.raises(DataError, match=cause):
        check_matrix(matrix)


@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5, float("nan")])
def test_bad_rates_are_refused(rate):
    with pytest.raises(SettingError, match="rate"):
        pair(10, rate)


def test_labels_outside_the_matrix_are_refused():
    with pytest.raises(DataError, match="labels run from 0 to 5"):
        corrupt([0, 5], np.eye(3))


def test_a_draw_survives_its_file(tmp_path):
    draw = corrupt(np.arange(100) % 5, symmetric(5, 0.3), seed=4)
    save_draw(draw, tmp_path / "labels.npz")
    again = load_draw(tmp_path / "labels.npz")
    assert again.sha256 == draw.sha256
    assert (again.clean == draw.clean).all()
    assert (again.matrix == draw.matrix).all()
    assert again.seed == 4


def test_a_draw_that_was_changed_is_refused(tmp_path):
    draw = corrupt(np.arange(100) % 5, symmetric(5, 0.3))
    path = tmp_path / "labels.npz"
    noisy = draw.noisy.copy()
    noisy[0] = (noisy[0] + 1) % 5
    np.savez(path, noisy=noisy, clean=draw.clean, matrix=draw.matrix, seed=0, sha256=draw.sha256)
    with pytest.raises(DataError, match="do not match their hash"):
        load_draw(path)
    save_draw(draw, path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DataError, match="damaged"):
        load_draw(path)
    with pytest.raises(DataError, match="no such file"):
        load_draw(tmp_path / "none.npz")


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"matrix": np.eye(3)}, "its matrix has 3 classes"),
        ({"noisy": np.full(100, 50)}, "runs from 50 to 50"),
        ({"clean": np.zeros(99, int)}, "one whole number a sample"),
        ({"noisy": np.zeros((100, 1), int)}, "one whole number a sample"),
        ({"noisy": np.zeros(100)}, "one whole number a sample"),
        ({"seed": np.zeros(2)}, "seed is not a number"),
    ],
)
def test_a_draw_with_impossible_parts_is_refused(tmp_path, changes, cause):
    draw = corrupt(np.arange(100) % 5, symmetric(5, 0.3))
    parts = {"noisy": draw.noisy, "clean": draw.clean, "matrix": draw.matrix, "seed": 0, "sha256": draw.sha256}
    np.savez(tmp_path / "labels.npz", **(parts | changes))
    with pytest.raises(DataError, match=cause):
        load_draw(tmp_path / "labels.npz")


@pytest.mark.parametrize("labels", [np.zeros((3, 2), int), np.array([0.5, 1.0]), np.array(["a"])])
def test_labels_that_are_no_numbers_are_refused(labels):
    with pytest.raises(DataError, match="one whole number a sample"):
        corrupt(labels, np.eye(3))


def test_a_matrix_from_a_file(tmp_path):
    path = tmp_path / "q.csv"
    path.write_text("0.9,0.1\n0,1\n")
    assert read_matrix(path).tolist() == [[0.9, 0.1], [0, 1]]
    np.save(tmp_path / "q.npy", np.eye(3))
    assert read_matrix(tmp_path / "q.npy").shape == (3, 3)
    path.write_text("0.9;0.1\n0;1\n")
    with pytest.raises(DataError, match="not a matrix of numbers"):
        read_matrix(path)
