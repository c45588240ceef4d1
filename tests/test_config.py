import json

import numpy as np
import pytest

from coteach.config import Config, config_fields
from coteach.data import Dataset
from coteach.errors import SettingError
from coteach.recipes import recipe


def test_json_and_back():
    config = recipe("mnist", noise="pair", rate=0.45)
    assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_every_value_changes_the_hash():
    config = recipe("mnist", noise="pair", rate=0.45)
    assert recipe("mnist", noise="pair", rate=0.45).digest == config.digest
    other = {"epochs": 10, "lr": 0.01, "init_seed": 2, "noise_seed": 1, "tau": 0.3, "dropout": 0.0, "drop_last": False}
    digests = {recipe("mnist", noise="pair", rate=0.45, **{key: value}).digest for key, value in other.items()}
    assert len(digests | {config.digest}) == len(other) + 1


def test_the_hash_is_stable():
    # A new field or default makes every run folder a new one: that must be meant.
    assert recipe("mnist", noise="pair", rate=0.45).name == "mnist-pair-45-co-teaching-s1-4df865c3"


def test_numbers_of_numpy_are_numbers():
    assert recipe("mnist", noise="pair", rate=np.float64(0.45), seed=np.int64(1)) == recipe(
        "mnist", noise="pair", rate=0.45
    )


def test_where_own_data_lies_is_not_in_the_hash(tmp_path, monkeypatch):
    x, y = np.zeros((8, 3), np.float32), np.arange(8) % 2
    np.savez(tmp_path / "mine.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    monkeypatch.chdir(tmp_path)
    there, here = recipe(str(tmp_path / "mine.npz")), recipe("mine.npz")
    assert there.digest == here.digest
    np.savez(tmp_path / "mine.npz", x_train=x, y_train=y, x_test=x, y_test=y, class_names=["a", "b", "c"])
    assert recipe("mine.npz").digest != here.digest


def test_every_field_explains_itself():
    assert [name for name, field in config_fields().items() if not field.doc] == []


def test_whole_numbers_pass_for_floats():
    assert recipe("mnist", lr=1).digest == recipe("mnist", lr=1.0).digest


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"rate": 1.5}, "rate is 1.5: it must be at least 0 and less than 1"),
        ({"rate": -0.1}, "rate is -0.1"),
        ({"epochs": 0}, "epochs is 0: it must be at least 1"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"lr": 0.0}, "lr is 0"),
        ({"lr": float("nan")}, "lr is nan: give a finite number"),
        ({"c": float("nan")}, "c is nan: give a finite number"),
        ({"seed": -1}, "seed is -1: it must be 0 or more"),
        ({"epochs": 10**400}, "it must be at most 1000000"),
        ({"batch_size": 1}, "batch_size is 1: it must be at least 2"),
        ({"epochs": "ten"}, "give int"),
        ({"epochz": 10}, "unknown setting 'epochz': did you mean 'epochs'"),
        ({"taus": 0.1}, "did you mean 'tau'"),
        ({"method": "coteaching"}, "did you mean 'co-teaching'"),
        ({"name": "papr"}, "unknown recipe 'papr': did you mean 'paper'"),
        ({"noise": "pairs"}, "unknown noise 'pairs': did you mean 'pair'"),
        ({"schedule": "none"}, "one of 'text', 'authors'"),
        ({"idle_epochs": 200}, "leaves none"),
        ({"dropout": 1.0}, "dropout is 1"),
        ({"noise": "none", "rate": 0.4}, "leave one out"),
        ({"rate": None}, "needs a rate"),
    ],
)
def test_nonsense_is_refused_in_one_line(changes, cause):
    with pytest.raises(SettingError) as caught:
        recipe("mnist", **{"noise": "pair", "rate": 0.45, **changes})
    assert cause in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_papers_recipe():
    config = recipe("cifar10", noise="symmetric", rate=0.5)
    assert (config.epochs, config.batch_size, config.lr, config.dropout) == (200, 128, 0.001, 0.25)
    assert (config.decay_from, config.beta1, config.late_beta1, config.noise_seed) == (80, 0.9, 0.1, 0)
    assert recipe("cifar100").decay_from == 100
    assert config.settings == {
        "tau": 0.5, "t_k": 10, "c": 1.0, "schedule": "text", "rounding": "up", "divide_again": False,
        "balanced": False,
    }  # fmt: skip
    assert config.network == "paper-cnn"


def test_the_authors_recipe():
    config = recipe("mnist", noise="pair", rate=0.45, name="authors")
    assert (config.dropout, config.idle_epochs, config.max_steps, config.full_test) == (0.0, 1, 401, False)
    assert (config.settings["schedule"], config.settings["rounding"]) == ("authors", "down")
    assert config.settings["divide_again"] is True
    assert (config.norm_init, recipe("mnist", noise="pair", rate=0.45).norm_init) == ("uniform", "ones")
    assert recipe("cifar10", name="authors").max_steps == 0
    standard = recipe("mnist", noise="pair", rate=0.45, name="authors", method="standard")
    assert (standard.settings, standard.dropout) == ({}, 0.0)


def test_a_rate_that_is_no_number_is_called_a_rate():
    for rate in (float("nan"), float("inf")):
        with pytest.raises(SettingError, match=f"rate is {rate}: give a share"):
            recipe("digits", noise="pair", rate=rate)


@pytest.mark.parametrize("noise", [{}, {"noise": "pair", "rate": 0.2}])
def test_small_data_of_ones_own_get_batches_that_fit(noise):
    few = Dataset.checked("few", np.zeros((100, 2), np.float32), np.arange(100) % 4)
    assert recipe(few, **noise).batch_size == 25
    assert recipe(few, **noise, batch_size=10).batch_size == 10
