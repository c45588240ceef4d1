"""Grids and their tables, on runs small enough to make here and on numbers known beforehand."""

import json
import re

import numpy as np
import pytest

from coteach.analysis import numbers
from coteach.analysis.numbers import LAST_TEN
from coteach.analysis.tables import table
from coteach.bench.grid import parse_noise, read_grid
from coteach.data import load
from coteach.errors import SettingError
from coteach.noise import corrupt, pair, save_draw, symmetric
from coteach.recipes import recipe
from coteach.results.run import Result
from coteach.training.loop import EpochRecord

GRID = """
title = "Small"
data = "digits"
noises = ["pair-45", "symmetric-20"]
methods = ["co-teaching", "standard"]
seeds = [1, 2]
[settings]
epochs = 2
max_steps = 2
t_k = 5
"""


def made_up(noise, method, seed, *accuracies):
    kind, rate = parse_noise(noise)
    config = recipe("digits", noise=kind, rate=rate, method=method, seed=seed)
    return Result(config, None, [EpochRecord(i, (a,), (), (), ()) for i, a in enumerate(accuracies, 1)], {})


def test_a_table_with_known_answers():
    results = [
        made_up("pair-45", "co-teaching", 1, 0.0, *[0.8] * 10),
        made_up("pair-45", "co-teaching", 2, 0.0, *[0.9] * 10),
        made_up("pair-45", "standard", 1, 0.9, *[0.5] * 10),
        made_up("symmetric-20", "standard", 1, *[0.7] * 10),
    ]
    found = table("Made up", results, numbers.test_accuracy, LAST_TEN)
    assert found.columns == ("standard", "co-teaching")  # the paper's order
    assert found.markdown() == (
        "| noise | standard | co-teaching |\n"
        "|---|---:|---:|\n"
        "| pair-45 | 50.00 (n = 1) | **85.00 ± 7.07** |\n"
        "| symmetric-20 | **70.00 (n = 1)** | - |\n"
        "\n"
        "Made up, %: mean over the last ten epochs and over a method's networks; ± std over n = 2 seeds.\n"
    )


def test_a_grid_in_a_few_lines(tmp_path):
    (tmp_path / "grid.toml").write_text(GRID)
    configs = [config for config, _ in read_grid(str(tmp_path / "grid.toml")).runs()]
    assert len(configs) == len({config.digest for config in configs}) == 8
    assert {config.noise_name for config in configs} == {"pair-45", "symmetric-20"}
    assert [c.settings.get("t_k") for c in configs[:3]] == [5, 5, None]  # a setting passes by a method without it


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ('noises = ["pair-45"]', "has no data"),
        ('data = "digits"', "has no noises"),
        ('data = "digits"\nnoises = ["pair-45"]\nmethod = ["standard"]', "did you mean 'methods'"),
        ('data = "digits"\nnoises = ["pair-45"]\nmethods = ["standrd"]', "did you mean 'standard'"),
        ('data = "digits"\nnoises = ["pair-145"]\n', "rate is 1.45"),
        ('data = "digits"\nnoises = ["pair-45"]\n[settings]\nepoch = 1', "did you mean 'epochs'"),
        ('data = "digits"\nnoises = ["pair-45"]\nmethods = ["standard"]\n[settings]\nt_k = 9', "unknown setting 't_k'"),
        ('data = "digits"\nnoises = ["pair-45"]\n[settings]\nseed = 9', "a line of its own"),
        ('data = "digits"\nnoises = "pair-45"', "write it like noises = "),
        ('data = "digits"\nnoises = []', "write it like noises = "),
        ('data = "digits"\nnoises = ["pair-45"]\nseeds = 3', "write it like seeds = "),
        ('data = "digits"\nnoises = ["pair-45"]\nseeds = [1, 1]', "an entry twice"),
        ('data = 3\nnoises = ["pair-45"]', "write it like data = "),
    ],
)
def test_a_wrong_grid_says_what_is_wrong(tmp_path, text, cause):
    (tmp_path / "grid.toml").write_text(text)
    with pytest.raises(SettingError, match=cause):
        list(read_grid(str(tmp_path / "grid.toml")).runs())


def test_every_grid_that_comes_with_it_is_sound():
    for name, seeds in (("digits", 3), ("mnist", 5), ("cifar10", 5), ("cifar100", 5)):
        assert len(list(read_grid(name).runs())) == 7 * 3 * seeds
    with pytest.raises(SettingError, match="did you mean 'digits'"):
        read_grid("digit")


def test_bench_runs_what_is_missing_and_publishes(cli, tmp_path):
    (tmp_path / "grid.toml").write_text(GRID)
    first = cli("bench", "grid.toml", "--publish", "small")
    assert first.returncode == 0, first.stderr
    assert "8 of 8 done" in first.stderr
    assert re.search(r"pair-45 +│ +\d+\.\d\d ± \d+\.\d\d +│", first.stdout)
    published = sorted((tmp_path / "small").glob("*.json"))
    assert len(published) == 8
    content = json.loads(published[0].read_text())
    assert set(content) == {"config", "summary", "epochs"}
    assert len(content["epochs"]["test_accuracy"]) == 2
    assert "| pair-45 |" in (tmp_path / "small" / "tables.md").read_text()
    again = cli("bench", "grid.toml")
    assert again.stdout == first.stdout
    assert again.stderr == ""


def test_a_run_that_fails_does_not_stop_the_others(cli, tmp_path):
    (tmp_path / "grid.toml").write_text(
        'data = "digits"\nnoises = ["pair-45"]\nmethods = ["standard", "bootstrap"]\n[settings]\nepochs = 1\n'
    )
    (tmp_path / "runs").mkdir()
    done = cli("bench", "grid.toml")
    assert done.returncode == 0, done.stderr
    (next((tmp_path / "runs").glob("*-bootstrap-*")) / "weights.safetensors").unlink()
    process = cli("bench", "grid.toml")
    assert process.returncode == 1
    assert "coteach: failed: bootstrap on pair-45, seed 1" in process.stderr
    assert "standard" in process.stdout


def test_a_wrong_setting_is_told_before_the_first_run(cli, tmp_path):
    (tmp_path / "grid.toml").write_text(
        'data = "digits"\nnoises = ["pair-45"]\nmethods = ["standard", "bootstrap"]\n[settings]\nbeta = 7.0\n'
    )
    process = cli("bench", "grid.toml")
    assert (process.returncode, process.stdout) == (2, "")
    assert "beta is 7" in process.stderr
    assert not (tmp_path / "runs").exists()


def test_noises_from_files_are_rows_of_their_own(cli, tmp_path):
    for name, matrix in (("a", pair(10, 0.2)), ("b", symmetric(10, 0.2))):
        np.save(tmp_path / f"{name}.npy", matrix)
    save_draw(corrupt(load("digits").y_train, symmetric(10, 0.2), seed=5), tmp_path / "c.npz")
    (tmp_path / "grid.toml").write_text(
        'data = "digits"\nnoises = ["a.npy", "b.npy", "c.npz", "none"]\nmethods = ["standard"]\n'
        "[settings]\nepochs = 1\n"
    )
    process = cli("bench", "grid.toml", "--json")
    assert process.returncode == 0, process.stderr
    cells = json.loads(process.stdout)
    accuracy = [cell for cell in cells if "accuracy" in cell["table"]]
    assert len({cell["noise"] for cell in accuracy}) == 4
    assert {cell["n"] for cell in accuracy} == {1}
    assert len(cells) == 4 + 3  # nobody knows the precision of labels as given
