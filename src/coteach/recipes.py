"""Named sets of settings. A recipe with the data, the noise and the method gives a whole config."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from coteach.config import Config, Inputs, Source, config_fields
from coteach.data import CATALOGUE, Dataset, load_source, version_of
from coteach.errors import SettingError, unknown
from coteach.fields import Field, checked
from coteach.methods import catalogue
from coteach.noise import KINDS, Draw, Matrix, check_matrix, load_draw, read_matrix

if TYPE_CHECKING:
    from coteach.methods.base import Method

RECIPES: dict[str, dict[str, Any]] = {
    # The paper's text, and the optimiser plan behind its printed numbers.
    "paper": {},
    # Every departure of the authors' program from the text.
    "authors": {
        "dropout": 0.0,
        "norm_init": "uniform",
        "idle_epochs": 1,
        "full_test": False,
        "schedule": "authors",
        "rounding": "down",
        "divide_again": True,
    },
    # Half the epochs and no dropout, for small data and small networks.
    "small": {"dropout": 0.0, "epochs": 100, "decay_from": 40},
    # Labels of unknown quality: the networks come out of a warm-up, so few epochs do, and R(T) falls sooner; at once
    # if they have learned from the suggested labels, too.
    "own": {"dropout": 0.0, "epochs": 20, "decay_from": 10, "t_k": 5, "guard": "stop", "correction_epochs": 2},
    # To find wrong labels takes fewer epochs than to train the best model, and a collapse of the picks is no reason to
    # stop: the warm-up's networks have not seen them.
    "audit": {"dropout": 0.0, "epochs": 4, "decay_from": 2, "t_k": 2, "guard": "warn"},
}
_PATIENCE = 20
"""Epochs after which an early stage one no longer waits for a better one: it has come to learn labels by heart."""
Sizes = tuple[int, ...]
"""How many samples there are of each class."""
_AFTER_WARM_UP = ("own", "audit")
_PAPER_DATA = ("mnist", "fashion-mnist", "cifar10", "cifar100")


def recipe(
    data: str | Path | Dataset,
    *,
    noise: str | Path | ArrayLike | Draw = "none",
    rate: float | None = None,
    method: "str | type[Method]" = "co-teaching",
    name: str | None = None,
    seed: int = 1,
    **changes: Any,
) -> Config:
    """The config of a run: a named recipe (by default the one that suits the data) with your changes.

    `noise` is a name, a file of a matrix or of labels, a matrix, or a draw, which `run` then needs as `labels`.
    `method` is a name, or a class of your own that inherits from `Method`. `seed` sets the seeds of initialisation and
    order; the noise keeps its own, `noise_seed`. `changes` may be any field of `Config` or setting of the method.
    """
    method = catalogue.name_of(method)
    if seed < 0:
        raise SettingError(f"seed is {seed}: it must be 0 or more")
    data = str(data) if isinstance(data, Path) else data
    label = data if isinstance(data, str) else data.name
    own_labels = isinstance(noise, str) and noise == "none" and label not in CATALOGUE
    name = name or ("paper" if label in _PAPER_DATA else "own" if own_labels else "small")
    if name not in RECIPES:
        raise unknown("recipe", name, RECIPES)
    about = _described(data, changes)
    samples = None if about.sizes is None else sum(about.sizes)
    kind, rate, inputs = _noise(noise, rate, about.sizes)
    settings = catalogue.settings_of(method)
    values: dict[str, Any] = {"network": default_network(about.shape, about.kind)} | RECIPES[name]
    if name in _AFTER_WARM_UP and values["network"] == "paper-cnn" and not _gpu():
        values["network"] = "small-cnn"
    if name in ("small", *_AFTER_WARM_UP) and samples is not None and samples < 4 * 128:
        values["batch_size"] = max(2, samples // 4)
    if label == "cifar100" and name in ("paper", "authors"):
        values["decay_from"] = 100
    if label == "mnist" and name == "authors":
        values["max_steps"] = 401
    if "tau" in settings:
        values["tau"] = rate
    if label == "cifar100":
        values["filter_outliers"] = False
    values = {key: value for key, value in values.items() if key in config_fields() or key in settings} | changes
    if values.get("correction_epochs") and ("tau" in changes or not _selects_by_loss(settings)):
        if "correction_epochs" in changes:
            why = "the noise rate is given" if "tau" in changes else f"{method} does not select by loss"
            raise SettingError(f"correction_epochs cannot do anything, for {why}: leave it out")
        values["correction_epochs"] = 0
    _check_names(changes, method, str(values["network"]))
    own = {key: field.default for key, field in settings.items()}
    own |= checked({key: value for key, value in values.items() if key in settings}, settings, method)
    if kind == "none" and own.get("stage_one") == "none":
        raise SettingError(
            "stage_one none takes the matrix of the noise, and no noise is put on these labels: give full or early"
        )
    return Config(
        **{
            "data": label,
            "noise": kind,
            "rate": rate,
            "method": method,
            "init_seed": seed,
            "order_seed": seed,
            **{key: value for key, value in values.items() if key not in settings},
            "settings": own,
            "inputs": Inputs(data_sha256=about.sha256, **inputs),
        }
    )


def _check_names(changes: Mapping[str, Any], method: str, network: str) -> None:
    """Refuse changes that nothing would heed."""
    settings = catalogue.settings_of(method)
    for key in changes:
        if key not in config_fields() and key not in settings:
            catalogue.check_setting(method, key)
            raise unknown("setting", key, [*config_fields(), *settings], f"the method is {method}")
        if key in ("dropout", "norm_init") and ":" in network:
            raise SettingError(f"{key} is of the built-in networks, and {network} is your own: leave it out")


def stage_one_of(config: Config) -> Config | None:
    """The Standard run that a two-stage method starts with; None for the other methods."""
    kind = config.settings.get("stage_one")
    if kind in (None, "none"):
        return None
    standard = replace(config, method="standard", settings={})
    return replace(standard, hold_out=0.1, patience=_PATIENCE) if kind == "early" else standard


def _selects_by_loss(settings: Mapping[str, Field]) -> bool:
    """Whether these are the settings of a method that leaves out the samples of large loss, from the start if asked."""
    return "tau" in settings and "schedule" in settings and "constant" in get_args(settings["schedule"].type)


def default_network(shape: tuple[int, ...], kind: str = "") -> str:
    """The network that suits samples of a shape, from data of a kind."""
    if len(shape) == 1:
        return "table-mlp" if kind == "table" else "mlp"
    return "paper-cnn" if min(shape[:2]) >= 28 else "small-cnn" if min(shape[:2]) >= 4 else "mlp"


def _gpu() -> bool:
    """Whether there is a GPU: without one the paper's network takes minutes for an epoch of ten thousand images."""
    import torch

    return torch.cuda.is_available()


