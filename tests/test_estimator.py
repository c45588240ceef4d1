"""The classifier for scikit-learn: its own checks, and what they do not look at."""

import pickle
import re
import signal
import threading
import warnings
from pathlib import Path
from unittest import SkipTest

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

import coteach
from coteach.errors import SettingError, TrainingError
from coteach.estimator import NoisyLabelClassifier
from coteach.estimator.in_memory import InMemory
from coteach.methods import catalogue

PAGE = Path(__file__).parents[1] / "docs" / "estimator.md"
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*samples of .* classes are too few", "ignore:the noise rate may not be", "ignore:stopped as asked"
)


@parametrize_with_checks([NoisyLabelClassifier()])
def test_scikit_learn(estimator, check):
    """Every check, none excused, and none left out because something is not installed, but for pandas."""
    try:
        check(estimator)
    except SkipTest as skipped:
        assert "pandas" in str(skipped)  # noqa: PT017
        raise


@pytest.fixture(scope="module")
def digits():
    """Digits with their right labels, and with four in ten wrong."""
    x, y = load_digits(return_X_y=True)
    return x[:1200], y[:1200], coteach.corrupt(y[:1200], coteach.symmetric(10, 0.4), seed=3).noisy


@pytest.fixture(scope="module")
def fitted(digits):
    x, _, given = digits
    return NoisyLabelClassifier(random_state=0).fit(x, given)


@pytest.fixture(scope="module")
def blobs():
    """Two classes that a glance tells apart, too few to estimate anything from."""
    return make_blobs(n_samples=12, centers=[[-2, -2], [2, 2]], cluster_std=0.5, random_state=0)


def quick(*words, **changes):
    return NoisyLabelClassifier(*words, **({"epochs": 2, "random_state": 0} | changes))


# What it finds


def test_digits_of_which_four_in_ten_have_a_wrong_label(digits, fitted):
    """Measured over seeds: precision 0.99, recall 0.92 to 0.95, rate 0.41 to 0.43, accuracy 0.95."""
    _, y, given = digits
    wrong = given != y
    issues = fitted.label_issues_
    assert wrong[issues.is_label_issue].mean() > 0.9
    assert issues.is_label_issue[wrong].mean() > 0.8
    assert abs(fitted.noise_rate_ - wrong.mean()) < 0.1
    assert fitted.estimate_.rate == fitted.noise_rate_
    x_test, y_test = (part[1200:] for part in load_digits(return_X_y=True))
    assert fitted.score(x_test, y_test) > 0.85


def test_the_attributes_fit_together(digits, fitted):
    x, _, given = digits
    issues = fitted.label_issues_
    assert len(issues) == len(given)
    assert (issues.given_label == given).all()
    assert (issues.is_label_issue == (issues.suggested_label != given)).all()
    assert ((issues.score >= 0) & (issues.score <= 1)).all()
    assert issues.score[issues.is_label_issue].min() > np.median(issues.score)
    probabilities = fitted.predict_proba(x)
    np.testing.assert_allclose(issues.p_given, probabilities[np.arange(len(given)), given], atol=1e-9)
    np.testing.assert_allclose(fitted.transition_matrix_.sum(1), 1)
    assert abs(np.diag(fitted.transition_matrix_).mean() - 0.6) < 0.1
    assert fitted.n_iter_ == len(fitted.history_) == 20


def test_label_issues_as_a_table(fitted):
    frame = pytest.importorskip("pandas").DataFrame(fitted.label_issues_)
    assert list(frame) == ["is_label_issue", "score", "given_label", "suggested_label", "p_given", "p_suggested"]
    assert (frame.suggested_label.to_numpy() == fitted.label_issues_.suggested_label).all()


def test_a_sample_alone_gets_what_it_gets_among_others(digits, fitted):
    x, _, _ = digits
    whole = fitted.predict_proba(x[:50])
    assert whole.dtype == np.float64
    np.testing.assert_allclose(whole.sum(1), 1, atol=1e-12)
    np.testing.assert_allclose(np.concatenate([fitted.predict_proba(row[None]) for row in x[:50]]), whole, atol=1e-9)


