"""The Ray engine on a real cluster of two nodes on this machine, one of which dies in the middle of a run."""

import contextlib
import os
import platform
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
import torch

from coteach.bench.cluster import How, connect, jobs_on_cluster, node_folder, run_on_cluster
from coteach.bench.grid import read_grid
from coteach.bench.here import run_here
from coteach.bench.jobs import Listener, jobs_of
from coteach.errors import SettingError
from coteach.results.folder import RunFolder
from coteach.results.run import Runner

ray = pytest.importorskip("ray")

NODE = {"num_cpus": 1, "num_gpus": 0, "object_store_memory": 100 * 2**20}
# A dead node is noticed within seconds, so that the test need not wait longer; and workers, which Ray lets others go
# before, do not starve beside the other tests.
HASTE = {
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 4,
    "health_check_initial_delay_ms": 1000,
    "worker_niceness": 0,
}
LONG = 40  # epochs of a run that is stopped in the middle
GRID = """
data = "digits"
noises = {noises}
methods = {methods}
seeds = {seeds}
[settings]
noise_seed = 1
epochs = {epochs}
decay_from = 5
max_steps = 5
batch_size = {batch_size}
"""


@pytest.fixture(scope="module")
def head():
    """A cluster of one node, which the engine is connected to."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))  # a cluster of our own, whatever lies in the home folder
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        ray._raylet.Config.initialize("")  # it has read the mode before
        cluster = Cluster(
            initialize_head=True, head_node_args=NODE | {"include_dashboard": False, "_system_config": HASTE}
        )
        try:
            connect(cluster.address)
            yield cluster
        finally:
            ray.shutdown()
            cluster.shutdown()


@pytest.fixture
def node(head):
    """A second node."""
    second = head.add_node(**NODE)
    head.wait_for_nodes()
    yield second
    if second in head.list_all_nodes():
        head.remove_node(second)


def grid(folder, epochs, noises=("pair-45",), methods=("standard", "s-model"), seeds=(1,), batch_size=128):
    path = folder / "grid.toml"
    lists = {"noises": list(noises), "methods": list(methods), "seeds": list(seeds)}
    path.write_text(GRID.format(**lists, epochs=epochs, batch_size=batch_size))
    return read_grid(str(path))


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder for the same runs without a cluster."""
    return tmp_path_factory.mktemp("here")


def assert_as_here(jobs, out, expected):
    failures = []
    run_here(jobs, Runner(expected, "cpu", 1), Listener(on_end=lambda job, failure: failures.append(failure)))
    assert failures == [None] * len(jobs)
    for job in jobs:
        for file in ("weights.safetensors", "epochs.jsonl", "labels.npz", "config.json"):
            assert (out / job.name / file).read_bytes() == (expected / job.name / file).read_bytes(), (job.name, file)
        folder = RunFolder(out / job.name)
        assert [record.epoch for record in folder.epochs()] == list(range(1, job.config.epochs + 1))
        assert folder.summary()["epochs"] == job.config.epochs
        assert not list(folder.path.glob("checkpoint*"))
        assert not list(folder.path.glob(".*.part"))
    assert sorted(path.name for path in out.iterdir()) == sorted(job.name for job in jobs)  # and no mark is left


def under_way(out):
    """Runs that have been saved and are not done."""
    return [path.parent.name for path in out.glob("*/checkpoint.pt") if not (path.parent / "summary.json").exists()]


def saved(out):
    """What changes on the disk when a run is saved."""
    return {(path, path.stat().st_ino) for path in out.glob("*/checkpoint.previous.pt")}


def begun(out):
    """What is there as soon as a run trains."""
    return list(out.glob("*/epochs.jsonl"))


def made_by(node, job):
    """The processes of a node that make a job."""
    for process in children(node.all_processes["raylet"][0].process.pid):
        with contextlib.suppress(OSError):  # it ended just now
            if Path(f"/proc/{process}/cmdline").read_bytes().startswith(f"ray::{job.name}".encode()):
                yield process


