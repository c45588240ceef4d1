"""How runs become numbers and tables, on the small committed runs of tests/runs, whose answers are known."""

import csv
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from coteach.analysis import tables
from coteach.analysis.numbers import BEST, CHOICES, FINAL, LAST_TEN, label_precision
from coteach.bench.grid import read_grid
from coteach.errors import DataError
from coteach.results.collection import Collection, read_runs
from coteach.results.publish import compact, publish, read_published
from coteach.results.run import run
from coteach.training.loop import EpochRecord

RUNS = Path(__file__).parent / "runs"
GRID = str(RUNS / "grid.toml")


@pytest.fixture(scope="module")
def runs():
    return read_runs(RUNS)


@pytest.fixture(scope="module")
def mnist():
    return read_grid(GRID).tables[0]


def test_every_choice_of_a_number(runs, mnist):
    """Standard on pair-45 has 30, 70, 60, 50 % with seed 1 and 2 points more with seed 2."""
    for choice, mean in ((LAST_TEN, 0.535), (FINAL, 0.51), (BEST, 0.71)):
        table = tables.tabulate(mnist, runs, "accuracy", choice)
        found = table.cells["pair-45", "standard"]
        assert found.mean == pytest.approx(mean)
        assert found.std == pytest.approx(0.02 / 2**0.5)
        assert found.n == 2
        assert choice.said_of([4]) in table.caption
    assert set(CHOICES) == {"last-ten", "final", "best"}
    assert [LAST_TEN.said_of(lengths).split(" and ")[0] for lengths in ([1], [9, 9], [10], [9, 10], [2, 3])] == [
        "mean over the only epoch",
        "mean over all 9 epochs",
        "mean over the last ten epochs",
        "mean over the last ten epochs, or all of a shorter run,",
        "mean over the last ten epochs, or all of a shorter run,",
    ]
    assert BEST.said_of([1]) == BEST.caption
    assert BEST([EpochRecord(1, (), (), (0.5,), ())], label_precision) is None  # there was no test set
    # of the epoch with the best test accuracy, not the best there is
    best = tables.tabulate(mnist, runs, "precision", BEST)
    assert best.cells["symmetric-50", "co-teaching"].mean == pytest.approx(0.75)


def test_a_run_that_shared_its_device_counts_for_its_share(runs, mnist):
    found = [runs.find(planned.config) for planned in mnist.planned]
    share = [each.summary["seconds"] / 3 for each in found if each]
    shared = [
        replace(each, summary=each.summary | {"device_seconds": seconds})
        for each, seconds in zip(filter(None, found), share, strict=True)
    ]
    table = tables.tabulate(mnist, Collection(shared), "accuracy", LAST_TEN)
    alone = tables.tabulate(mnist, runs, "accuracy", LAST_TEN)
    assert sum(table.seconds) == pytest.approx(sum(alone.seconds) / 3)
    assert "7 runs took 39 seconds" in table.full_caption()


def test_only_the_mean_of_the_last_ten_epochs_is_compared_with_print(runs, mnist):
    table = tables.tabulate(mnist, runs, "accuracy", BEST)
    assert "| 71.00 ± 1.41<br>(56.52) |" in tables.markdown(table)
    assert "in brackets the number printed, which is of the last ten epochs; " in table.full_caption()
    assert {cell["difference"] for cell in table.to_list()} == {None}


def test_the_caption_says_what_no_row_does(runs, mnist):
    sweep = read_grid(GRID).tables[2]
    assert tables.tabulate(sweep, runs, "accuracy", LAST_TEN).caption.startswith("Sweep (mnist, co-teaching), ")
    other = replace(mnist, printed="cifar10")
    assert "the number printed for cifar10 and" in tables.tabulate(other, runs, "accuracy", LAST_TEN).full_caption()


def test_one_column_alone_has_no_best(runs, mnist):
    alone = tables.tabulate(replace(mnist, methods=("co-teaching",)), runs, "accuracy", LAST_TEN)
    assert "**" not in tables.markdown(alone)


def test_equal_means_are_both_the_best(runs, mnist):
    table = tables.tabulate(mnist, runs, "accuracy", LAST_TEN)
    table.cells["pair-45", "standard"] = table.cells["pair-45", "co-teaching"]
    assert "| **78.50 ± 2.83**<br>(56.52, +21.98) | **78.50 ± 2.83**<br>(87.63, -9.13) |" in tables.markdown(table)


def test_markdown_with_print_beside_it_and_n_where_seeds_are_missing(runs, mnist):
    assert tables.markdown(tables.tabulate(mnist, runs, "accuracy", LAST_TEN)) == (
        "| | standard | co-teaching |\n"
        "|---|---:|---:|\n"
        "| pair-45 | 53.50 ± 1.41<br>(56.52, -3.02) | **78.50 ± 2.83**<br>(87.63, -9.13) |\n"
        "| symmetric-50 | 61.00 (n = 1)<br>(66.05, -5.05) | **88.50 ± 0.71**<br>(91.32, -2.82) |\n"
        "\n"
        "Small MNIST (mnist), test accuracy, %: mean over all 4 epochs and over a method's networks; "
        "mean ± std over n = 2 seeds, or as many as a cell says; in brackets the number printed and the difference "
        "from it; 7 runs took 2.0 minutes.\n"
    )