def saved_labels(noise: str) -> Draw | None:
    """The labels in a file that `noise` names, if it names one."""
    return load_draw(Path(noise)) if noise.endswith(".npz") else None


class _About(NamedTuple):
    """What a config depends on of its data."""

    shape: tuple[int, ...]
    """Of one sample."""
    sizes: Sizes | None = None
    """Only of the user's own data, and so are the others."""
    sha256: str | None = None
    kind: str = ""


def _described(data: str | Dataset, changes: Mapping[str, Any]) -> _About:
    if isinstance(data, Dataset):
        sizes = tuple(np.bincount(data.y_train, minlength=data.classes).tolist())
        return _About(data.shape, sizes, data.fingerprint, str(data.preprocessing.get("kind", "")))
    where = {key: value for key, value in changes.items() if key in Source._fields}
    source = Source(data, **checked(where, config_fields(), "a run"))
    if data in CATALOGUE:
        return _About(CATALOGUE[data].shape)
    return _described_by_files(source, version_of(source))


@cache
def _described_by_files(source: Source, version: str | None) -> _About:
    """Reading and hashing large files takes seconds, and a grid asks for it once a run."""
    return _described(load_source(source), {})


def _noise(
    given: str | Path | ArrayLike | Draw, rate: float | None, sizes: Sizes | None
) -> tuple[str, float, dict[str, Any]]:
    """The kind of noise, its rate, and what of it came from a file or an array."""
    if given is None or (np.isscalar(given) and not isinstance(given, str)):
        raise SettingError(f"noise is {given!r}: give a name such as 'pair', a file, a matrix, or a draw of labels")
    if not isinstance(given, str | Path):
        if rate is not None:
            raise SettingError(f"rate {rate:g} goes with pair or symmetric noise: leave it out")
        return _of_labels(given) if isinstance(given, Draw) else _of_matrix(check_matrix(given), sizes)
    noise = str(given)
    if rate is not None and not math.isfinite(rate):
        raise SettingError(f"rate is {rate}: give a share from 0 to below 1, such as 0.45")
    if noise in KINDS:
        if rate is None:
            raise SettingError(f"{noise} noise needs a rate: give --rate, such as --rate 0.45")
        return noise, rate, {}
    if noise == "none" and not rate:
        return noise, 0.0, {}
    if noise != "none" and not noise.endswith((".npz", ".csv", ".npy")):
        hint = "or the path of a matrix (.csv, .npy) or of saved labels (.npz)"
        raise unknown("noise", noise, ["none", *KINDS], hint)
    if rate is not None:
        cause = "no noise" if noise == "none" else f"noise from {noise}"
        raise SettingError(f"rate {rate:g} goes with pair or symmetric noise, not with {cause}: leave one out")
    if noise.endswith(".npz"):
        return _of_labels(load_draw(Path(noise)))
    return _of_matrix(read_matrix(Path(noise)), sizes)


def _of_labels(draw: Draw) -> tuple[str, float, dict[str, Any]]:
    return "labels", draw.rate, {"labels_sha256": draw.sha256}


def _of_matrix(q: Matrix, sizes: Sizes | None) -> tuple[str, float, dict[str, Any]]:
    """A class counts by its size; those of known data are about equal."""
    weights = sizes if sizes and len(sizes) == len(q) else None  # a matrix of other classes is refused later
    return "matrix", float(1 - np.average(np.diag(q), weights=weights)), {"matrix": tuple(map(tuple, q.tolist()))}