def test_images_as_bytes_and_texts_as_labels(digits):
    x, _, given = digits
    images = (x.reshape(-1, 8, 8)[:200] * 15).astype(np.uint8)
    names = np.array([f"digit {label}" for label in given[:200] % 2])
    model = quick().fit(images, names)
    assert model.classes_.tolist() == ["digit 0", "digit 1"]
    assert set(model.predict(images)) <= set(model.classes_)
    assert model.model_.network == "small-cnn"
    assert model.label_issues_.given_label.tolist() == names.tolist()
    scaled = (images / 255).astype(np.float32)[..., None]
    np.testing.assert_allclose(model.predict_proba(scaled), model.predict_proba(images), atol=1e-6)
    with pytest.raises(ValueError, match=r"shape \(8, 9, 1\), this model takes \(8, 8, 1\)"):
        model.predict(np.zeros((2, 8, 9), np.uint8))


@pytest.mark.parametrize("method", list(catalogue.entries()))
def test_every_method(method, digits):
    x, y, _ = digits
    model = quick(method).fit(x[:160], y[:160] % 2)
    assert model.n_iter_ == 2
    assert len(model.label_issues_) == 160
    assert model.score(x[:160], y[:160] % 2) > 0.7


# How many are needed


def test_with_few_samples_all_labels_are_believed(blobs):
    x, y = blobs
    with pytest.warns(UserWarning, match="12 samples of 2 classes are too few") as caught:
        model = NoisyLabelClassifier(random_state=0).fit(x, y)
    assert len(caught) == 1
    assert model.noise_rate_ == 0
    assert model.estimate_ is None
    assert (model.transition_matrix_ == np.eye(2)).all()
    assert not model.label_issues_.is_label_issue.any()
    assert all(share == 1 for record in model.history_ for share in record.picked)
    assert model.score(x, y) == 1


def test_few_samples_with_a_known_rate(blobs):
    x, y = blobs
    given = y.copy()
    given[3] = 1 - y[3]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = NoisyLabelClassifier(noise_rate=0.2, batch_size=12, lr=0.01, random_state=0).fit(x, given)
    assert model.noise_rate_ == 0.2
    np.testing.assert_allclose(model.transition_matrix_, [[0.8, 0.2], [0.2, 0.8]])
    assert model.history_[-1].picked == pytest.approx((10 / 12, 10 / 12))
    assert np.flatnonzero(model.label_issues_.is_label_issue).tolist() == [3]


def test_a_known_rate_takes_the_place_of_the_estimate(digits):
    x, _, given = digits
    with pytest.warns(UserWarning, match=r"noise_rate 25 % is used, and the labels look like \d+ to \d+ %: try 'auto'"):
        model = quick(noise_rate=0.25, settings={"t_k": 1}).fit(x[:300], given[:300])
    assert model.noise_rate_ == 0.25
    assert model.estimate_.rate != 0.25
    assert model.history_[-1].picked == pytest.approx((0.75, 0.75), abs=0.02)


def test_an_estimate_in_doubt_says_so_once():
    x, y = make_blobs(n_samples=24, centers=2, random_state=0)
    said = r"the noise rate may not be \d+ %: 24 samples of 2 classes are few for an estimate"
    with pytest.warns(UserWarning, match=said) as caught:
        model = quick().fit(x, y)
    assert len(caught) == 1
    assert model.estimate_.rate == model.noise_rate_


# In scikit-learn's world


def test_pipeline_search_and_cross_validation(digits):
    x, _, given = digits
    x, given = x[:120].copy(), given[:120] % 2
    x[::7, 20] = np.nan
    search = GridSearchCV(
        make_pipeline(SimpleImputer(), quick()),
        {"noisylabelclassifier__epochs": np.array([1, 2]), "noisylabelclassifier__balanced": [True]},
        cv=2,
        error_score="raise",
    ).fit(x, given)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_[-1].balanced
    assert np.isfinite(cross_val_score(search.best_estimator_, x, given, cv=2, error_score="raise")).all()


def test_clone_and_pickle(digits, fitted):
    x, _, _ = digits
    twin = clone(fitted)
    assert twin.get_params() == fitted.get_params()
    assert not hasattr(twin, "classes_")
    again = pickle.loads(pickle.dumps(fitted))
    assert (again.predict_proba(x) == fitted.predict_proba(x)).all()
    assert (again.label_issues_ == fitted.label_issues_).all()


def test_random_state(blobs):
    x, y = blobs

    def probabilities(state):
        return quick(random_state=state).fit(x, y).predict_proba(x)

    assert (probabilities(5) == probabilities(5)).all()
    assert (probabilities(5) != probabilities(6)).any()
    assert (probabilities(np.random.RandomState(5)) == probabilities(np.random.RandomState(5))).all()
    model = quick(random_state=np.random.RandomState(5))
    assert (model.fit(x, y).predict_proba(x) != model.fit(x, y).predict_proba(x)).any()


