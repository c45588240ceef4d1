"""What README.md, docs/ and results/ show is what the runs in results/ say."""

import importlib.util
import re
from pathlib import Path

import pytest

from coteach.results.collection import read_runs
from coteach.results.publish import read_published

HOME = Path(__file__).parents[1]
PAPER = sorted((HOME / "results" / "paper").glob("*.json"))


@pytest.fixture(scope="module")
def show():
    spec = importlib.util.spec_from_file_location("show", HOME / "results" / "show.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
