"""The classifier as scikit-learn knows one: parameters that are stored untouched, fit, predict, fitted attributes."""

import signal
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from numbers import Integral, Real
from typing import Any, Self
from warnings import warn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from coteach.audit.suspects import Evidence, suspects
from coteach.config import Config
from coteach.data import Dataset
from coteach.errors import DataError, SettingError
from coteach.estimator.exact import exact_probabilities, kept_model
from coteach.estimator.in_memory import InMemory, Trained
from coteach.methods import catalogue
from coteach.methods.base import Method
from coteach.nets import Network
from coteach.noise import symmetric
from coteach.recipes import recipe
from coteach.results.saving import stop_requests
from coteach.training.device import choose_device, threads
from coteach.training.setup import threads_that_pay

# What is for a parameter or for the data to say, and not for `settings`.
_SAID_BY = {
    "method": "method", "network": "module", "tau": "noise_rate", "noise": "noise_rate", "rate": "noise_rate",
    "epochs": "epochs", "batch_size": "batch_size", "lr": "lr", "balanced": "balanced", "hold_out": "hold_out",
    "init_seed": "random_state", "order_seed": "random_state", "seed": "random_state", "noise_seed": "random_state",
    "data": "X", "name": "X", "image_size": "X", "label": "y", "test": "X", "test_share": "hold_out",
}  # fmt: skip


class NoisyLabelClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A neural network that finds out how many labels are wrong, and which, and learns from the others.

    X holds numbers [n, features], or images [n, height, width] or [n, height, width, channels] as bytes or floats.
    Ctrl-C while it trains ends `fit` early with a model that works; a second one does not wait.

    Parameters
    ----------
    method : how to train: a name that `coteach methods` lists, or a class that inherits from `coteach.Method`.
    module : the network: None for one that suits X, a name ("mlp", "small-cnn", "paper-cnn"), or a function or class
        that is called with (shape of a sample, number of classes) and returns a new torch.nn.Module.
    noise_rate : the share of wrong labels in [0, 1), or "auto" to estimate it.
    epochs : epochs after the warm-up; None for 20. In the second half of them the learning rate falls to zero.
    batch_size : samples in a step; None for 128, or for a quarter of fewer than 512 samples.
    lr : learning rate of Adam.
    balanced : keep a share of each class instead of the whole batch, for data with rare classes.
    hold_out : share of the data to hold out; the epoch with the lowest loss on it, by its labels as given, is kept.
    settings : further settings of the run or the method, such as {"dropout": 0.25}: see `coteach train --help`.
    device : "auto" takes a GPU when there is one, else the CPU.
    threads : CPU threads; 0 for one a core, None for one with a small network, else as torch is set.
    random_state : seed of the weights and of the order of samples; with an int, each fit gives the same.
    verbose : 1 to tell of each epoch on standard error.

    Attributes
    ----------
    classes_ : the labels that there are, in the order of the columns of predict_proba.
    noise_rate_ : the share of wrong labels: what was given, or else the estimate.
    transition_matrix_ : [true class, label]: how each class is labelled, by the estimate.
    label_issues_ : a record array with a row a training sample: is_label_issue, score (the probability that the label
        is wrong), given_label, suggested_label, and p_given and p_suggested, what the networks give these two.
    estimate_ : the estimate with its interval and all its parts; None if there was none.
    history_ : what each finished epoch measured.
    n_iter_ : how many epochs were finished.
    model_ : the networks as a `coteach.Model`, which can be saved, exported and used by `coteach predict`.
    """

    def __init__(
        self,
        method: str | type[Method] = "co-teaching",
        module: str | Network | None = None,
        noise_rate: float | str = "auto",
        *,
        epochs: int | None = None,
        batch_size: int | None = None,
        lr: float = 0.001,
        balanced: bool = False,
        hold_out: float = 0.0,
        settings: Mapping[str, Any] | None = None,
        device: str = "auto",
        threads: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.method = method
        self.module = module
        self.noise_rate = noise_rate
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.balanced = balanced
        self.hold_out = hold_out
        self.settings = settings
        self.device = device
        self.threads = threads
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:  # noqa: N803 - scikit-learn's name for it
        """Learn from samples and their labels, some of which may be wrong."""
        x, labels = validate_data(self, X, y, allow_nd=True, ensure_min_samples=2)
        check_classification_targets(labels)
        classes, codes = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise DataError(f"y holds one class, {classes[0]}: a classifier needs two or more")
        dataset = Dataset.checked("the data", x, codes, class_names=list(map(str, classes.tolist())))
        rate, network, device = _known_rate(self.noise_rate), _own_network(self.module), choose_device(self.device)
        work = InMemory(dataset, self._config(dataset), device, rate, network, loud=bool(self.verbose))
        # Only Ctrl-C: whoever sends a polite kill wants the program to end, and not just this call.
        self._small = threads_that_pay(work.config, dataset, network) == 1
        for note in dataset.notes:  # before the training, which may take long
            warn(note, stacklevel=2)
        with _threads(self.threads, self._small), stop_requests(signal.SIGINT) as stop:
            done = work.train(stop)
            model = kept_model(done.networks, done.config, dataset, network)
            probabilities = exact_probabilities(model, dataset.x_train, device)
            found = done.prepared.estimate if done.prepared else None
            self.classes_ = classes
            self.noise_rate_ = rate if rate is not None else found.rate if found else 0.0
            self.transition_matrix_ = found.matrix if found else symmetric(len(classes), self.noise_rate_)
            self.label_issues_ = _label_issues(dataset, classes, done, probabilities, self.noise_rate_)
        self.estimate_ = found
        self.history_ = done.history
        self.n_iter_ = len(done.history)
        self.model_ = model
        for line in done.warnings:
            warn(line, stacklevel=2)
        return self

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:  # noqa: N803
        """The probability of each class, [n, classes]: the mean over the networks."""
        check_is_fitted(self)
        x = validate_data(self, X, reset=False, allow_nd=True)
        with _threads(self.threads, getattr(self, "_small", False)):  # not in one that an older version pickled
            return exact_probabilities(self.model_, x, choose_device(self.device))

    def predict(self, X: ArrayLike) -> NDArray[Any]:  # noqa: N803
        """The most probable class of each sample."""
        best = self.predict_proba(X).argmax(1)
        named: NDArray[Any] = self.classes_[best]
        return named

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags

    def _config(self, dataset: Dataset) -> Config:
        """What the parameters ask for."""
        more = {} if self.settings is None else self.settings
        if not isinstance(more, Mapping):
            raise SettingError(f"settings is {more!r}: give a dict, such as {{'dropout': 0.25}}")
        for name in more:
            if name in _SAID_BY:
                raise SettingError(f"settings holds {name!r}: {_SAID_BY[name]} says that, leave it out here")
        method = catalogue.name_of(self.method if isinstance(self.method, type) else str(self.method))
        changes: dict[str, Any] = {"lr": self.lr, "hold_out": self.hold_out}
        if self.balanced:
            changes["balanced"] = self.balanced
        if isinstance(self.module, str):
            changes["network"] = self.module
        if self.batch_size is not None:
            changes["batch_size"] = self.batch_size
        if self.epochs is not None:
            changes["epochs"] = self.epochs
        if isinstance(self.epochs, Integral):
            changes["decay_from"] = int(self.epochs) // 2
            if "t_k" in catalogue.settings_of(method):
                changes["t_k"] = min(5, max(1, int(self.epochs) // 4))
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        return recipe(dataset, method=method, seed=seed, **changes | dict(more))


def _threads(number: int | None, small: bool) -> AbstractContextManager[None]:
    """As many as asked for; else one for a small network, for which more only wait, and PyTorch's for others."""
    return threads(number) if number is not None else threads(1) if small else nullcontext()


