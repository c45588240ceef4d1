"""An audit from end to end: wrong labels on digits, found in one training, and corrected."""

import csv
import json

import numpy as np
import pytest

from coteach.audit.issues import COLUMNS
from coteach.audit.suspects import Evidence, suspects, without_rare
from coteach.data import Dataset, load
from coteach.noise import corrupt, symmetric


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Digits with a fifth of their labels wrong, as somebody's own file."""
    folder = tmp_path_factory.mktemp("data")
    digits = load("digits")
    draw = corrupt(digits.y_train, symmetric(10, 0.2), 1)
    names = np.array([f"digit {label}" for label in range(10)])
    np.savez(folder / "mine.npz", x=digits.x_train, y=names[draw.noisy])
    return folder / "mine.npz", draw, names


def test_an_audit_finds_and_corrects_wrong_labels(cli, data, tmp_path):
    path, draw, names = data
    before = path.read_bytes()
    done = cli("audit", path, "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert abs(answer["noise_rate"]["rate"] - draw.rate) < 0.05
    with (tmp_path / "audit" / "label_issues.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert tuple(table[0]) == COLUMNS
    assert len(table) == len(draw.noisy)
    scores = [float(row["score"]) for row in table]
    assert scores == sorted(scores, reverse=True)
    assert 0 <= scores[-1] <= scores[0] <= 1
    wrong = draw.noisy != draw.clean
    flagged = np.array([int(row["id"]) for row in table if row["is_label_issue"] == "True"])
    assert wrong[flagged].mean() > 0.9
    assert wrong[flagged].sum() > 0.8 * wrong.sum()
    worst = [int(row["id"]) for row in table[: wrong.sum()]]
    assert wrong[worst].mean() > 0.9
    suggested = {int(row["id"]): row["suggested_label"] for row in table}
    assert np.mean([suggested[n] == names[draw.clean[n]] for n in flagged if wrong[n]]) > 0.9
    easy, hard = ([float(row["picked_by_1"]) for row in part] for part in (table[-100:], table[:100]))
    assert np.mean(easy) > 0.8 > 0.5 > np.mean(hard)
    assert "digit 3" in (tmp_path / "audit" / "audit.html").read_text()

    again = cli("audit", path)
    assert again.returncode == 0
    assert "epoch" not in again.stderr  # nothing is trained twice
    assert f"{answer['label_issues']} of {len(table):,} labels look wrong" in again.stdout

    fixed = cli("audit", "apply", "audit", "--accept-above", "0.5", "--out", "cleaned.npz")
    assert fixed.returncode == 0, fixed.stderr
    with np.load(tmp_path / "cleaned.npz") as file:
        labels = file["y"]
    assert (labels != names[draw.clean]).mean() < 0.05
    assert path.read_bytes() == before

    other = tmp_path / "other.npz"
    np.savez(other, x=np.random.default_rng(0).normal(size=(80, 4)), y=np.arange(80) % 2)
    refused = cli("audit", other)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "holds the audit of other data" in refused.stderr


def test_known_noise_says_how_many_were_found(cli):
    done = cli("audit", "digits", "--noise", "symmetric", "--rate", "0.3", "--epochs", "3", "--noise-rate", "0.25")
    assert done.returncode == 0, done.stderr
    assert "that really are wrong are among them" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["--noise-rate", "2"],
        ["--noise-rate", "much"],
        ["--method", "magic"],
        ["--label", "x"],
        ["--shown", "0"],
        ["--out", "file"],
    ],
)
def test_what_cannot_be_is_refused_in_one_line(cli, tmp_path, words):
    (tmp_path / "file").touch()
    answer = cli("audit", "digits", *words)
    assert (answer.returncode, answer.stderr.count("\n")) == (2, 1), answer.stderr


def test_both_views_count():
    """A label that the trained networks believe and the warm-up does not is more suspect than one that both believe."""
    y = np.arange(400) % 4
    dataset = Dataset.checked("made up", np.zeros((400, 2), np.float32), y)
    sure = 0.97 * np.eye(4)[y] + 0.01
    doubted = sure.copy()
    doubted[7] = doubted[7, [1, 2, 3, 0]]
    doubted[8] = doubted[8, [1, 2, 3, 0]]
    learned = sure.copy()
    learned[8] = doubted[8]
    ledger = {"seen": np.full(400, 10), "picked": np.full((2, 400), 5), "loss": np.full((2, 400), 20.0)}
    found = suspects(dataset, y, Evidence(doubted, learned, ledger))
    assert found.worst_first[:2].tolist() == [8, 7]
    assert found.is_issue[8]
    assert found.suggested[8] == doubted[8].argmax() != y[8]
    assert not found.is_issue[np.arange(400) > 8].any()
    assert (found.picked == 0.5).all()
    assert (found.loss == 2.0).all()
    assert found.ids[:2] == ("0", "1")


def test_a_class_of_few_labels_is_not_suggested():
    digits = load("digits")
    y = digits.y_train[:400].copy()
    rare = np.flatnonzero(y == 9)
    y[rare[2:]] = 3  # two labels of a nine are left
    some = Dataset.checked("digits", digits.x_train[:400], y, class_names=digits.class_names)
    member = np.full((400, 10), 0.01)
    member[np.arange(400), digits.y_train[:400]] = 0.91  # the networks know the nines all the same
    ledger = {"seen": np.ones(400), "picked": np.ones((2, 400)), "loss": np.ones((2, 400))}
    found = suspects(some, y, Evidence(member, member, ledger))
    assert set(found.suggested[y != 9]) == set(range(9))
    assert (found.suggested[rare[:2]] == 9).all()
    sure = without_rare(np.array([[1.0, 0, 0], [0, 0.9, 0.1]]), np.array([1, 0]))
    np.testing.assert_array_equal(sure, [[1.0, 0, 0], [0, 0.9, 0.1]])  # all rare
    y = np.repeat([0, 1, 2], [2, 20, 20])
    sure = without_rare(np.tile([1.0, 0, 0], (42, 1)), y)
    np.testing.assert_array_equal(sure, np.eye(3)[y])  # nothing else speaks for another class
    everything = without_rare(member[:6], np.arange(6))
    np.testing.assert_array_equal(everything, member[:6])  # where all classes are rare, there is nothing better


def test_labels_that_do_not_start_at_zero(cli, tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(1, 4, 240)
    given = np.where(np.arange(240) < 24, y % 3 + 1, y)
    np.savez(tmp_path / "ones.npz", x=rng.normal(size=(240, 2)) + 6.0 * np.stack([y == 1, y == 2], 1), y=given)
    done = cli("audit", "ones.npz", "--epochs", "2", "--method", "s-model", "--out", "with space")
    assert done.returncode == 0, done.stderr
    assert "apply 'with space' --decisions" in done.stdout
    with (tmp_path / "with space" / "label_issues.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["given_label"] for row in rows} == {"1", "2", "3"}
    assert {row["suggested_label"] for row in rows} <= {"1", "2", "3"}
    tried = cli("audit", "ones.npz", "--epochs", "1", "--noise", "symmetric", "--rate", "0.2", "--out", "tried")
    assert tried.returncode == 0, tried.stderr
    refused = cli("audit", "apply", "tried", "--accept-above", "0.5", "--out", "no.npz")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "was made with --noise" in refused.stderr