def frozen(node, job, under_way):
    """Hold the process of a node that makes a job, and keep hold of it if the job is one of those under way.

    A process that is held cannot reach the end of its run before it is killed, however slow this machine is.
    """
    for process in made_by(node, job):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGSTOP)
            if job.name in under_way():
                return process
            os.kill(process, signal.SIGCONT)
    return None


def stamps(folder):
    return {file.name: (file.stat().st_ino, file.stat().st_mtime_ns) for file in folder.iterdir() if file.suffix}


def children(process):
    """The processes that a process started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == process:
                found.append(int(stat.parent.name))
        except OSError:
            continue  # it ended just now
    return found


def kill_hard(cluster, node):
    """What a power cut does to a node: all its processes end at once."""
    raylet = node.all_processes["raylet"][0].process.pid
    os.kill(raylet, signal.SIGSTOP)  # else it would start and end others meanwhile
    for process in [*children(raylet), raylet]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    cluster.remove_node(node, allow_graceful=False)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the processes of a node in /proc")
def test_a_node_dies_in_the_middle_of_a_run(head, node, tmp_path, here):
    out = tmp_path / "cluster"
    runner = Runner(out, checkpoint_every=0.1)
    runs = grid(tmp_path, 25, seeds=[1, 2])
    jobs = jobs_on_cluster(runs, runner, "auto")
    assert jobs == jobs_of(runs.runs(), torch.device("cpu"))
    assert len(jobs) == 4
    ended, messages, hit, finished = [], [], [], {}
    over = threading.Event()

    def end(job, failure):
        assert failure is None, failure.log
        ended.append(job.name)
        finished[job.name] = stamps(out / job.name)

    def kill():
        while not hit and not over.wait(0.05):  # it must not take the time of those that work
            names = under_way(out) if ended else []
            hit.extend(
                [job.name for job in jobs if job.name in names and frozen(node, job, lambda: under_way(out))][:1]
            )
        if hit:
            kill_hard(head, node)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        run_on_cluster(jobs, runner, Listener(on_message=messages.append, on_end=end), "auto")
    finally:
        over.set()
        killer.join()

    (name,) = hit
    first, second = messages  # and none about the runs on the node that lives
    assert first == f"{name}: its process or node ended; another goes on with it"
    assert second.startswith(f"{name}: going on in epoch")
    assert Counter(ended) == Counter(job.name for job in jobs)
    for job in jobs:
        assert stamps(out / job.name) == finished[job.name], f"{job.name} was touched after its end"
    assert_as_here(jobs, out, here)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="needs a path that each process sees otherwise")
def test_nodes_that_do_not_see_the_folder(node, tmp_path, here, monkeypatch):
    (tmp_path / "driver").mkdir()
    monkeypatch.chdir(tmp_path / "driver")
    out = Path("/proc/self/cwd/runs")  # to a worker this is a folder in its own working folder, which is another
    there = node_folder(How(platform.node(), out, "", "cpu", 1, 1.0))
    jobs = jobs_on_cluster(grid(tmp_path, 3), Runner(out), "auto")
    assert [job.needs for job in jobs] == [None, jobs[0].name]
    ended, made = [], Counter()

    def step(progress):
        if progress.record is not None and progress.epoch == progress.config.epochs:
            made[progress.config.name] += 1

    listener = Listener(step, on_end=lambda job, failure: ended.append((job.name, failure)))
    for job in jobs:
        run_on_cluster([job], Runner(out), listener, "auto")
        assert not there.exists()  # so that the next one can have its first stage from the driver only
    run_on_cluster(jobs, Runner(out), listener, "auto")

    assert ended == 2 * [(job.name, None) for job in jobs]
    assert made == {job.name: 1 for job in jobs}
    assert_as_here(jobs, tmp_path / "driver" / "runs", here)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the process of a run in /proc")
def test_the_process_of_a_run_is_stopped(head, tmp_path, here):
    out = tmp_path / "runs"
    (job,) = jobs = jobs_of(grid(tmp_path, LONG, methods=["standard"]).runs(), torch.device("cpu"))
    ended, messages, hit = [], [], []

    def kill():
        for how in (signal.SIGKILL, signal.SIGTERM):  # the second leaves the process, which may take up the run again
            before = saved(out)
            while not ended:
                time.sleep(0.05)
                if saved(out) != before and (process := frozen(head.head_node, job, lambda: under_way(out))):
                    hit.append(process)
                    os.kill(process, how)
                    if how != signal.SIGKILL:
                        os.kill(process, signal.SIGCONT)
                    break

    killer = threading.Thread(target=kill)
    killer.start()
    listener = Listener(on_message=messages.append, on_end=lambda job, failure: ended.append((job.name, failure)))
    try:
        run_on_cluster(jobs, Runner(out, checkpoint_every=0.1), listener, "auto")
    finally:
        ended.append(None)
        killer.join()
    assert len(hit) == 2
    assert ended == [(job.name, None), None]
    assert messages[::2] == 2 * [f"{job.name}: its process or node ended; another goes on with it"]
    assert all(message.startswith(f"{job.name}: going on in epoch") for message in messages[1::2])
    assert_as_here(jobs, out, here)


def test_a_run_that_fails_is_not_tried_again(head, tmp_path):
    first, second = jobs = jobs_on_cluster(grid(tmp_path, 3, batch_size=5000), Runner(tmp_path / "runs"), "auto")
    ended, messages = {}, []
    listener = Listener(on_message=messages.append, on_end=lambda job, failure: ended.update({job.name: failure}))
    run_on_cluster(jobs, Runner(tmp_path / "runs"), listener, "auto")
    assert "batch_size 5000 is more than the 1437 training samples" in ended[first.name].error
    assert ended[second.name].error == f"its first stage {first.name} failed"
    assert "Traceback" in (tmp_path / "runs" / first.name / "failure.log").read_text()
    assert messages == []


DRIVER = """
import sys
from pathlib import Path
from coteach.bench.cluster import jobs_on_cluster, run_on_cluster
from coteach.bench.grid import read_grid
from coteach.bench.jobs import Listener
from coteach.results.run import InterruptedRun, Runner

