"""What guards a training on labels that nobody knows: balanced selection, a guard, and evidence for every sample."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from coteach.data import Dataset, load
from coteach.errors import TrainingError
from coteach.methods.selection import small_loss_within
from coteach.noise import corrupt, symmetric
from coteach.recipes import recipe
from coteach.results.folder import RunFolder
from coteach.results.run import run
from coteach.training.guard import identical, vanished_class
from coteach.training.setup import draw_labels, make_trainer

CPU = torch.device("cpu")
RARE = 8


def trained(config, dataset, draw, **how):
    trainer = make_trainer(config, dataset, draw, device=CPU, **how)
    while trainer.epoch <= config.epochs:
        for _ in trainer.run_epoch():
            pass
        trainer.finish_epoch()
    return trainer


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 30), st.floats(0.0, 0.9), st.integers(0, 10**6), st.booleans())
def test_balanced_selection_against_loops(n, tau, seed, up):
    rng = np.random.default_rng(seed)
    losses, labels = rng.integers(0, 6, n) / 2, rng.integers(0, 4, n)  # with ties
    share = 1 - tau
    expected = np.zeros(n, bool)
    for label in range(4):
        mine = sorted((losses[i], i) for i in range(n) if labels[i] == label)
        exact = share * len(mine)
        count = int(np.ceil(exact - 1e-9 * len(mine)) if up else np.floor(exact + 1e-9 * len(mine)))
        for _, i in mine[:count]:
            expected[i] = True
    picked = small_loss_within(
        torch.tensor(losses), torch.tensor(labels), torch.tensor(share, dtype=torch.float64), up=up
    )
    assert (picked.numpy() == expected).all()


@pytest.fixture(scope="module")
def rare_class():
    """Digits with only 30 eights, and half of the labels wrong."""
    digits = load("digits")
    rows = np.sort(np.r_[np.flatnonzero(digits.y_train != RARE), np.flatnonzero(digits.y_train == RARE)[:30]])
    dataset = Dataset.checked("rare", digits.x_train[rows], digits.y_train[rows], digits.x_test, digits.y_test)
    return dataset, corrupt(dataset.y_train, symmetric(10, 0.5), 2)


def recall(trainer, dataset):
    seen = trainer.log_probabilities(trainer.test).exp().mean(0).argmax(1).numpy()
    return (seen == dataset.y_test)[dataset.y_test == RARE].mean()


def test_small_loss_loses_a_rare_class_and_balanced_keeps_it(rare_class):
    dataset, draw = rare_class
    how = {"noise": "symmetric", "rate": 0.5, "noise_seed": 2, "seed": 2, "name": "small", "t_k": 3}
    how |= {"epochs": 20, "decay_from": 20}
    found = {
        balanced: recall(trained(recipe(dataset, balanced=balanced, **how), dataset, draw), dataset)
        for balanced in (False, True)
    }
    assert found[False] <= 0.2
    assert found[True] >= 0.4


def test_the_guard_says_which_class_has_vanished(rare_class):
    dataset, draw = rare_class
    config = recipe(
        dataset, noise="symmetric", rate=0.5, noise_seed=2, name="small", epochs=20, t_k=3, guard="stop", tau=0.9
    )
    with pytest.raises(
        TrainingError, match=r"epoch \d+: network \d picked none of the samples labelled \d: it saw \d+; .*balanced"
    ):
        trained(config, dataset, draw)
    warned = trained(replace(config, guard="warn"), dataset, draw).warnings
    assert warned  # each network and class once, however many samples there were
    assert all(re.fullmatch(r"network \d picked none of the samples labelled \d", kind) for kind in warned)


def fixed(shape, classes):
    torch.manual_seed(7)  # the mistake: every network is the same
    return nn.Sequential(nn.Flatten(), nn.Linear(64, classes))


def test_the_guard_notices_identical_networks(quick):
    dataset = load("digits")
    config = quick(guard="stop", drop_last=False, max_steps=0)
    draw = draw_labels(config, dataset)
    with pytest.raises(TrainingError, match="epoch 1: the networks are identical"):
        trained(config, dataset, draw, network=fixed)
    trained(quick(guard="off", max_steps=0), dataset, draw, network=fixed)  # only the guard minds
    assert identical([nn.Linear(2, 2)]) is False


def test_a_small_class_may_have_a_bad_day():
    assert vanished_class(torch.tensor([[5.0, 0.0], [4.0, 3.0]]), torch.tensor([50.0, 19.0])) is None
    assert vanished_class(torch.tensor([[5.0, 1.0], [4.0, 0.0]]), torch.tensor([50.0, 20.0])) == (1, 1)


def test_evidence_is_kept_where_nobody_knows_the_truth(tmp_path, quick):
    config = quick(noise="none", rate=None, tau=0.25, t_k=1, drop_last=False, max_steps=0)
    result = run(config, tmp_path, device="cpu", threads=1)
    kept = RunFolder(result.path).evidence()
    n = result.summary["train_samples"]
    assert (kept["seen"] == config.epochs).all()
    share = kept["picked"].sum(1) / (n * config.epochs)
    assert share == pytest.approx(np.mean([record.picked for record in result.epochs], axis=0), abs=2e-3)
    assert (kept["loss"] > 0).all()
    easy = kept["picked"].min(0) == config.epochs
    hard = kept["picked"].max(0) == 1  # in the first epoch, which keeps everything
    assert kept["loss"][:, easy].mean() < kept["loss"][:, hard].mean()
    known = run(quick(), tmp_path, device="cpu", threads=1)
    assert not RunFolder(known.path).evidence_file.exists()