def test_the_same_again_after_an_estimate(digits):
    x, _, given = digits
    first, second = (quick().fit(x[:160], given[:160] % 2) for _ in range(2))
    assert (first.predict_proba(x) == second.predict_proba(x)).all()
    assert (first.label_issues_ == second.label_issues_).all()


def test_what_is_global_stays(blobs):
    x, y = blobs
    before = torch.get_num_threads()
    random, numpy_random, handler = torch.get_rng_state(), np.random.get_state()[1], signal.getsignal(signal.SIGINT)
    torch.set_num_threads(before + 1)
    try:
        quick(threads=before).fit(x, y).predict(x)
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)
    assert (torch.get_rng_state() == random).all()
    assert (np.random.get_state()[1] == numpy_random).all()
    assert signal.getsignal(signal.SIGINT) is handler


def test_the_model_can_be_saved(blobs, tmp_path):
    x, y = blobs
    model = quick().fit(x, np.where(y == 1, "yes", "no"))
    model.model_.save(tmp_path / "model")
    loaded = coteach.load_model(tmp_path / "model")
    assert loaded.predict(x).tolist() == model.predict(x).tolist()
    np.testing.assert_allclose(loaded.predict_proba(x), model.predict_proba(x), atol=1e-5)


# A network of the user's own


def test_any_function_that_makes_a_network(blobs):
    x, y = blobs
    model = quick(module=lambda shape, classes: nn.Linear(shape[0], classes), epochs=20, lr=0.05).fit(x, y)
    assert model.score(x, y) == 1
    assert [type(net) for net in model.model_.ensemble.networks] == [nn.Linear, nn.Linear]


def test_a_network_that_nobody_can_read_the_source_of(digits):
    """As one typed into a notebook: no file needs its name, so it need not be in a file."""
    x, _, given = digits
    names = {"nn": nn}
    exec("def network(shape, classes): return nn.Linear(shape[0], classes)", names)
    assert quick(module=names["network"]).fit(x[:160], given[:160] % 2).estimate_ is not None


class Single(nn.Linear):
    """A network that makes float32 of whatever it gets."""

    def __init__(self, shape, classes):
        super().__init__(shape[0], classes)

    def forward(self, x):
        return super().forward(x.float())


def test_a_network_that_works_in_float32_only(blobs):
    x, y = blobs
    model = pickle.loads(pickle.dumps(quick(module=Single).fit(x, y)))
    assert model.predict_proba(x).dtype == np.float64


# Ctrl-C


class Pressed(nn.Linear):
    """A network in whose n-th training step somebody presses Ctrl-C."""

    presses = ()
    steps = 0

    def __init__(self, shape, classes):
        super().__init__(shape[0], classes)

    def forward(self, x):
        if self.training:
            Pressed.steps += 1
            if Pressed.steps in Pressed.presses:
                self.press()
        return super().forward(x)

    @staticmethod
    def press():
        signal.raise_signal(signal.SIGINT)


@pytest.fixture
def pressed(monkeypatch):
    def at(*steps):
        monkeypatch.setattr(Pressed, "steps", 0)
        monkeypatch.setattr(Pressed, "presses", steps)
        return Pressed

    return at


def test_ctrl_c_while_it_trains(blobs, pressed):
    x, y = blobs  # 4 steps an epoch, in each a call of either network
    before = signal.getsignal(signal.SIGINT)
    with pytest.warns(UserWarning, match="stopped as asked after epoch 2 of 20: the model works as it is"):
        model = NoisyLabelClassifier(module=pressed(2 * 8 + 3), random_state=0).fit(x, y)
    assert model.n_iter_ == len(model.history_) == 2
    assert Pressed.steps == 2 * 8 + 4  # the step is not torn apart
    assert model.predict(x).shape == (12,)
    assert len(model.label_issues_) == 12
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(("step", "networks"), [(3, 1), (61, 1), (70, 2)])
def test_ctrl_c_in_the_warm_up(pressed, step, networks):
    """A half of 24 in batches of 12 is 2 steps an epoch, and so easy that each half takes all of its 30 epochs."""
    x, y = make_blobs(n_samples=48, centers=[[-2, -2], [2, 2]], cluster_std=0.5, random_state=0)
    with pytest.warns(UserWarning, match="stopped as asked in the warm-up, after epoch 0 of 20: the noise rate is not"):
        model = NoisyLabelClassifier(module=pressed(step), random_state=0, lr=0.02).fit(x, y)
    assert Pressed.steps == step
    assert len(model.model_.ensemble.networks) == networks  # one that has not finished an epoch says nothing
    assert (model.n_iter_, model.noise_rate_, model.estimate_) == (0, 0, None)
    assert model.predict_proba(x).shape == (48, 2)
    assert step == 3 or model.score(x, y) > 0.9