grid, out, address, checkpoint_every = sys.argv[1:]
runner = Runner(Path(out), checkpoint_every=float(checkpoint_every))
try:
    run_on_cluster(jobs_on_cluster(read_grid(grid), runner, address), runner, Listener(), address)
except InterruptedRun as stop:
    sys.exit(str(stop))
"""


@pytest.mark.slow
def test_the_driver_is_stopped(head, tmp_path, here):
    (job,) = jobs = jobs_of(grid(tmp_path, LONG, methods=["standard"]).runs(), torch.device("cpu"))
    out = tmp_path / "runs"
    # The first one is saved by being stopped, or not at all.
    for how, every, alive in ((signal.SIGTERM, 1000, begun), (signal.SIGKILL, 0.1, saved)):
        words = [sys.executable, "-c", DRIVER, tmp_path / "grid.toml", out, head.address, str(every)]
        before = alive(out)
        with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as driver:
            while alive(out) == before and driver.poll() is None:
                time.sleep(0.01)
            driver.send_signal(how)
            told = driver.communicate(timeout=60)
        assert under_way(out) == [job.name]
        if how == signal.SIGTERM:
            assert told == ("", "stopped, and the runs under way were saved: run the same command again to go on\n")
            assert not RunFolder(out / job.name).running
    (mark,) = out.glob(".shared-*")
    mark.unlink()  # the second driver could not
    messages = []
    run_on_cluster(jobs, Runner(out), Listener(on_message=messages.append), "auto")
    assert [message.partition(" in ")[0] for message in messages] == [f"{job.name}: going on"]
    assert_as_here(jobs, out, here)


def test_no_cluster_and_no_ray(monkeypatch, process, tmp_path):
    grid(tmp_path, 3)
    done = process("bench", "grid.toml", "--engine", "ray", "--address", "127.0.0.1:1")
    assert done.returncode == 2
    assert done.stderr.startswith("coteach: cannot reach a Ray cluster at 127.0.0.1:1 (")
    assert done.stderr.count("\n") == 1
    monkeypatch.setitem(sys.modules, "ray", None)  # as if it were not installed
    with pytest.raises(SettingError, match=r"pip install 'coteach\[ray\]'"):
        connect("auto")
