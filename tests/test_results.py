"""What README.md and results/ show is what the runs in results/ say."""

import re
from pathlib import Path

import pytest

from coteach.results.collection import read_runs
from coteach.results.publish import read_published

HOME = Path(__file__).parents[1]
RESULTS = HOME / "results"
PAPER = sorted((RESULTS / "paper").glob("*.json"))


@pytest.mark.parametrize("grid", ["digits", "paper"])
def test_the_tables_are_those_of_the_runs(cli, grid):
    made = cli("table", grid, "--runs", RESULTS / grid, "--format", "markdown").stdout
    assert (RESULTS / grid / "tables.md").read_text() == made, "run `make tables`"


def test_the_readme_shows_them(cli):
    words = ("--only", "Table 4", "Table 5", "Table 6", "--measure", "accuracy", "--format", "markdown")
    made = cli("table", "paper", "--runs", RESULTS / "paper", *words).stdout
    shown = re.search(r"<!-- paper -->\n(.*)<!-- end of paper -->", (HOME / "README.md").read_text(), re.DOTALL)
    assert shown, "README.md has lost its marks"
    assert shown[1] == made, "run `make tables`"


@pytest.mark.parametrize("path", PAPER, ids=lambda path: path.stem)
def test_a_run_of_the_paper_says_all_that_it_takes_to_make_it_again(path):
    found = read_published(path)
    assert len(found.epochs) == found.config.epochs == 200
    named, now = path.stem.rpartition("-")[0], found.config.name.rpartition("-")[0]
    assert named == now  # the hash after it may be of a version with fewer settings
    assert found.summary["environment"]["device"] == "cuda: NVIDIA H200"
    assert re.fullmatch(r"[0-9a-f]{7,40}", found.summary["environment"]["commit"])
    assert found.summary["seconds"] > 0
    assert read_runs(path.parent).find(found.config).path == path