def test_ctrl_c_in_the_correction(pressed):
    """After the two warm-ups of 60 steps come two corrections of 4."""
    x, y = make_blobs(n_samples=48, centers=[[-2, -2], [2, 2]], cluster_std=0.5, random_state=0)
    with pytest.warns(UserWarning, match="stopped as asked after epoch 0 of 20: the model works as it is"):
        model = NoisyLabelClassifier(module=pressed(122), random_state=0, lr=0.02).fit(x, y)
    assert len(model.model_.ensemble.networks) == 2
    assert model.n_iter_ == 0
    assert model.estimate_.rate == model.noise_rate_
    assert model.score(x, y) > 0.9


def test_a_polite_kill_ends_the_program(pressed, monkeypatch):
    heard = []
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(Pressed, "press", staticmethod(lambda: heard.append(signal.getsignal(signal.SIGTERM))))
    x, y = make_blobs(n_samples=48, centers=2, random_state=0)
    quick(module=pressed(1, 2, *range(100, 140))).fit(x, y)
    assert len(heard) > 2
    assert set(heard) == {before}


def test_a_second_ctrl_c_does_not_wait(blobs, pressed):
    model = quick(module=pressed(3, 4))
    with pytest.raises(KeyboardInterrupt):
        model.fit(*blobs)
    assert not hasattr(model, "classes_")


def test_an_interrupt_in_a_thread(blobs, pressed, monkeypatch):
    def press():
        raise KeyboardInterrupt

    monkeypatch.setattr(Pressed, "press", staticmethod(press))
    model = quick(module=pressed(9 + 2))
    thread = threading.Thread(target=lambda: model.fit(*blobs))
    thread.start()
    thread.join()
    assert model.n_iter_ == 1


def test_ctrl_c_in_the_first_of_two_stages(blobs, pressed):
    with pytest.warns(UserWarning, match="stopped as asked after epoch 1 of 2 in stage one"):
        model = quick("f-correction", module=pressed(5)).fit(*blobs)
    assert model.predict(blobs[0]).shape == (12,)


def test_ctrl_c_between_two_stages_leaves_the_network_of_the_first(blobs, pressed, monkeypatch):
    trained = InMemory._epochs

    def then_stopped(self, trainer, stop):
        history = trained(self, trainer, stop)
        stop.set()
        return history

    monkeypatch.setattr(InMemory, "_epochs", then_stopped)
    with pytest.warns(UserWarning, match="stopped as asked after epoch 2 of 2 in stage one"):
        model = quick("f-correction", module=pressed()).fit(*blobs)
    assert len(model.history_) == 2


# What it refuses


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"method": "co-teachin"}, "did you mean 'co-teaching'"),
        ({"module": "mpl"}, "did you mean 'mlp'"),
        ({"module": nn.Linear(2, 2)}, "module is a network: give a function"),
        ({"module": 3}, "module is 3: give a function"),
        ({"module": lambda shape, classes: nn.Linear(7, classes)}, r"fails on samples of shape \(2,\)"),
        ({"noise_rate": 1.0}, "noise_rate is 1.0: give 'auto', or a number from 0 to below 1"),
        ({"noise_rate": "high"}, "noise_rate is 'high'"),
        ({"noise_rate": True}, "noise_rate is True"),
        ({"epochs": 0}, "epochs is 0: it must be at least 1"),
        ({"epochs": 2.5}, "epochs of a run is 2.5: give int"),
        ({"batch_size": 500}, "batch_size 500 is more than the 12 training samples: lower it"),
        ({"hold_out": 1.0}, "hold_out is 1: it must be at least 0 and less than 1"),
        ({"settings": {"t_kk": 3}}, "did you mean 't_k'"),
        ({"settings": {"lr": 0.1}}, "settings holds 'lr': lr says that"),
        ({"settings": 5}, "settings is 5: give a dict"),
        ({"method": "standard", "balanced": True}, "standard has no setting balanced"),
        ({"device": "tpu"}, "device 'tpu' is not usable here"),
        ({"threads": -1}, "threads is -1"),
    ],
)
def test_a_wrong_argument_is_told_in_one_line(blobs, changes, said):
    with pytest.raises(SettingError, match=said) as caught:
        quick(**changes).fit(*blobs)
    assert "\n" not in str(caught.value)


