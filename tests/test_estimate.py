"""How many labels are wrong: each estimator on scores with a known answer, and all of it on the digits."""

import importlib
import json
import os
import shutil
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax

from coteach.data import Dataset, load
from coteach.errors import DataError, SettingError
from coteach.estimate import correction
from coteach.estimate.combined import APART, CHANCE, RANK, estimate
from coteach.estimate.estimators import (
    confident_joint,
    disagreement,
    dual_matrix,
    joint_of,
    margin_mixture,
    ranking,
    rows_to_one,
    wrong_share,
)
from coteach.estimate.halves import halves_of, learnable, sha256_of
from coteach.estimate.latent import Scores, latent_classes, named
from coteach.estimate.prepare import objection, prepare
from coteach.estimate.warm_up import WarmUp, warm_up, warm_up_config
from coteach.nets import build
from coteach.noise import corrupt, pair, symmetric
from coteach.recipes import recipe
from coteach.results.run import InterruptedRun
from coteach.samples import as_input
from coteach.training.setup import held_out_rows, make_trainer

CPU = torch.device("cpu")


def made_up(matrix, n=3000, spread=0.5, seed=0):
    """Scores of a network that learned the noisy labels of well separated classes: log P(label | class), and noise."""
    rng = np.random.default_rng(seed)
    draw = corrupt(rng.integers(len(matrix), size=n), matrix, seed)
    mean = np.log(matrix + 0.02)[draw.clean]
    scores = Scores(log_softmax(mean + spread * rng.normal(size=mean.shape), 1), rng.integers(2, size=n))
    return scores, draw


@pytest.mark.parametrize(
    ("kind", "rate"), [(symmetric, 0.0), (symmetric, 0.2), (symmetric, 0.5), (pair, 0.2), (pair, 0.45)]
)
def test_latent_classes_find_the_matrix(kind, rate):
    scores, draw = made_up(kind(5, rate))
    found = latent_classes(scores, draw.noisy)
    assert wrong_share(found.joint(draw.noisy)) == pytest.approx(draw.rate, abs=0.03)
    assert np.abs(rows_to_one(found.joint(draw.noisy)) - draw.realised).max() < 0.08
    assert (found.member.argmax(1) == draw.clean).mean() > 0.9


def test_the_largest_score_is_not_enough_under_strong_pair_noise():
    scores, draw = made_up(pair(5, 0.45))
    assert (scores.log_p.argmax(1) == draw.clean).mean() < 0.7
    assert (latent_classes(scores, draw.noisy).member.argmax(1) == draw.clean).mean() > 0.9


def test_an_estimate_holds_the_truth_and_is_trusted():
    scores, draw = made_up(symmetric(5, 0.3))
    found = estimate(scores, draw.noisy)
    assert found.low <= draw.rate <= found.high
    assert found.high - found.low < 0.15
    assert found.trusted
    assert found.parts[-1].rate >= draw.rate - 0.01  # the disagreement is an upper bound
    assert [part.name for part in found.parts[:4]] == [
        "latent classes",
        "confident joint",
        "dual matrix",
        "margin mixture",
    ]
    assert json.loads(json.dumps(found.to_dict()))["rate"] == found.rate


