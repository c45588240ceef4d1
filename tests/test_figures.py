"""Figures of a grid, on runs with numbers chosen by hand (tests/runs)."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from coteach import paper
from coteach.analysis.charts import charts, limits, line
from coteach.analysis.figures import FORMATS, curves, draw, panel, panels, transition_matrices
from coteach.analysis.numbers import label_precision
from coteach.analysis.numbers import test_accuracy as accuracy
from coteach.analysis.style import method_style
from coteach.bench.grid import read_grid
from coteach.results.collection import Collection, read_runs
from coteach.training.loop import EpochRecord

RUNS = Path(__file__).parent / "runs"
SEVEN = paper.tables()["methods"]


@pytest.fixture(scope="module")
def grid():
    return read_grid(str(RUNS / "grid.toml"))


@pytest.fixture(scope="module")
def runs():
    return read_runs(RUNS)


@pytest.fixture(scope="module")
def drawn(grid, runs):
    return {chart.name: chart for chart in charts(grid, runs)}


def grey(colour):
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue


def test_the_seven_can_be_told_apart_without_colours():
    for one, other in itertools.combinations(map(method_style, SEVEN), 2):
        assert one.colour != other.colour
        assert one.dashes != other.dashes or abs(grey(one.colour) - grey(other.colour)) > 0.2


def test_the_colours_are_for_ever():
    colours = ["#8C8C8C", "#E69F00", "#CC79A7", "#56B4E9", "#009E73", "#0072B2", "#D55E00"]
    assert [method_style(method).colour for method in SEVEN] == colours
    assert (method_style("sceptic").colour, method_style("sceptic").dashes) == ("#AA4499", (5.0, 3.5))


def test_a_new_method_moves_no_colour(tmp_path):
    (tmp_path / "another.py").write_text(
        '"""A toy."""\nfrom coteach.methods.standard import Standard\n\n\n'
        'class Another(Standard):\n    """The same again."""\n\n    name = "aaa"\n'
    )
    script = (
        "from coteach.methods import catalogue; from coteach.analysis.style import method_style\n"
        "print(*(f'{name} {method_style(name)}' for name in sorted(catalogue.entries())), sep='\\n')"
    )
    process = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"COTEACH_METHODS": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = process.stdout.splitlines()
    assert lines == [f"{name} {method_style(name)}" for name in sorted([*SEVEN, "aaa"])]
    of_the_seven = {(method_style(name).colour, method_style(name).dashes) for name in SEVEN}
    assert (method_style("aaa").colour, method_style("aaa").dashes) not in of_the_seven


def record(epoch, *values, precision=()):
    return EpochRecord(epoch, values, (), precision, ())


def test_a_line_is_the_mean_over_networks_and_seeds():
    two = [[record(1, 0.2, 0.4), record(2, 0.5, 0.7)], [record(1, 0.5, 0.5), record(2, 0.9, 0.7)]]
    found = line("co-teaching", two, accuracy)
    assert found.mean == pytest.approx([40.0, 70.0])
    assert found.std == pytest.approx([100 * 0.2 / 2**0.5, 100 * 0.2 / 2**0.5])  # of 30, 50 and of 60, 80
    assert found.n == 2


def test_runs_of_different_lengths_and_epochs_without_a_number():
    short = [record(1, 0.2), record(2, 0.4)]
    long = [record(1, 0.4), record(2, 0.6), record(3, 0.8)]
    found = line("standard", [short, long], accuracy)
    assert found.mean == pytest.approx([30, 50, 80])
    assert found.std == pytest.approx([2**0.5 * 10, 2**0.5 * 10, np.nan], nan_ok=True)
    assert line("standard", [short, long], label_precision) is None
    assert line("standard", [], accuracy) is None
    gaps = line("decoupling", [[record(1, 0.5, precision=(0.5,)), record(2, 0.5)], short], label_precision)
    assert gaps.mean == pytest.approx([50, np.nan], nan_ok=True)
    assert gaps.n == 1


def test_the_cropped_axis_shows_where_the_methods_settle():
    values = [0.1, 0.9, 0.7, 0.5, 0.6, 0.6, 0.62, 0.7]
    falling = line("standard", [[record(t, value) for t, value in enumerate(values, 1)]], accuracy)
    low, high = limits([falling], full=False)
    assert 47 < low < 50  # the dip is in, the climb is not
    assert 90 < high < 93  # and so is the peak that was lost
    assert limits([falling], full=True) == (0, 100)
    assert limits([], full=False) == (0, 100)


def test_a_chart_a_dataset_and_measure(drawn):
    assert list(drawn) == [
        "mnist-test-accuracy",
        "mnist-label-precision",
        "digits-test-accuracy",
        "digits-label-precision",
    ]  # the sweep has none
    mnist = drawn["mnist-test-accuracy"]
    assert list(mnist.panels) == ["pair-45", "symmetric-50"]
    standard, co_teaching = mnist.panels["pair-45"]
    assert standard.mean == pytest.approx([31, 71, 61, 51])
    assert standard.std == pytest.approx([2**0.5] * 4)
    assert co_teaching.mean == pytest.approx([43, 83, 93, 95])
    assert co_teaching.std == pytest.approx([2 * 2**0.5] * 4)
    assert [each.method for each in drawn["mnist-label-precision"].panels["pair-45"]] == ["co-teaching"]
    assert drawn["mnist-label-precision"].panels["pair-45"][0].mean == pytest.approx([55, 65, 75, 85])


def test_the_key_says_n(drawn):
    assert drawn["mnist-label-precision"].key() == (
        "mean over n = 2 seeds, shaded by their std",
        {"co-teaching": "co-teaching"},
    )
    assert drawn["mnist-test-accuracy"].key() == (
        "mean over n seeds, shaded by their std",
        {"standard": "standard (n = 1 to 2)", "co-teaching": "co-teaching (n = 2)"},
    )
    assert drawn["digits-test-accuracy"].key() == (
        "n = 1 seed; no runs of standard",
        {"co-teaching": "co-teaching"},
    )


def test_what_is_drawn(drawn):
    for full in (False, True):
        figure = panels(drawn["mnist-test-accuracy"], full=full)
        pair, symmetric = figure.axes
        assert [curve.get_label() for curve in pair.get_lines()] == ["standard", "co-teaching"]
        assert pair.get_lines()[1].get_ydata() == pytest.approx([43, 83, 93, 95])
        assert pair.get_lines()[1].get_color() == "#D55E00"
        assert (pair.get_ylim() == (0, 100)) == full
        assert len(symmetric.get_lines()) == 2
        assert [text.get_text() for text in figure.legends[0].get_texts()] == [
            "standard (n = 1 to 2)",
            "co-teaching (n = 2)",
        ]


def test_a_panel_without_runs_says_so(grid, tmp_path):
    (tmp_path / "runs").mkdir()
    for file in RUNS.glob("mnist-pair-45-*.json"):
        (tmp_path / "runs" / file.name).write_bytes(file.read_bytes())
    some = read_runs(tmp_path / "runs")
    files = draw(grid, some, tmp_path / "figures", ["svg"])
    assert {file.name for file in files} == {
        "fig2-transition-matrices.svg",
        "mnist-test-accuracy.svg",
        "mnist-test-accuracy-full.svg",
        "mnist-label-precision.svg",
        "mnist-label-precision-full.svg",
    }  # nothing is known of the digits
    text = (tmp_path / "figures" / "mnist-test-accuracy.svg").read_text()
    assert text.count(">no runs<") == 1
    assert all(chart.empty for chart in charts(grid, Collection([])))


def test_two_tables_of_one_dataset_have_their_own_files(tmp_path, runs):
    (tmp_path / "grid.toml").write_text(
        'data = "mnist"\nnoises = ["pair-45"]\n[[table]]\ntitle = "One"\n[[table]]\ntitle = "Two"\nseeds = [2]\n'
    )
    names = [chart.name for chart in charts(read_grid(str(tmp_path / "grid.toml")), runs)]
    assert names == [
        "mnist-one-test-accuracy",
        "mnist-one-label-precision",
        "mnist-two-test-accuracy",
        "mnist-two-label-precision",
    ]


def test_figure_2():
    pair, symmetric = transition_matrices().axes
    assert sorted(text.get_text() for text in pair.texts) == ["45 %"] * 5 + ["55 %"] * 5
    assert sorted(text.get_text() for text in symmetric.texts) == ["12.5 %"] * 20 + ["50 %"] * 5


@pytest.mark.slow
def test_the_command_writes_the_same_bytes_in_another_process(process, grid, runs, tmp_path):
    draw(grid.only(["digits"]), runs, tmp_path / "two")
    words = ["--runs", RUNS, "--only", "digits", "--out", "one"]
    first = process("figures", RUNS / "grid.toml", *words, PYTHONHASHSEED="1")
    assert first.returncode == 0, first.stderr
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert sorted(first.stdout.split()) == [f"one/{name}" for name in files]
    assert len(files) == 5 * len(FORMATS)
    begins = {".svg": b"<?xml", ".pdf": b"%PDF", ".png": b"\x89PNG"}
    for name in files:
        content = (tmp_path / "one" / name).read_bytes()
        assert content.startswith(begins[Path(name).suffix])
        assert content == (tmp_path / "two" / name).read_bytes(), name
        for told in (b"CreationDate", b"Producer", b"Software", b"dc:date", b"currentColor"):
            assert told not in content, name


def test_a_part_of_the_grid_in_one_format(cli, tmp_path):
    part = ["--only", "digits", "co-teaching", "--seeds", "1", "--formats", "svg"]
    shown = cli("figures", RUNS / "grid.toml", "--runs", RUNS, *part)
    assert shown.stdout.splitlines()[1:] == [
        f"figures/digits-{name}.svg"
        for name in ("test-accuracy", "test-accuracy-full", "label-precision", "label-precision-full")
    ]
    (tmp_path / "none").mkdir()
    nothing = cli("figures", RUNS / "grid.toml", "--runs", "none", *part)
    assert "no figure of digits, test accuracy: no runs in none" in nothing.stderr
    assert nothing.returncode == 0
    assert "is no folder" in cli("figures", RUNS / "grid.toml", "--runs", "nowhere").stderr


def test_a_figure_for_a_page_takes_its_colour_and_keeps_its_ids(drawn):
    chart = drawn["mnist-test-accuracy"]
    one, other = (panel(chart, name, full=False) for name in chart.panels)
    assert "currentColor" in one
    assert "<style" not in one
    ids = [{part.split('"')[0] for part in text.split(' id="')[1:]} for text in (one, other)]
    assert ids[0]
    assert not ids[0] & ids[1]
    for text, own in zip((one, other), ids, strict=True):
        assert {part.split(")")[0] for part in text.split("url(#")[1:]} <= own
    assert curves({"standard": []}, accuracy, "test accuracy, %").startswith("<svg")
