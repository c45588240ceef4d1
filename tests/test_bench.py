"""Grids, what becomes of their runs, and the engines that make them: real runs, small enough to make here."""

import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from coteach import bench
from coteach.bench.grid import read_grid
from coteach.bench.jobs import Failure, Listener, Schedule, answered, jobs_of, worth_it
from coteach.bench.processes import TRIES, run_in_processes
from coteach.bench.status import State, duration, seconds_left, standings
from coteach.data import load
from coteach.errors import SettingError
from coteach.noise import corrupt, pair, save_draw, symmetric
from coteach.results.collection import Collection
from coteach.results.folder import RunFolder
from coteach.results.run import Runner, read_result

PAPER = Path(__file__).parents[1] / "results" / "paper"
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
        (
            'title = "A"\ndata = "digits"\nnoises = ["pair-45"]\nmethods = ["standard"]\n[settings]\nt_k = 9',
            "table 'A': standard has no setting t_k: leave it out, or take a method with it, co-teaching or mentornet",
        ),
        ('data = "digits"\nnoises = ["pair-45"]\n[settings]\nseed = 9', "a line of its own"),
        ('data = "digits"\nnoises = "pair-45"', "write it like noises = "),
        ('data = "digits"\nnoises = []', "write it like noises = "),
        ('data = "digits"\nnoises = ["pair-45"]\nseeds = 3', "write it like seeds = "),
        ('data = "digits"\nnoises = ["pair-45"]\nseeds = [1, 1]', "an entry twice"),
        ('data = 3\nnoises = ["pair-45"]', "write it like data = "),
        ('data = "digits"\nnoises = ["pair-45"]\nsweep = { t_k = 5 }', "has no list for t_k"),
        (
            'data = "digits"\nnoises = ["none"]\nmethods = ["co-teaching"]\nsweep = { tau = ["1 * rate"] }',
            "needs a noise",
        ),
        ('data = "digits"\nnoises = ["pair-45"]\nprinted = "mnst"', "did you mean 'mnist'"),
        ('data = "mnist"\nnoises = ["pair-45"]\nprinted = "mnist_tau"\nsweep = { t_k = [5] }', "mnist_tau sweeps tau"),
        ('noises = ["pair-45"]\ntable = 3', "begin each table with"),
        ('data = "digits"\nnoises = ["pair-45", "pair-45.0"]\nmethods = ["standard"]', "have the same name"),
        ('data = "digits"\nnoises = ["pair-45"]\nmethods = ["co-teaching"]\nsweep = { t_k = [5, 5] }', "the same name"),
        ('data = "mnist"\nnoises = ["pair-45"]\nprinted = "mnist_schedule"', "sweeps t_k and c"),
        ('data = "digits"\nnoises = ["pair-45"]\nsettings = 3', "write it like [settings]"),
        ('noises = ["pair-45"]\n[[table]]\ndata = "digits"\n[[table]]\ndata = "mnist"', "the same title"),
    ],
)
def test_a_wrong_grid_says_what_is_wrong(tmp_path, text, cause):
    (tmp_path / "grid.toml").write_text(text)
    with pytest.raises(SettingError, match=re.escape(cause)):
        list(read_grid(str(tmp_path / "grid.toml")).runs())


SWEEP = """
seeds = [1, 2]
noises = ["pair-45", "symmetric-20"]
[[table]]
title = "All"
data = "digits"
methods = ["standard", "co-teaching"]
[[table]]
title = "Sweep"
data = "digits"
methods = ["co-teaching"]
sweep = { t_k = [5, 10], tau = ["0.5 * rate", "1 * rate"] }
settings = { c = 1.0 }
"""


def test_a_grid_of_several_tables_and_a_sweep(tmp_path):
    (tmp_path / "grid.toml").write_text(SWEEP)
    grid = read_grid(str(tmp_path / "grid.toml"))
    every, sweep = grid.tables
    assert [(p.row, p.column) for p in every.planned[::2]] == [
        ("pair-45", "standard"),
        ("pair-45", "co-teaching"),
        ("symmetric-20", "standard"),
        ("symmetric-20", "co-teaching"),
    ]
    assert len(sweep.planned) == 2 * 2 * 2 * 2
    first = sweep.planned[0]
    assert (first.row, first.column) == ("pair-45, t_k = 5", "tau = 0.5 * rate")
    assert (first.config.settings["t_k"], first.config.settings["tau"]) == (5, 0.225)
    # t_k = 10 and tau = rate are the defaults: those runs stand in both tables, and are made once
    assert len(grid.planned()) == 8 + 16
    assert len(list(grid.runs())) == 8 + 16 - 4


