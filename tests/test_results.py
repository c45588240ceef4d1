"""What README.md, docs/ and results/ show is what the runs in results/ say."""

import importlib
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from coteach.analysis.numbers import LAST_TEN
from coteach.analysis.tables import tabulate
from coteach.methods.f_correction import anchor_rows
from coteach.methods.s_model import SModel
from coteach.methods.selection import authors_keep_share, keep_share
from coteach.noise import pair, symmetric
from coteach.results.collection import read_runs
from coteach.results.publish import read_published

HOME = Path(__file__).parents[1]
PAPER = sorted((HOME / "results" / "paper").glob("*.json"))


@pytest.fixture(scope="module")
def show():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(HOME / "results")
        return importlib.import_module("show")


@pytest.fixture(scope="module")
def explain(show):
    return show.explain


@pytest.fixture(scope="module")
def paper():
    return read_runs(HOME / "results" / "paper")


def test_every_table_is_that_of_the_runs(show):
    for path, text in show.texts().items():
        assert path.read_text(encoding="utf-8") == text, f"run `make tables`: {path.name} differs"


def test_what_command_makes_the_readmes_tables(show, cli):
    words = ("--only", "Table 4", "Table 5", "Table 6", "--measure", "accuracy", "--format", "markdown")
    made = cli("table", "paper", "--runs", HOME / "results" / "paper", *words).stdout
    assert made in (HOME / "README.md").read_text(encoding="utf-8")


def test_a_lost_mark_loses_no_text(show):
    assert (
        show.between("a <!-- x -->\nold<!-- end of x --> b", "x", "new\n") == "a <!-- x -->\nnew\n<!-- end of x --> b"
    )
    with pytest.raises(SystemExit, match="end of x"):
        show.between("a <!-- x -->\nold", "x", "new")


def test_no_answer_has_a_smaller_expected_loss_than_the_one_that_is_chosen(explain):
    rng = np.random.default_rng(0)
    for noise, believed in ((pair(5, 0.45), pair(5, 0.3).T), (symmetric(5, 0.5), rng.dirichlet(np.ones(5), 5))):

        def loss(answers, noise=noise, believed=believed):
            return -(noise * np.log(answers @ believed + 1e-12)).sum(1)

        chosen = explain.chosen_answers(noise, believed + 1e-12)
        assert chosen.sum(1) == pytest.approx(np.ones(5))
        for _ in range(200):
            assert (loss(chosen) <= loss(rng.dirichlet(np.ones(5) / 2, 5)) + 1e-6).all()


def test_what_the_page_says_of_swapped_rows(explain):
    """A right matrix is right, the wrong way round nowhere; of nine swapped rows of ten a tenth is left."""

    def share(believed):
        return explain.share_of_the_right(explain.chosen_answers(pair(10, 0.45), believed))

    assert share(explain.swapped([])) == pytest.approx(100)
    assert share(explain.swapped([]).T) == pytest.approx(0, abs=1e-4)
    assert share(explain.swapped(range(10))) == pytest.approx(0, abs=1e-4)
    assert share(explain.swapped(range(9))) == pytest.approx(10.5, abs=0.05)


@pytest.mark.parametrize("sharpness", [1, 3, 10])
def test_what_a_training_loss_says_of_the_matrices_that_are_read_off_it(explain, sharpness):
    """Of networks that know their labels more or less by heart, in fp64, where no two samples tie."""
    for seed in range(20):
        torch.manual_seed(seed)
        labels = torch.arange(5000) % 10
        logits = torch.randn(5000, 10, dtype=torch.float64) * sharpness
        logits[torch.arange(5000), labels] += 12 * sharpness * torch.rand(5000, dtype=torch.float64) ** 0.2
        known = explain.Known.by(float(F.cross_entropy(logits, labels)))
        probabilities = logits.softmax(1)
        assert (logits.argmax(1) != labels).float().mean() <= known.wrong
        model = SModel(10)
        model.learn_from(probabilities, labels)
        assert model.believed().diag().min() >= known.counted - 1e-6
        assert anchor_rows(probabilities, filter_outliers=True).diag().min() >= known.surest


def test_the_worst_that_a_training_loss_can_hide_is_near_what_the_page_says(explain):
    """All of the loss is in one class, and its surest samples are left out."""
    labels = torch.arange(10_000) % 10
    probabilities = torch.full((10_000, 10), 1e-9, dtype=torch.float64)
    probabilities[torch.arange(10_000), labels] = 1 - torch.rand(10_000, dtype=torch.float64) * 1e-9
    rest = (labels == 0).nonzero().flatten()[300:]
    probabilities[rest, 0] = 0.8
    probabilities[rest, 1] = 0.2
    known = explain.Known.by(float(F.nll_loss(probabilities.log(), labels)))
    assert known.surest <= anchor_rows(probabilities, filter_outliers=True).diag().min() <= known.surest + 0.04


def test_a_network_that_is_sure_of_all_samples_of_a_class_leaves_f_correction_none_of_them():
    """What the page says of ties: whoever has probability 1 in 32 bits is left out as an outlier."""
    labels = torch.arange(5000) % 10
    logits = torch.randn(5000, 10)
    logits[torch.arange(5000), labels] += 60
    assert anchor_rows(logits.softmax(1), filter_outliers=True).diag().max() < 1e-6
    assert anchor_rows(logits.double().softmax(1), filter_outliers=False).diag().min() > 0.999


def test_what_the_page_says_of_table_7(explain):
    """When the text's R(T) ends, what is dropped before that, and over how many points nine cells spread."""

    def dropped(t_k, c, share=keep_share):
        return 1 - share(torch.arange(1, 201), 1.0, t_k, c)

    assert [int((dropped(t_k, 0.5) < 1).sum()) for t_k in (5, 10, 15)] == [25, 100, 200]
    assert [int((dropped(15, 0.5) < part).sum()) for part in (0.5, 0.75)] == [57, 127]
    assert float(1 - authors_keep_share(torch.tensor(5), 0.45, 5, 0.5)) == pytest.approx(0.67, abs=0.005)
    runs = read_runs(HOME / "results" / "schedule")
    printed = explain.plan_of("paper", "Table 7").printed_cells()
    text, authors = (
        tabulate(explain.plan_of("schedule", f"R(T) by the {who}"), runs, "accuracy", LAST_TEN).cells
        for who in ("text", "authors' program")
    )
    for noise, points in (("symmetric-50", (12.6, 2.4, 1.0)), ("symmetric-20", (2.5, 0.6, 0.5))):
        for cells, expected in zip((text, authors, printed), points, strict=True):
            means = [100 * cell.mean for (row, _), cell in cells.items() if row.startswith(noise)]
            assert len(means) == 9
            assert max(means) - min(means) == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize("path", PAPER, ids=lambda path: path.stem)
def test_a_run_of_the_paper_says_all_that_it_takes_to_make_it_again(path, paper):
    found = read_published(path)
    assert found.config.epochs == 200
    assert len(found.epochs) == (found.summary["best_epoch"] + found.config.patience if found.config.patience else 200)
    named, now = path.stem.rpartition("-")[0], found.config.name.rpartition("-")[0]
    assert named == now  # the hash after it may be of a version with fewer settings
    assert found.summary["environment"]["device"] == "cuda: NVIDIA H200"
    assert re.fullmatch(r"[0-9a-f]{7,40}", found.summary["environment"]["commit"])
    assert paper.find(found.config).path == path


def test_there_are_runs():
    assert len(PAPER) >= 12