def test_a_sweep_and_a_table_without_runs(runs):
    grid = read_grid(GRID)
    digits, sweep = (tables.tabulate(plan, runs, "accuracy", LAST_TEN) for plan in grid.tables[1:])
    assert tables.markdown(digits).splitlines()[2] == "| symmetric-20 | - | 78.75 (n = 1) |"
    assert tables.markdown(sweep).splitlines()[2] == "| pair-45 | - | 78.50 ± 2.83 |"  # the missing one may be better
    assert sweep.columns == ("t_k = 5", "t_k = 10")
    nothing = Collection([])
    assert [table.title for table in tables.tables(grid, nothing, LAST_TEN)] == ["Small MNIST, test accuracy"]
    assert "| -<br>(56.52) |" in tables.markdown(tables.tabulate(grid.tables[0], nothing, "accuracy", LAST_TEN))


def test_latex(runs, mnist):
    text = tables.latex(tables.tabulate(mnist, runs, "accuracy", LAST_TEN))
    assert r"pair-45 & 53.50 $\pm$ 1.41 {\scriptsize (56.52, $-$3.02)} & \textbf{78.50 $\pm$ 2.83}" in text
    assert text.count(r"\\") == 3
    assert text.count("{") == text.count("}")


def test_csv_and_json_have_every_cell_in_full_precision(cli):
    words = ("table", GRID, "--runs", RUNS, "--only", "Small MNIST", "--measure", "accuracy", "--format")
    rows = list(csv.DictReader(io.StringIO(cli(*words, "csv").stdout)))
    cells = json.loads(cli(*words, "json").stdout)
    assert len(rows) == len(cells) == 4
    for row, cell in zip(rows, cells, strict=True):
        assert {key: value or None for key, value in row.items()} == {
            key: None if value is None else str(value) for key, value in cell.items()
        }
    assert cells[2] == {
        "table": "Small MNIST, test accuracy",
        "row": "symmetric-50",
        "column": "standard",
        "measure": "test accuracy",
        "data": "mnist",
        "noise": "symmetric-50",
        "method": "standard",
        "number": "last-ten",
        "mean": pytest.approx(0.61),
        "std": None,
        "n": 1,
        "n_asked": 2,
        "printed_mean": pytest.approx(0.6605),
        "printed_std": pytest.approx(0.0061),
        "difference": pytest.approx(-0.0505),
    }


def test_a_run_answers_a_grid_whatever_its_precision_but_only_once(tmp_path, mnist):
    first = mnist.planned[0].config
    for name in RUNS.glob("*.json"):
        shutil.copy(name, tmp_path)
    found = read_runs(tmp_path).find(first)
    assert (first.precision, found.config.precision) == ("auto", "fp32")
    assert read_runs(tmp_path).find(replace(first, precision="bf16")) is None
    assert read_runs(tmp_path).find(replace(first, epochs=5)) is None
    publish([replace(found, config=replace(found.config, precision="bf16"))], tmp_path)
    assert read_runs(tmp_path).find(first).config.precision == "fp32"  # as every run gets it on a CPU
    assert read_runs(tmp_path).find(replace(first, precision="bf16")).config.precision == "bf16"
    publish([replace(found, config=replace(found.config, compile=True))], tmp_path)
    assert not read_runs(tmp_path).find(first).config.compile  # as every run on a CPU
    inputs = [replace(found.config.inputs, method_sha256=digit * 64) for digit in "01"]
    others = Collection(replace(found, config=replace(found.config, inputs=each)) for each in inputs)
    with pytest.raises(DataError, match="two runs of the same cell and seed, which differ in inputs"):
        others.find(first)
    assert read_runs(tmp_path).find(replace(first, precision="bf16")).config.precision == "bf16"


def test_a_published_run_reads_as_it_was(quick, tmp_path):
    result = run(quick(hold_out=0.1), tmp_path / "runs")
    publish([result], tmp_path / "small")
    again = read_published(next((tmp_path / "small").glob("*.json")))
    assert again.config == result.config
    assert again.summary == result.summary
    matrices = {"matrix_of_stage_one": [[1.0]], "matrix_at_the_end": [[1.0]]}
    large = replace(result, summary=result.summary | {"class_names": ["a"] * 100} | matrices)
    many = compact(large)["summary"]  # ten thousand numbers each, which the run's folder keeps
    assert set(large.summary) - set(many) == {"noise_matrix", *matrices}
    for mine, other in zip(again.epochs, result.epochs, strict=True):
        for name, values in vars(other).items():
            assert getattr(mine, name) == pytest.approx(values, abs=1e-5), name
    assert read_runs(tmp_path / "runs").find(result.config).epochs == result.epochs