def test_a_part_of_a_grid(tmp_path):
    (tmp_path / "grid.toml").write_text(SWEEP)
    grid = read_grid(str(tmp_path / "grid.toml"))
    part = grid.only(["All", "pair-45", "standard", "co-teaching"])
    assert {tuple(p.tags().values()) for p in part.planned()} == {
        ("All", "digits", "pair-45", "standard"),
        ("All", "digits", "pair-45", "co-teaching"),
    }
    assert len(grid.repeated(3).planned()) == 3 * (4 + 8)
    with pytest.raises(SettingError, match="did you mean 'pair-45'"):
        grid.only(["pair-54"])
    with pytest.raises(SettingError, match="no run of the grid is all of Sweep, standard"):
        grid.only(["Sweep", "standard"])


def test_the_grid_of_the_paper_has_a_printed_number_for_every_cell():
    for table in read_grid("paper").repeated(1).tables:
        cells = {(planned.row, planned.column) for planned in table.planned}
        assert cells == set(table.printed_cells())
    printed = {table.title: table.printed_cells() for table in read_grid("paper").tables}
    assert printed["Table 4"]["pair-45", "f-correction"].percent() == "0.24 ± 0.03"
    assert printed["Table 6"]["symmetric-20", "co-teaching"].percent() == "54.23 ± 0.08"
    assert printed["Table 7"]["symmetric-50, t_k = 15", "c = 0.5"].percent() == "91.74 ± 0.14"
    assert printed["Table 8"]["pair-45", "tau = 1.25 * rate"].percent() == "97.89 ± 0.06"


def test_a_printed_number_is_found_by_value_not_by_place(tmp_path):
    grid = tmp_path / "grid.toml"
    top = 'data = "mnist"\nnoises = ["pair-45"]\nmethods = ["co-teaching", "mentornet"]\n'
    grid.write_text(top + 'printed = "mnist_schedule"\nsweep = { c = [2.0, 0.7], t_k = [15, 5] }')
    cells = {place: cell.percent() for place, cell in read_grid(str(grid)).tables[0].printed_cells().items()}
    assert cells == {
        ("pair-45, co-teaching, c = 2.0", "t_k = 15"): "88.09 ± 0.17",
        ("pair-45, co-teaching, c = 2.0", "t_k = 5"): "87.54 ± 0.23",
    }
    grid.write_text(top + 'printed = "mnist_tau"\nsweep = { tau = ["1.5*rate", 0.45, 0.4] }')
    cells = {place: cell.percent() for place, cell in read_grid(str(grid)).tables[0].printed_cells().items()}
    assert cells == {
        ("pair-45, co-teaching", "tau = 1.5*rate"): "69.47 ± 0.02",
        ("pair-45, co-teaching", "tau = 0.45"): "87.63 ± 0.21",
    }


def test_a_printed_number_of_a_method_stands_beside_every_value_of_a_sweep():
    stage_one = read_grid("assumptions").tables[0].printed_cells()
    assert len(stage_one) == 12
    for setting in ("full", "early", "none"):
        assert stage_one["pair-45, f-correction", f"stage_one = {setting}"].percent() == "0.24 ± 0.03"


def test_a_printed_sweep_stands_beside_every_value_of_another_setting():
    (plan,) = (plan for plan in read_grid("assumptions").tables if plan.title == "R(T) of Table 7, the low cell")
    assert {row: cell.percent() for (row, _), cell in plan.printed_cells().items()} == {
        f"pair-45, schedule = {schedule}, t_k = 5": "75.56 ± 0.33" for schedule in ("text", "authors")
    }


def test_every_grid_that_comes_with_it_is_sound():
    assert len(list(read_grid("paper").runs())) == 495
    for name, seeds in (("digits", 3), ("mnist", 5), ("cifar10", 5), ("cifar100", 5)):
        assert len(list(read_grid(name).runs())) == 7 * 3 * seeds
    assert len(list(read_grid("assumptions").runs())) == 12 + 2 + 1 + 2 + 2 + 2 + 2 + 2 + 4 + 2 + 2 + 2 + 2
    assert len(list(read_grid("schedule").runs())) == 3 * 3 * (9 + 9 + 5 - 1)
    with pytest.raises(SettingError, match="did you mean 'digits'"):
        read_grid("digit")