def test_one_class_is_none(blobs):
    with pytest.raises(ValueError, match="y holds one class, cat: a classifier needs two or more"):
        quick().fit(blobs[0], ["cat"] * 12)


def test_a_training_that_collapses_raises(blobs):
    model = quick(module=lambda shape, classes: nn.Linear(shape[0], classes), lr=1e38, epochs=5)
    with pytest.raises(TrainingError, match="lower the learning rate"):
        model.fit(*blobs)
    assert not hasattr(model, "classes_")


# The rest


def test_held_out_samples_choose_the_epoch(digits, capsys):
    x, _, given = digits
    model = quick(hold_out=0.25, epochs=3, verbose=1).fit(x[:200], given[:200] % 2)
    assert all(len(record.held_out_loss) == 2 for record in model.history_)
    said = capsys.readouterr()
    assert said.out == ""
    first, *epochs = said.err.splitlines()
    assert first == "warm-up 1 of 2: epoch 1 of at most 30"
    assert [line for line in epochs if "of the labels are wrong" in line]
    assert [line for line in epochs if line.startswith("epoch 3 of 3: loss ") and "held-out loss" in line]


def test_patience_ends_a_training_without_a_complaint(digits, recwarn):
    x, _, given = digits
    settings = {"patience": 1, "decay_from": 20}
    model = quick(hold_out=0.25, epochs=20, lr=0.02, settings=settings).fit(x[:200], given[:200] % 2)
    losses = [sum(record.held_out_loss) for record in model.history_]
    assert len(losses) < 20
    assert losses[-1] >= losses[-2] == min(losses)
    assert not [w for w in recwarn if "stopped as asked" in str(w.message)]


def test_the_page_does_what_it_says(capsys):
    """Every Python block of docs/estimator.md, one after another; and it names every parameter and attribute."""
    text, names = PAGE.read_text(), {}
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 4
    for block in blocks:
        exec(block, names)
    assert re.match(r"noise rate 0\.[34]\d, accuracy 0\.9\d\n", capsys.readouterr().out)
    told = re.findall(r"^\| `(\w+)` \| `.*?` \|", text, re.MULTILINE)
    assert sorted(told) == sorted(NoisyLabelClassifier().get_params())
    attributes = {name for name in vars(names["classifier"]) if name.endswith("_")} - {"n_features_in_"}
    assert attributes <= set(re.findall(r"`(\w+_)`", text))


class KeepsWhatItSaw(nn.Module):
    """Has a tensor with a history, which cannot be copied, and refuses float64."""

    def __init__(self, features, classes):
        super().__init__()
        self.layer = nn.Linear(features, classes)

    def forward(self, x):
        assert x.dtype == torch.float32
        self.last = self.layer(x)
        return self.last


def test_a_network_that_cannot_be_copied_loses_no_training(blobs):
    model = quick(module=lambda shape, classes: KeepsWhatItSaw(shape[0], classes), noise_rate=0.1)
    probabilities = model.fit(*blobs).predict_proba(blobs[0])
    assert (probabilities.dtype, probabilities.shape) == (np.float64, (12, 2))


class HasMore(nn.Linear):
    def get_extra_state(self):
        return {"more": 1}

    def set_extra_state(self, state):
        pass


def test_a_network_whose_state_cannot_be_kept_is_refused_before_it_is_trained(blobs):
    with pytest.raises(SettingError, match="keeps more than tensors in its state"):
        quick(module=lambda shape, classes: HasMore(shape[0], classes)).fit(*blobs)


def test_images_that_may_be_misread_are_pointed_out(digits):
    images, y = digits[0][:70].reshape(-1, 8, 8), digits[1][:70]  # too few for a warm-up
    with pytest.warns(UserWarning, match="the brightest pixel is 16 of 255"):
        quick(epochs=1).fit(images.astype(int), y)
    first = np.repeat((images / 16)[:, None], 3, 1)
    with pytest.warns(UserWarning, match=r"if the channels come first, give x.transpose\(0, 2, 3, 1\)"):
        quick(epochs=1).fit(first, y)


@pytest.mark.filterwarnings("ignore:noise_rate 90 % is used")
def test_what_the_guard_finds_is_told(digits):
    with pytest.warns(UserWarning, match="picked none of the samples labelled"):
        quick(noise_rate=0.9, settings={"guard": "warn"}, epochs=6).fit(digits[0][:200], digits[1][:200])
