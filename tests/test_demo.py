"""The demo, in small: what it prints, what it writes, and that a second one trains nothing."""

import json
import re
import shutil

import pytest

from coteach.analysis import numbers
from coteach.analysis.numbers import BEST, FINAL, LAST_TEN, cell, label_precision
from coteach.demo import demo
from coteach.training.loop import EpochRecord

accuracy = numbers.test_accuracy  # under its own name pytest would take it for a test


def record(epoch, *values):
    return EpochRecord(epoch, values, (), (), ())


def test_how_a_run_becomes_a_number():
    epochs = [record(t, t / 100, t / 100 + 0.02) for t in range(1, 31)]
    assert LAST_TEN(epochs, accuracy) == pytest.approx(0.255 + 0.01)
    assert FINAL(epochs, accuracy) == pytest.approx(0.31)
    assert BEST([*epochs, record(31, 0.1, 0.1)], accuracy) == pytest.approx(0.31)
    assert LAST_TEN(epochs, label_precision) is None


def test_a_cell_of_a_table():
    three = cell([0.8, 0.9, 1.0])
    assert (three.mean, three.std, three.n) == (pytest.approx(0.9), pytest.approx(0.1), 3)
    assert three.percent() == "90.00 ± 10.00"
    assert cell([0.5]).percent() == "50.00"
    assert cell([0.5, None]).n == 1
    assert cell([None]) is None


def test_the_demo_in_small(cli, tmp_path):
    words = ["demo", "--epochs", "3", "--seeds", "2", "--workers"]
    first = cli(*words, "1")
    assert first.returncode == 0, first.stderr
    assert re.search(r"co-teaching +│ +\d+\.\d\d ± \d+\.\d\d", first.stdout)
    results = json.loads((tmp_path / "demo" / "results.json").read_text())
    assert set(results["methods"]) == {"standard", "co-teaching"}
    number = results["methods"]["co-teaching"]["test_accuracy"]
    runs = results["methods"]["co-teaching"]["runs"]
    assert number["mean"] == pytest.approx(sum(run["test_accuracy"] for run in runs) / 2)
    assert number["n"] == 2

    page = (tmp_path / "demo" / "report.html").read_text()
    assert f"{100 * number['mean']:.2f}" in page
    assert page.count("<svg") == 3
    for outside in ("http:", "https:", "src=", "@import", "url("):
        for place in re.finditer(re.escape(outside), page):
            around = page[place.start() : place.start() + 60]
            assert around.startswith(("http://www.w3.org", "url(#")), around  # names and parts of the page itself

    folders = {path: path.stat().st_mtime_ns for path in (tmp_path / "demo" / "runs").glob("*/summary.json")}
    assert cli(*words, "1").stdout == first.stdout
    assert {path: path.stat().st_mtime_ns for path in folders} == folders
    assert (tmp_path / "demo" / "report.html").read_text() == page  # figures come out byte for byte the same
    assert json.loads(cli(*words, "1", "--json").stdout) == results

    for lost in (tmp_path / "demo" / "runs").glob("*-co-teaching-*"):
        shutil.rmtree(lost)
        lost.write_text("in the way")
    failed = cli(*words, "2")
    assert failed.returncode == 1
    assert re.match(r"coteach: \S+-co-teaching-\S+ failed: .*a folder is needed", failed.stderr.splitlines()[-1])


@pytest.mark.slow
def test_the_promise_of_the_readme(tmp_path):
    """One repetition of the demo, at half its length: co-teaching is at least 15 points ahead."""
    finished = demo(tmp_path, seeds=1, epochs=50, workers=2)
    assert finished.accuracy("co-teaching") - finished.accuracy("standard") > 0.15