def test_help_and_page_name_every_grid_that_comes_with_it(cli):
    told = re.search(r"comes with coteach \(([^)]+)\)", re.sub(r"[│\s]+", " ", cli("bench", "--help").stdout))[1]
    there = {path.stem for path in (Path(bench.__file__).parent / "grids").glob("*.toml")}
    assert set(told.split(", ")) == there
    page = (Path(__file__).parents[1] / "docs" / "grids.md").read_text(encoding="utf-8")
    assert [name for name in there if f"`{name}`" not in page] == []


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
    assert "| pair-45 |" in (tmp_path / "small" / "grid.md").read_text()
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
    assert re.search(r"coteach: failed: digits-pair-45-bootstrap-s1-\w+: .* has lost a part", process.stderr)
    assert "standard" in process.stdout


def test_a_wrong_setting_is_told_before_the_first_run(cli, tmp_path):
    (tmp_path / "grid.toml").write_text(
        'data = "digits"\nnoises = ["pair-45"]\nmethods = ["standard", "bootstrap"]\n[settings]\nbeta = 7.0\n'
    )
    process = cli("bench", "grid.toml")
    assert (process.returncode, process.stdout) == (2, "")
    assert "beta is 7" in process.stderr
    assert not (tmp_path / "runs").exists()


def test_a_grid_of_data_of_ones_own_fills_its_table_whatever_the_recipe_wants_of_an_estimate(cli, tmp_path):
    rows = [f"{k % 2 + 0.01 * k},{-(k % 2)},{'ab'[k % 2]}" for k in range(60)]
    (tmp_path / "mine.csv").write_text("\n".join(["x,y,kind", *rows]))
    methods = ["standard", "co-teaching", "mentornet"]
    settings = 'label = "kind"\nepochs = 2\ndecay_from = 1\n'
    (tmp_path / "own.toml").write_text(
        f'data = "mine.csv"\nnoises = ["none"]\nmethods = {methods}\n[settings]\n{settings}'
    )
    first = cli("bench", "own.toml", "--publish", "small")
    assert first.returncode == 0, first.stderr
    for runs in ("runs", "small"):
        made = json.loads(cli("table", "own.toml", "--runs", runs, "--measure", "accuracy", "--format", "json").stdout)
        assert {cell["column"]: cell["n"] for cell in made} == dict.fromkeys(methods, 1)
    assert "3 done" in cli("bench", "status", "own.toml", "--publish", "small", "--out", "nowhere").stdout


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
    assert len({cell["row"] for cell in accuracy}) == 4
    assert {cell["n"] for cell in accuracy} == {1}
    assert len(cells) == 4 + 3  # nobody knows the precision of labels as given


CPU = torch.device("cpu")
TWO_STAGES = """
data = "digits"
noises = ["pair-45"]
methods = ["s-model", "f-correction", "standard", "co-teaching"]
seeds = [1]
[settings]
epochs = 6
max_steps = 6
"""


@pytest.fixture
def jobs(tmp_path):
    (tmp_path / "grid.toml").write_text(TWO_STAGES)
    return jobs_of(read_grid(str(tmp_path / "grid.toml")).runs(), CPU)


def test_a_first_stage_is_one_job_and_comes_before_those_that_need_it(jobs):
    assert [job.config.method for job in jobs] == ["standard", "s-model", "f-correction", "co-teaching"]
    assert [job.needs for job in jobs] == [None, jobs[0].name, jobs[0].name, None]
    schedule = Schedule(jobs)
    assert schedule.start() == jobs[0]
    assert schedule.start() == jobs[3]  # the two between wait for their first stage
    assert schedule.start() is None
    schedule.end(jobs[0], Failure("broke", "broke"))
    late = schedule.start()
    assert late == jobs[1]
    assert "first stage" in schedule.hopeless(late).error
    assert schedule.hopeless(jobs[3]) is None