def test_what_is_no_run_is_named(tmp_path):
    with pytest.raises(DataError, match="is no folder"):
        read_runs(tmp_path / "absent")
    (tmp_path / "notes.json").write_text('{"a": 1}')
    with pytest.raises(DataError, match=r"notes\.json is no published run"):
        read_runs(tmp_path)
    whole = json.loads(next(RUNS.glob("*.json")).read_text())
    del whole["summary"]["seconds"]
    (tmp_path / "notes.json").write_text(json.dumps(whole))
    with pytest.raises(DataError, match=r"no published run \('seconds'\)"):
        read_runs(tmp_path)


@pytest.mark.parametrize(
    ("damage", "cause"),
    [
        (lambda run: run["epochs"]["test_accuracy"].pop(), "test_accuracy has 3 of 4 epochs"),
        (lambda run: run["summary"].update(seconds=None), "no published run"),
        (lambda run: run["summary"].update(environment={}), "'device'"),
        (lambda run: run.update(config=[]), "no published run"),
        (lambda run: run["epochs"]["test_accuracy"].__setitem__(3, [float("nan")]), "not between 0 and 1"),
        (lambda run: run["epochs"]["picked"].__setitem__(0, [9.5]), "not between 0 and 1"),
    ],
)
def test_a_damaged_published_run_is_not_tabulated(tmp_path, damage, cause):
    whole = json.loads(next(RUNS.glob("*standard*.json")).read_text())
    damage(whole)
    (tmp_path / "run.json").write_text(json.dumps(whole))
    with pytest.raises(DataError, match=cause):
        read_runs(tmp_path)


def test_a_folder_with_none_of_the_runs_is_said(cli):
    answer = cli("table", "digits", "--runs", RUNS, "--only", "pair-45")
    assert (answer.returncode, answer.stdout) == (1, "")
    assert "none of the runs asked for is in" in answer.stderr
    measured = cli("table", GRID, "--runs", RUNS, "--only", "Small MNIST", "--measure", "precision", "--seeds", "1")
    assert measured.stderr == ""
    assert "did you mean 'paper'" in cli("table", "papr").stderr  # though there is no folder, either


def test_what_cannot_be_read_is_passed_over_and_named(quick, tmp_path, cli):
    result = run(quick(), tmp_path / "runs")
    publish([result], tmp_path / "runs")  # beside its folder: still one run
    (result.path / "weights.safetensors").unlink()  # tables need none
    (tmp_path / "runs" / "notes.json").write_text('{"a": 1}')
    other = run(quick(init_seed=7), tmp_path / "runs")
    config = json.loads((other.path / "config.json").read_text())
    (other.path / "config.json").write_text(json.dumps(config | {"warmup": 3}))
    found = read_runs(tmp_path / "runs")
    assert found.find(result.config).epochs == result.epochs
    assert len(found.passed_over) == 2
    assert "config.json is not of this version of coteach: unknown config key 'warmup'" in found.passed_over[0]
    process = cli("table", "digits")
    assert process.returncode == 1  # none of the grid's is there
    assert process.stderr.count("coteach: passed over: ") == 2


def test_of_two_versions_of_a_method_the_present_one_counts(quick, tmp_path):
    result = run(quick(), tmp_path)
    inputs = replace(result.config.inputs, method_sha256="0" * 64)
    old = replace(result, config=replace(result.config, inputs=inputs))
    assert Collection([old, result]).find(quick()) is result
    assert Collection([old]).find(quick()) is old


def test_tables_on_a_narrow_terminal_are_turned(runs, mnist):
    table = tables.tabulate(mnist, runs, "accuracy", LAST_TEN)
    wide, narrow = (Console(file=io.StringIO(), width=width, color_system=None) for width in (100, 50))
    tables.show(table, wide)
    tables.show(table, narrow)
    assert "│ pair-45      │  53.50 ± 1.41 (56.52, -3.02) │" in wide.file.getvalue()
    lines = narrow.file.getvalue().splitlines()
    assert "│ standard    │   53.50 ± 1.41 │  61.00 (n = 1) │" in lines
    assert "│             │ (56.52, -3.02) │ (66.05, -5.05) │" in lines


def test_texts_that_latex_and_markdown_would_misread(runs, mnist):
    table = tables.tabulate(replace(mnist, title="50% of $x^2$ & {y}_1 ~ a|b \\z <1>"), runs, "accuracy", LAST_TEN)
    caption = tables.latex(table).splitlines()[2]
    assert r"50\% of \$x\textasciicircum{}2\$ \& \{y\}\_1 \textasciitilde{} a|b \textbackslash{}z $<$1$>$" in caption
    assert r"symmetric-50 & 61.00 (n = 1) {\scriptsize (66.05, $-$5.05)}" in tables.latex(table)