def _known_rate(asked: Any) -> float | None:
    """The noise rate as a number; None for auto."""
    if isinstance(asked, str) and asked == "auto":
        return None
    if isinstance(asked, bool) or not isinstance(asked, Real) or not 0 <= float(asked) < 1:
        raise SettingError(f"noise_rate is {asked!r}: give 'auto', or a number from 0 to below 1")
    return float(asked)


def _own_network(module: Any) -> Network | None:
    """The user's function that makes networks; None for a network of coteach's."""
    if module is None or isinstance(module, str):
        return None
    if isinstance(module, nn.Module) or not callable(module):
        given = "a network" if isinstance(module, nn.Module) else repr(module)
        raise SettingError(
            f"module is {given}: give a function of (shape, classes) that makes a new network, or a name"
        )
    return module  # type: ignore[no-any-return]


def _label_issues(
    dataset: Dataset, classes: NDArray[Any], done: Trained, probabilities: NDArray[np.float64], rate: float
) -> np.recarray[Any, Any]:
    """What is to be said of each label, as a record array.

    Without a warm-up, no network has judged a sample before it learned from its label. What is left is what the
    networks would not learn; and where all labels are believed, that is no reason to call one wrong.
    """
    given = dataset.y_train
    rows = np.arange(len(given))
    if done.prepared is None:
        suggested, score = probabilities.argmax(1), 1 - probabilities[rows, given]
        wrong = (suggested != given) & (rate > 0)
    else:
        issues = suspects(dataset, given, Evidence(done.prepared.estimate.member, probabilities, done.ledger))
        suggested, score, wrong = issues.suggested, issues.score, issues.is_issue & (not done.prepared.estimate.blind)
    columns: dict[str, NDArray[Any]] = {
        "is_label_issue": wrong,
        "score": score,
        "given_label": classes[given],
        "suggested_label": classes[suggested],
        "p_given": probabilities[rows, given],
        "p_suggested": probabilities[rows, suggested],
    }
    table = np.empty(len(given), [(name, column.dtype) for name, column in columns.items()])
    for name, column in columns.items():
        table[name] = column
    return table.view(np.recarray)