def test_clean_labels_and_sure_networks_give_zero_and_no_warning():
    y = np.arange(400) % 4
    found = estimate(Scores(log_softmax(12.0 * np.eye(4)[y], 1), np.arange(400) // 4 % 2), y)
    assert found.rate < 0.005
    assert found.warnings == ()


def test_scores_that_say_nothing_are_not_trusted():
    rng = np.random.default_rng(0)
    scores = Scores(log_softmax(0.3 * rng.normal(size=(2000, 5)), 1), rng.integers(2, size=2000))
    found = estimate(scores, rng.integers(5, size=2000))
    assert not found.trusted
    assert all("\n" not in warning for warning in found.warnings)


def test_few_samples_are_said_to_be_few():
    scores, draw = made_up(symmetric(5, 0.2), n=60)
    assert any("few" in warning for warning in estimate(scores, draw.noisy).warnings)


def test_the_confident_joint_by_hand():
    # two samples of each label; thresholds are the means .8 and .6; the fourth is confidently of class 0
    p = np.array([[0.9, 0.1], [0.7, 0.3], [0.1, 0.9], [0.8, 0.3]])
    y = np.array([0, 0, 1, 1])
    joint = confident_joint(np.log(p), y)
    # counted: (0, 0) once, (1, 1) once, (0, 1) once; the columns scaled to half of the samples each
    assert joint == pytest.approx(np.array([[0.5, 0.25], [0.0, 0.25]]))
    assert wrong_share(joint) == pytest.approx(0.25)


def test_the_dual_matrix_of_a_network_that_is_right_is_counted():
    draw = corrupt(np.arange(3000) % 3, symmetric(3, 0.3), 1)
    sure = np.log(np.full((3000, 3), 1e-9) + np.eye(3)[draw.clean])
    assert dual_matrix(sure, draw.noisy) == pytest.approx(draw.realised, abs=1e-6)
    assert wrong_share(joint_of(draw.realised, draw.noisy)) == pytest.approx(draw.rate, abs=1e-6)


def test_the_margin_mixture_counts_what_lies_below_zero():
    rng = np.random.default_rng(0)
    wrong = rng.random(4000) < 0.3
    margin = np.where(wrong, -3, 3) + rng.normal(size=4000)
    log_p = log_softmax(np.stack([margin / 2, -margin / 2], 1), 1)
    y = np.zeros(4000, np.int64)
    assert margin_mixture(log_p, y) == pytest.approx(wrong.mean(), abs=0.01)
    assert margin_mixture(log_p[~wrong], y[~wrong]) < 0.005
    assert disagreement(log_p, y) == pytest.approx((margin < 0).mean())


@settings(max_examples=30, deadline=None)
@given(st.permutations(range(4)))
def test_classes_get_their_names_back(order):
    draw = corrupt(np.arange(800) % 4, pair(4, 0.45), 3)
    member = np.eye(4)[draw.clean]
    assert (named(member[:, order], draw.noisy) == member).all()


@given(st.integers(4, 200), st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_each_label_is_in_both_halves(n, seed):
    y = np.random.default_rng(seed).integers(3, size=n)
    half = halves_of(y, seed)
    assert abs(half.sum() * 2 - n) <= 1
    for label in range(3):
        count = (y == label).sum()
        assert count // 2 <= half[y == label].sum() <= count - count // 2


@pytest.fixture(scope="module")
def noisy_digits():
    dataset = load("digits")
    config = recipe("digits", noise="symmetric", rate=0.3, name="own", max_steps=6)
    return config, dataset, corrupt(dataset.y_train, symmetric(10, 0.3), 0)


@pytest.fixture(scope="module")
def warm(noisy_digits, tmp_path_factory):
    """A folder with the warm-up of the noisy digits, to be copied."""
    config, dataset, draw = noisy_digits
    out = tmp_path_factory.mktemp("warm")
    prepare(replace(config, correction_epochs=0), dataset, draw, device=CPU, out=out)
    return out


def test_a_warm_up_that_is_interrupted_ends_the_same(noisy_digits, tmp_path):
    config, dataset, draw = noisy_digits
    config = warm_up_config(config, len(draw.noisy))
    whole = warm_up(config, dataset, draw, device=CPU)
    steps = []

    def stop_now_and_then(progress):
        steps.append(progress)
        if len(steps) in (3, 40):  # in the first half's first epoch, and later
            os.kill(os.getpid(), signal.SIGINT)

    how = {"device": CPU, "folder": tmp_path / "warm-up", "on_progress": stop_now_and_then}
    for _ in range(2):
        with pytest.raises(InterruptedRun, match="run the same command again"):
            warm_up(config, dataset, draw, **how)
    again = warm_up(config, dataset, draw, **how)
    found = WarmUp.load(tmp_path / "warm-up")
    for other in (again, found):
        assert (other.scores.log_p == whole.scores.log_p).all()
        assert (other.scores.half == whole.scores.half).all()
        assert other.epochs == whole.epochs
        assert other.sha256 == whole.sha256
    assert sorted(path.name for path in (tmp_path / "warm-up").iterdir()) == ["scores.npz", "weights.safetensors"]
    (tmp_path / "warm-up" / "scores.npz").write_bytes(b"torn")
    with pytest.raises(DataError, match="delete the folder"):
        warm_up(config, dataset, draw, **how)


def test_what_a_run_holds_out_is_new_to_its_networks(noisy_digits, monkeypatch):
    """Else the best epoch would be chosen by samples that the warm-up has learned."""
    config, dataset, draw = noisy_digits
    config = replace(config, hold_out=0.25)
    trained = {}

    def spy(module):
        def make(config, dataset, draw, *, rows, **how):
            trained.setdefault(module.__name__, []).append(rows)
            return make_trainer(config, dataset, draw, rows=rows, **how)

        monkeypatch.setattr(module, "make_trainer", make)

    for module in (importlib.import_module(f"coteach.estimate.{name}") for name in ("warm_up", "correction")):
        spy(module)
    ready = prepare(config, dataset, draw, device=CPU)
    assert ready.config.correction_epochs == 2
    held = held_out_rows(config, len(draw.noisy))
    assert len(held) == round(0.25 * len(draw.noisy))
    for rows in (*trained["coteach.estimate.warm_up"], *trained["coteach.estimate.correction"]):
        assert not np.intersect1d(rows, held).size
    assert sum(map(len, trained["coteach.estimate.warm_up"])) == len(draw.noisy) - len(held)


def test_a_half_that_loses_most_of_its_samples_has_smaller_batches():
    """By chance one half may have nearly all that is held out, and nobody asked for a batch of so many."""
    config = recipe(
        Dataset.checked("few", np.zeros((24, 2), np.float32), np.arange(24) % 2), batch_size=10, hold_out=0.7
    )
    held = held_out_rows(config, 24)
    mine, seen = learnable(config, np.append(held, np.setdiff1d(np.arange(24), held)[:3]), 24)
    assert (mine.batch_size, len(seen)) == (3, 3)
    with pytest.raises(DataError, match=r"hold_out 0.7 of 24 samples leaves too few to judge labels: lower it"):
        learnable(config, held, 24)


def test_the_rate_goes_into_the_config(noisy_digits):
    config, dataset, draw = noisy_digits
    said = []
    ready = prepare(config, dataset, draw, device=CPU, on_message=said.append)
    assert abs(ready.estimate.rate - draw.rate) < 0.06
    assert ready.config.settings["tau"] == round(ready.estimate.rate, 4)
    assert ready.config.inputs.warm_up_sha256 == sha256_of(ready.initial)
    assert ready.config.name != config.name
    assert "of the labels are wrong" in said[0]


def right(weights, dataset, config):
    """Share of the test samples that networks with these weights get right, and whether they are two."""
    nets = [build(config.network, dataset.shape, dataset.classes, 0.0) for _ in weights]
    for net, each in zip(nets, weights, strict=True):
        net.load_state_dict(each)
        net.eval()
    x = as_input(torch.from_numpy(dataset.x_test))
    with torch.no_grad():
        said = torch.stack([net(x).argmax(1) for net in nets])
    return (said == torch.from_numpy(dataset.y_test)).float().mean().item(), bool((said[0] != said[1]).any())


def test_the_networks_learn_what_the_estimate_suggests():
    dataset = load("digits")
    draw = corrupt(dataset.y_train, pair(10, 0.45), 0)
    config = recipe("digits", noise="pair", rate=0.45, name="own")
    ready = prepare(config, dataset, draw, device=CPU)
    before, _ = right(ready.warm_up.weights, dataset, config)
    after, two = right(ready.initial, dataset, config)
    assert after > before + 0.1
    assert two
    assert ready.config.settings["schedule"] == "constant"


@pytest.mark.parametrize(("method", "networks"), [("co-teaching", 2), ("mentornet", 1)])
def test_each_network_learns_the_suggestions_for_its_own_half(noisy_digits, monkeypatch, method, networks):
    config, dataset, draw = noisy_digits
    config = recipe("digits", noise="symmetric", rate=0.3, name="own", method=method, max_steps=6)
    asked = []

    def spy(*args, **more):
        asked.append((args[2].noisy, more["rows"], more["initial"]))
        return make_trainer(*args, **more)

    monkeypatch.setattr(correction, "make_trainer", spy)
    ready = prepare(config, dataset, draw, device=CPU)
    half = halves_of(draw.noisy, config.order_seed)
    assert len(asked) == len(ready.initial) == networks
    for h, (labels, rows, initial) in enumerate(asked):
        assert (labels == ready.estimate.suggested).all()
        assert (rows == np.flatnonzero(half == h)).all()
        assert initial == [ready.warm_up.weights[h]]


def test_who_is_not_corrected(noisy_digits, warm, tmp_path):
    config, dataset, draw = noisy_digits
    how = {"device": CPU, "out": shutil.copytree(warm, tmp_path / "out")}
    plain = recipe("digits", noise="symmetric", rate=0.3, name="own", method="standard", max_steps=6)
    few = replace(dataset, x_train=dataset.x_train[:150], y_train=dataset.y_train[:150])
    labels = corrupt(few.y_train, symmetric(10, 0.3), 0)
    for ready in (
        prepare(replace(config, correction_epochs=0), dataset, draw, **how),
        prepare(plain, dataset, draw, **how),  # it does not select by loss
        prepare(replace(config, batch_size=32), few, labels, device=CPU),  # its estimate is not to be trusted
        prepare(config, dataset, draw, rate=0.05, **how),  # it would be corrected by other labels than it drops
    ):
        assert sha256_of(ready.initial) == ready.warm_up.sha256 == ready.config.inputs.warm_up_sha256
        assert ready.config.settings.get("schedule", "text") == "text"
        assert ready.config.correction_epochs == 0
    said = []
    prepare(config, dataset, draw, rate=0.05, **how, on_message=said.append)
    assert said[-2:] == [
        "the rate given is used: 5.0 %, against the estimate",
        "the networks do not learn the suggested labels first: the rate given does not fit the estimate",
    ]
    known = prepare(config, dataset, draw, rate=0.3, **how)
    assert (known.config.settings["tau"], known.config.settings["schedule"]) == (0.3, "constant")


def test_no_correction_that_loses_a_class(noisy_digits, warm):
    config, dataset, draw = noisy_digits
    found = prepare(replace(config, correction_epochs=0), dataset, draw, device=CPU, out=warm).estimate
    assert objection(found, draw, None) is None
    member = found.member.copy()
    member[found.suggested == 8] = np.eye(10)[3]
    assert objection(replace(found, member=member), draw, None) == "a class would all but vanish"


def test_a_config_names_a_correction_only_where_it_can_be_made():
    """So that runs without one keep the names that they had."""
    own = {"noise": "symmetric", "rate": 0.3, "name": "own"}
    assert recipe("digits", **own).correction_epochs == 2
    for change in ({"method": "standard"}, {"tau": 0.2}):
        assert recipe("digits", **own, **change).correction_epochs == 0
        with pytest.raises(SettingError, match="correction_epochs cannot do anything"):
            recipe("digits", **own, **change, correction_epochs=1)
    audit = recipe("digits", noise="symmetric", rate=0.3, name="audit")
    firsts = {warm_up_config(config, 1437).name for config in (recipe("digits", **own), audit)}
    assert len(firsts) == 1  # an audit and a training share their warm-up


def test_a_correction_that_is_interrupted_ends_the_same(noisy_digits, warm, tmp_path):
    config, dataset, draw = noisy_digits
    whole = prepare(config, dataset, draw, device=CPU)
    shutil.copytree(warm, tmp_path, dirs_exist_ok=True)
    at = []

    def stop_now_and_then(progress):
        if progress.config.method.startswith("correction") and not progress.over:
            at.append(progress)
            if len(at) in (2, 14):  # in each half once
                os.kill(os.getpid(), signal.SIGINT)

    for _ in range(2):
        with pytest.raises(InterruptedRun, match="stopped in the correction and saved in") as stopped:
            prepare(config, dataset, draw, device=CPU, out=tmp_path, on_progress=stop_now_and_then)
        assert stopped.value.prepared.estimate.rate == whole.estimate.rate
        assert len(stopped.value.prepared.initial) == 2
    assert {progress.config.method for progress in at} == {"correction 1 of 2", "correction 2 of 2"}
    for _ in range(2):  # to the end, and then found
        again = prepare(config, dataset, draw, device=CPU, out=tmp_path, on_progress=stop_now_and_then)
        assert again.config.inputs.warm_up_sha256 == whole.config.inputs.warm_up_sha256
        steps = len(at)
    assert len(at) == steps == 20  # two epochs of five steps in each half, none of them twice
    suggested, weights = sorted(tmp_path.glob("warm-ups/*/corrected-*/*"))
    assert (suggested.name, weights.name) == ("suggested.npy", "weights.safetensors")
    weights.write_bytes(b"torn")
    with pytest.raises(DataError, match="delete the folder"):
        prepare(config, dataset, draw, device=CPU, out=tmp_path)


@pytest.mark.slow  # a second look at what an interrupted one shows
def test_a_correction_that_is_killed_goes_on_from_its_checkpoint(noisy_digits, warm, tmp_path):
    config, dataset, draw = noisy_digits
    whole = prepare(config, dataset, draw, device=CPU, out=shutil.copytree(warm, tmp_path / "whole"))
    shutil.copytree(warm, tmp_path, dirs_exist_ok=True)
    at = []

    def die(progress):
        if progress.config.method == "correction 2 of 2":
            at.append(progress)
            if len(at) == 4:
                raise MemoryError  # not a stop that somebody asked for: nothing is saved on the way out

    how = {"device": CPU, "out": tmp_path, "checkpoint_every": 0.0, "on_progress": die}
    with pytest.raises(MemoryError):
        prepare(config, dataset, draw, **how)
    assert prepare(config, dataset, draw, **how).config.inputs == whole.config.inputs
    assert len(at) == 4 + 10 - 3 + 1  # the fourth step was not saved yet; one more says that it is over


def test_the_command_says_it(cli):
    words = ["estimate", "digits", "--noise", "symmetric", "--rate", "0.2"]
    first = cli(*words)
    assert first.returncode == 0, first.stderr
    for text in ("latent classes", "confident joint", "dual matrix", "margin mixture", "together", "really wrong: 20"):
        assert text in first.stdout
    answer = json.loads(cli(*words, "--json").stdout)  # found, not trained again
    assert abs(answer["rate"] - answer["true_rate"]) <= 0.05
    assert answer["low"] <= answer["true_rate"] <= answer["high"]
    assert "ended after" in first.stderr
    assert cli("estimate", "digits", "--noise", "symmetric").returncode == 2


def test_train_with_an_estimated_rate(cli):
    words = [
        "train",
        "--data",
        "digits",
        "--noise",
        "symmetric",
        "--rate",
        "0.4",
        "--noise-rate",
        "auto",
        "--epochs",
        "2",
    ]
    first = json.loads(cli(*words, "--json").stdout)
    assert abs(first["config"]["settings"]["tau"] - 0.4) < 0.06
    assert not first["already_done"]
    assert abs(first["estimate"]["rate"] - 0.4) < 0.06
    again = cli(*words, "--quiet")
    assert "done already" in again.stdout
    assert f"wrong labels     {100 * first['estimate']['rate']:.1f} %  (estimated, " in again.stdout
    assert again.stderr == ""
    assert "of the labels are wrong" in cli(*words, "--json").stderr
    known = json.loads(cli(*words[:-4], "--noise-rate", "0.35", "--epochs", "1", "--json").stdout)
    assert known["config"]["settings"]["tau"] == 0.35
    assert known["config"]["inputs"]["warm_up_sha256"] is None
    assert known["estimate"] is None
    for wrong in (["--noise-rate", "many"], ["--noise-rate", "0.2", "--tau", "0.2"], ["--noise-rate", "1.5"]):
        answer = cli("train", "--data", "digits", *wrong)
        assert (answer.returncode, answer.stderr.count("\n")) == (2, 1), answer.stderr


def test_a_class_that_no_label_names_gets_no_samples():
    scores, draw = made_up(symmetric(4, 0.2))
    wider = Scores(np.insert(scores.log_p, 2, -4.0, axis=1), scores.half)
    y = draw.noisy + (draw.noisy >= 2)
    assert (latent_classes(wider, y).member[:, 2] == 0).all()
    assert estimate(wider, y).rate == pytest.approx(draw.rate, abs=0.03)


def test_networks_that_only_rank_are_not_blind():
    """With one class in ten and noisy labels, a good network's likeliest class is nearly always the common one."""
    rng = np.random.default_rng(0)
    true = (rng.random(2000) < 0.1).astype(int)
    y = np.where(rng.random(2000) < 0.3, 1 - true, true)
    odds = -0.6 + 0.4 * true + 0.1 * rng.normal(size=2000)
    log_p = log_softmax(np.stack([np.zeros(2000), odds], 1), 1)
    half = np.arange(2000) % 2
    assert disagreement(log_p, y) > CHANCE * y.mean()
    assert ranking(log_p, y, half) > RANK
    assert not estimate(Scores(log_p, half), y).blind
    mixed = rng.permutation(y)
    assert abs(ranking(log_p, mixed, half)) < RANK
    assert estimate(Scores(log_p, half), mixed).blind


def test_a_mixture_without_a_second_hill_vouches_for_nothing():
    """Two classes that overlap: the latent classes find hardly a wrong label, the counts find many, nobody knows."""
    rng = np.random.default_rng(0)
    y = np.arange(1400) % 2
    odds = 0.8 * (2 * y - 1) + rng.standard_t(6, size=1400)
    found = estimate(Scores(log_softmax(np.stack([np.zeros(1400), odds], 1), 1), np.arange(1400) // 2 % 2), y)
    parts = {part.name: part for part in found.parts}
    assert parts["margin mixture"].high == 0
    assert parts["confident joint"].rate > found.rate + APART
    assert not found.trusted


@pytest.mark.parametrize("scores", [np.zeros(4), np.array([0.0, 1e5, -1e5, 3e4])])
def test_networks_that_learned_nothing_are_not_trusted(scores):
    same = np.tile(log_softmax(scores), (200, 1))
    found = estimate(Scores(same, np.arange(200) // 4 % 2), np.arange(200) % 4)
    assert any("no better than chance" in warning for warning in found.warnings)
    assert found.blind