def test_processes_make_the_same_bits_and_survive_a_kill(jobs, tmp_path):
    """Two workers are killed in the middle of a run, and the runs go on in others."""
    killed, said, ended = [], [], []

    def kill(progress):
        if killed or progress.epoch < 3:
            return
        workers = multiprocessing.active_children()
        for process in workers:  # held first, so that no run ends between the look and the kill
            os.kill(process.pid, signal.SIGSTOP)
        saved = {path.parent for path in (tmp_path / "many").glob("*/checkpoint.pt")}
        killed.extend(folder for folder in saved if not (folder / "summary.json").exists())
        for process in workers:
            os.kill(process.pid, signal.SIGKILL if killed else signal.SIGCONT)

    listener = Listener(kill, said.append, lambda job, failure: ended.append((job.name, failure)))
    runner = Runner(tmp_path / "many", "cpu", 1, checkpoint_every=0)
    run_in_processes(jobs, runner, listener, workers=2, one_device=True)
    assert sorted(ended) == sorted((job.name, None) for job in jobs)
    assert any("was killed by SIGKILL; another goes on with it" in line for line in said)
    assert any("going on in epoch" in line for line in said)
    shares = []
    for job in jobs:
        here = Runner(tmp_path / "here", "cpu", 1).run(job.config)
        there = read_result(tmp_path / "many" / job.name)
        assert there.epochs == here.epochs
        assert here.device_seconds == here.summary["seconds"]
        shares.append(there.device_seconds / there.summary["seconds"])
        assert (there.path / "weights.safetensors").read_bytes() == (here.path / "weights.safetensors").read_bytes()
    assert all(0.49 <= share < 1 for share in shares)


def test_a_run_that_is_left_alone_on_a_device_counts_in_full_from_then_on(quick, tmp_path):
    short, long = (quick(epochs=epochs, decay_from=1) for epochs in (1, 100))
    jobs = jobs_of([(short, None), (long, None)], CPU)
    ended = []
    listener = Listener(lambda progress: None, lambda line: None, lambda job, failure: ended.append(job.config.epochs))
    run_in_processes(jobs, Runner(tmp_path, "cpu", 1), listener, workers=2, one_device=True)
    assert ended == [1, 100]
    result = read_result(tmp_path / long.name)
    assert result.device_seconds > 0.6 * result.summary["seconds"]


@pytest.mark.slow
def test_a_run_whose_process_always_dies_fails_and_the_others_end(jobs, tmp_path, monkeypatch):
    (tmp_path / "deadly.py").write_text(
        "import os\nfrom coteach.nets import MLP\n\ndef net(shape, classes):\n"
        "    if os.environ.get('DEADLY'):\n        os._exit(7)\n    return MLP(shape, classes)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "grid.toml").write_text(TWO_STAGES.replace("[settings]", '[settings]\nnetwork = "deadly:net"'))
    deadly = jobs_of(read_grid("grid.toml").runs(), CPU)[:2]
    monkeypatch.setenv("DEADLY", "yes")
    ended = {}
    listener = Listener(on_end=lambda job, failure: ended.update({job.name: failure}))
    run_in_processes([*deadly, jobs[3]], Runner(tmp_path / "runs", "cpu", 1), listener, workers=2)
    assert ended[jobs[3].name] is None
    assert ended[deadly[0].name].error == f"its process ended with code 7, {TRIES} times over"
    assert ended[deadly[1].name].error == f"its first stage {deadly[0].name} failed"


def test_the_state_of_a_grid_is_read_from_its_folders(jobs, tmp_path):
    runner = Runner(tmp_path, "cpu", 1)
    assert {s.state for s in standings(jobs, tmp_path)} == {State.MISSING}
    assert seconds_left(standings(jobs, tmp_path)) == (0.0, ["digits"])
    runner.run(jobs[0].config)
    failing = RunFolder(tmp_path / jobs[1].name)
    failing.fail("Traceback: it broke\n")
    running = RunFolder(tmp_path / jobs[3].name)
    with running.claimed():
        found = standings(jobs, tmp_path)
    assert [s.state for s in found] == [State.DONE, State.FAILED, State.MISSING, State.RUNNING]
    left, unknown = seconds_left(found)
    assert (left, unknown) == (pytest.approx(3 * found[0].seconds), [])  # judged by the one that is done on their data
    runner.run(jobs[1].config)
    assert standings(jobs, tmp_path)[1].state is State.DONE
    assert not failing.failure_file.exists()


def test_durations_as_people_say_them():
    assert [duration(s) for s in (5, 100, 3600, 6 * 3600, 40 * 3600, 86400 * 20)] == [
        "5 seconds", "1.7 minutes", "60 minutes", "6.0 hours", "1.7 days", "20 days",
    ]  # fmt: skip


@pytest.mark.slow
def test_bench_with_processes_stops_politely_and_goes_on(cli, tmp_path):
    (tmp_path / "grid.toml").write_text(TWO_STAGES.replace("epochs = 6", "epochs = 20000"))  # it does not end by itself
    words = [sys.executable, "-m", "coteach", "bench", "grid.toml", "--engine", "processes", "--workers", "2"]
    process = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while process.poll() is None and len(list((tmp_path / "runs").glob("*/epochs.jsonl"))) < 2:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "go on" in said
    stopped = list((tmp_path / "runs").glob("*/checkpoint*.pt"))
    assert len(stopped) == 2  # both were saved
    status = cli("bench", "status", "grid.toml")
    assert status.returncode == 0, status.stderr
    assert status.stdout.startswith("0 done, 0 running, 0 failed, 4 missing, of 4 runs")


def test_a_run_that_breaks_in_an_unforeseen_way_leaves_its_log(cli, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from coteach.nets import SmallCNN\n\nclass Net(SmallCNN):\n    def forward(self, x):\n"
        "        assert not self.training, 'no such luck'\n        return super().forward(x)\n\n"
        "def net(shape, classes):\n    return Net(shape, classes)\n"
    )
    (tmp_path / "grid.toml").write_text(TWO_STAGES.replace("[settings]", '[settings]\nnetwork = "mine:net"'))
    process = cli("bench", "grid.toml")
    assert process.returncode == 1
    assert process.stderr.count("coteach: failed: ") == 4
    log = next((tmp_path / "runs").glob("*-standard-*/failure.log"))
    assert str(log.relative_to(tmp_path)) in process.stderr
    assert "AssertionError: no such luck" in log.read_text()
    assert "Traceback" in log.read_text()
    status = cli("bench", "status", "grid.toml").stdout
    assert status.startswith("0 done, 0 running, 4 failed, 0 missing, of 4 runs")
    assert "its first stage" in next((tmp_path / "runs").glob("*-s-model-*/failure.log")).read_text()


def test_a_network_of_ones_own_fills_its_cells(cli, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from coteach.nets import MLP\n\ndef net(shape, classes):\n    return MLP(shape, classes)\n"
    )
    (tmp_path / "sub").mkdir()
    np.save(tmp_path / "sub" / "noise matrix.npy", pair(10, 0.3))
    (tmp_path / "sub" / "grid.toml").write_text(
        'data = "digits"\nnoises = ["noise matrix.npy"]\nmethods = ["standard"]\n'
        '[settings]\nnetwork = "mine:net"\nepochs = 1\nmax_steps = 2\n'
    )
    (row,) = json.loads(cli("bench", "sub/grid.toml", "--json").stdout)[:1]
    assert (row["row"], row["column"], row["n"]) == ("noise matrix", "standard", 1)
    for word in ("noise matrix", "sub/noise matrix.npy"):
        table = json.loads(cli("table", "sub/grid.toml", "--format", "json", "--only", word).stdout)
        assert table[0]["mean"] == row["mean"]
    assert cli("bench", "status", "sub/grid.toml").stdout.startswith("1 done")


@pytest.mark.slow
def test_nobody_reads_and_the_work_goes_on(tmp_path):
    (tmp_path / "grid.toml").write_text(GRID)
    words = [sys.executable, "-m", "coteach", "bench", "grid.toml", "--threads", "1"]
    process = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stderr.close()
    out = process.stdout.read().decode()
    assert process.wait() == 0
    assert len(list((tmp_path / "runs").glob("*/summary.json"))) == 8
    assert "pair-45" in out


def test_a_part_does_not_replace_the_published_whole(cli, tmp_path):
    (tmp_path / "grid.toml").write_text(GRID)
    assert cli("bench", "grid.toml", "--publish", "small").returncode == 0
    whole = (tmp_path / "small" / "grid.md").read_text()
    assert cli("bench", "grid.toml", "--publish", "small", "--only", "standard").returncode == 0
    assert (tmp_path / "small" / "grid.md").read_text() == whole


def test_published_runs_are_not_made_again(cli, tmp_path):
    """A table goes on where its published runs end, on a machine that has nothing else of them."""
    grid = TWO_STAGES.replace("epochs = 6", "epochs = 1").replace('"f-correction", "standard", ', '"standard", ')
    (tmp_path / "grid.toml").write_text(grid)
    first = cli("bench", "grid.toml", "--publish", "small", "--only", "standard")
    assert first.returncode == 0, first.stderr
    (standard,) = (tmp_path / "small").glob("*.json")
    written = standard.stat().st_mtime_ns
    shutil.rmtree(tmp_path / "runs")
    second = cli("bench", "grid.toml", "--publish", "small")
    assert second.returncode == 0, second.stderr
    assert "3 of 3 done" in second.stderr
    assert standard.stat().st_mtime_ns == written  # made again, for s-model needs its weights; its number stays
    shutil.rmtree(tmp_path / "runs")
    third = cli("bench", "grid.toml", "--publish", "small")
    assert (third.returncode, third.stdout) == (0, second.stdout)
    assert third.stderr == "3 of 3 runs are in small and not made again\n"
    status = cli("bench", "status", "grid.toml", "--publish", "small")
    assert status.stdout == "3 done, 0 running, 0 failed, 0 missing, of 3 runs\n"
    standard.write_text("{}")
    mended = cli("bench", "grid.toml", "--publish", "small", "--only", "standard")
    assert "coteach: passed over: " in mended.stderr
    assert json.loads(standard.read_text())["config"]["method"] == "standard"


def test_a_published_run_of_another_source_or_precision_is_no_answer(jobs, tmp_path):
    made = Runner(tmp_path, "cpu", 1).run(jobs[0].config)
    other = replace(made.config, inputs=replace(made.config.inputs, method_sha256="0" * 64))
    assert set(answered(jobs, Collection([made]))) == {jobs[0].name}
    assert not answered(jobs, Collection([replace(made, config=other)]))
    assert not answered([replace(jobs[0], precision="bf16")], Collection([made]))


def test_a_precision_that_one_table_asks_for_counts_whatever_the_others_leave_open(quick):
    runs = [(quick(precision=precision), None) for precision in ("auto", "fp32", "auto")]
    (job,) = jobs_of(runs, CPU)
    assert job.precision == "fp32"


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU has every precision")
def test_without_a_gpu_runs_of_one_are_looked_for_and_not_made(cli, tmp_path):
    (tmp_path / "grid.toml").write_text(GRID.replace("[settings]", '[settings]\nprecision = "bf16"'))
    status = cli("bench", "status", "grid.toml")
    assert (status.returncode, status.stderr) == (0, "")
    assert status.stdout.startswith("0 done, 0 running, 0 failed, 8 missing, of 8 runs")
    made = cli("bench", "grid.toml")
    assert made.returncode == 2
    assert made.stderr == "coteach: precision bf16 needs a CUDA GPU, this is cpu: choose precision fp32\n"
    assert cli("bench", "status", "assumptions", "--publish", PAPER).returncode == 0


def test_a_first_stage_that_nobody_needs_any_more_is_no_work(tmp_path):
    (tmp_path / "grid.toml").write_text(TWO_STAGES.replace('"standard", ', ""))
    jobs = jobs_of(read_grid(str(tmp_path / "grid.toml")).runs(), CPU)
    first, s_model, f_correction, co_teaching = jobs
    assert not first.asked
    assert worth_it(jobs, {s_model.name}) == jobs  # the other still needs it
    assert worth_it(jobs, {s_model.name, f_correction.name}) == [s_model, f_correction, co_teaching]


def test_a_folder_that_is_none_is_told_once(cli, tmp_path):
    (tmp_path / "grid.toml").write_text(GRID)
    (tmp_path / "runs").write_text("a file")
    answer = cli("bench", "grid.toml")
    assert (answer.returncode, answer.stderr.count("\n")) == (1, 1)
    assert "a file stands where a folder is needed" in answer.stderr


def test_status_finds_runs_of_another_precision(jobs, tmp_path):
    made = Runner(tmp_path, "cpu", 1).run(jobs[0].config)
    content = json.loads((made.path / "config.json").read_text()) | {"precision": "bf16", "compile": True}
    (made.path / "config.json").write_text(json.dumps(content))
    made.path.rename(tmp_path / "elsewhere")
    summary = json.loads((tmp_path / "elsewhere" / "summary.json").read_text()) | {
        "seconds": 8.0,
        "device_seconds": 4.5,
    }
    (tmp_path / "elsewhere" / "summary.json").write_text(json.dumps(summary))
    found = standings(jobs, tmp_path)
    assert [each.state for each in found] == [State.DONE, *[State.MISSING] * 3]
    assert found[0].seconds == 4.5  # the run's share of its device
    asked = replace(jobs[0], precision="fp32")  # then it takes a run of just that
    assert standings([asked], tmp_path)[0].state is State.MISSING
