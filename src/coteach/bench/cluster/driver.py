"""Handing the jobs of a grid to a cluster, and taking in what becomes of them."""

import contextlib
import os
import pickle
import platform
import secrets
import shutil
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coteach.bench.cluster.connection import connect, needs_of, room_for
from coteach.bench.cluster.worker import How, Outcome, Place, Started, bring, finished_files, make
from coteach.bench.grid import Grid
from coteach.bench.jobs import Failure, Job, Listener, Schedule, jobs_of
from coteach.config import Source
from coteach.data import load_source
from coteach.errors import CoteachError, SettingError, StorageError
from coteach.results.folder import RunFolder
from coteach.results.run import InterruptedRun, Progress, Runner
from coteach.results.saving import stop_requests
from coteach.storage import storage_errors
from coteach.training.device import choose_device

RETRIES = 4
"""How often a run is taken up again whose process or node died."""
_PAUSE = 1.0  # seconds between two looks at the cluster
_PATIENCE = 10.0  # seconds that pass before a wait is told, and that the last tidying may take


def jobs_on_cluster(grid: Grid, runner: Runner, address: str) -> list[Job]:
    """The jobs of a grid as the workers of a cluster name them: their device decides, not that of this machine."""
    ray = connect(address)
    device, needs = needs_of(ray, runner)
    grid.planned()  # reads the files that the grid names, which a worker may not see
    answer = ray.remote(_jobs).options(**needs, max_retries=RETRIES).remote(grid, device)
    if not ray.wait([answer], timeout=_PATIENCE)[0]:
        runner.on_message("waiting for a free place on the cluster")
    try:
        found: list[Job] = ray.get(answer)
    except ray.exceptions.RayError as error:
        raise SettingError(f"the cluster's workers cannot describe the runs: {_one_line(error)}") from error
    return found


def _jobs(grid: Grid, device: str) -> list[Job]:
    return jobs_of(grid.runs(), choose_device(device))


def run_on_cluster(jobs: Sequence[Job], runner: Runner, listener: Listener, address: str) -> None:
    """Make every job on a cluster; `runner` says where and how, and its threads are for each run.

    An interruption is handed on to the runs, so that each is saved.
    """
    ray = connect(address)
    device, needs = needs_of(ray, runner)
    out = Path(os.path.abspath(runner.out))  # noqa: PTH100 - a link may lead elsewhere on another machine
    with _marked(out) as mark:
        how = How(platform.node(), out, mark, device, runner.threads or 1, runner.checkpoint_every)
        _Driver(ray, jobs, how, needs, listener).run()


@contextlib.contextmanager
def _marked(out: Path) -> Iterator[str]:
    """A file in the folder by which workers can tell that they see it; its name."""
    mark = out / f".shared-{secrets.token_hex(8)}"
    with storage_errors(mark):
        out.mkdir(parents=True, exist_ok=True)
        mark.touch()
    try:
        yield mark.name
    finally:
        mark.unlink(missing_ok=True)


class _Driver:
    """Hands jobs to the cluster and takes in what becomes of them."""

    def __init__(self, ray: Any, jobs: Sequence[Job], how: How, needs: dict[str, float], listener: Listener) -> None:
        self._ray, self._how, self._needs, self._listener = ray, how, needs, listener
        self._schedule = Schedule(jobs)
        self._datasets = _Datasets(ray, Counter(job.config.source for job in jobs))
        self._leftovers = _Leftovers(ray, jobs)
        self._mailbox = _mailbox(ray)
        self._flying: dict[Any, Job] = {}
        self._starts, self._stops = Counter[str](), Counter[str]()
        self._lonely = False

    def run(self) -> None:
        """Make every job."""
        with stop_requests() as stop:
            try:
                while self._schedule:
                    self._submit()
                    self._land(_PAUSE)
                    if stop.is_set():
                        self._stop()
            except BaseException:
                self._cancel()
                raise
        self._leftovers.wait()

    def _submit(self) -> None:
        """Send off as many jobs as there is room for, and one that waits there so that no place stays empty."""
        room = room_for(self._ray, self._needs)
        if not room and not self._lonely:
            self._listener.on_message("no node of the cluster is left for a run: waiting for one to join")
        self._lonely = not room
        while len(self._flying) <= room and (job := self._schedule.start()) is not None:
            failure = self._schedule.hopeless(job)
            if failure is None and not RunFolder(self._how.out / job.name).done:
                try:
                    self._send(job)
                    continue
                except CoteachError as error:  # its data cannot be read, or its first stage
                    failure = Failure(str(error), traceback.format_exc())
            self._end(job, failure)

    def _send(self, job: Job) -> None:
        dataset, first = self._datasets.get(job.config.source), self._first_stage(job)
        task = self._ray.remote(make).options(**self._needs, max_retries=RETRIES, retry_exceptions=False, name=job.name)
        self._flying[task.remote(self._how, job, dataset, first, self._mailbox)] = job

    def _first_stage(self, job: Job) -> list[Any]:
        """The finished first stage of a job. In a list it is not fetched before a worker asks for it."""
        if job.needs is None or not RunFolder(self._how.out / job.needs).done:
            return []
        return [self._ray.put(finished_files(self._how.out / job.needs))]

    def _land(self, patience: float | None) -> None:
        """Wait for a job to end, not long, and take in what was told meanwhile."""
        landed = self._ray.wait(list(self._flying), timeout=patience)[0] if self._flying else []
        self._hear()
        for task in landed:
            self._take(self._flying.pop(task), task)

    def _hear(self) -> None:
        """Hand on what workers told. Should the mailbox be lost, the work goes on in silence."""
        try:
            letters = self._ray.get(self._mailbox.take.remote(), timeout=_PATIENCE)
        except self._ray.exceptions.RayError:
            return
        under_way = {job.name for job in self._flying.values()}
        for name, word in map(pickle.loads, letters):
            match word:
                case Started():
                    self._starts[name] += 1
                    if self._starts[name] > 1:
                        self._listener.on_message(f"{name}: its process or node ended; another goes on with it")
                case Progress() if name in under_way:
                    self._listener.on_progress(word)
                case str():
                    self._listener.on_message(f"{name}: {word}")

    def _take(self, job: Job, task: Any) -> None:
        """Take in the end of a job."""
        try:
            outcome: Outcome = self._ray.get(task)
        except self._ray.exceptions.RayError as error:
            self._fail(job, Failure(_one_line(error), str(error)))
            return
        if outcome.stopped:
            self._take_stopped(job)
        elif outcome.failure is not None:
            self._fail(job, outcome.failure)
        else:
            try:
                bring(outcome.files or {}, self._how.out / job.name)
            except CoteachError as error:
                self._fail(job, Failure(str(error), traceback.format_exc()))
            else:
                if outcome.place is not None:
                    self._leftovers.lie(job, outcome.place)
                self._end(job, None)

    def _take_stopped(self, job: Job) -> None:
        """Somebody stopped the worker, such as `ray stop` on its node: another one goes on."""
        self._stops[job.name] += 1
        if self._stops[job.name] <= RETRIES:
            self._schedule.put_back(job)
        else:
            error = f"it was stopped from outside, {self._stops[job.name]} times over"
            self._fail(job, Failure(error, error))

    def _fail(self, job: Job, failure: Failure) -> None:
        with contextlib.suppress(StorageError):  # the cause of the failure may be the disk
            RunFolder(self._how.out / job.name).fail(failure.log)
        self._end(job, failure)

    def _end(self, job: Job, failure: Failure | None) -> None:
        self._schedule.end(job, failure)
        self._datasets.release(job.config.source)
        self._leftovers.clear(job)
        self._listener.on_end(job, failure)

    def _stop(self) -> None:
        """Let every run save itself, take in those that just ended, and leave."""
        self._listener.on_message("stopping: the runs are being saved")
        self._cancel()
        while self._flying:
            task = self._ray.wait(list(self._flying))[0][0]
            job = self._flying.pop(task)
            with contextlib.suppress(self._ray.exceptions.RayError):
                outcome = self._ray.get(task)
                if not outcome.stopped:
                    self._take(job, task)
        raise InterruptedRun("stopped, and the runs under way were saved: run the same command again to go on")

    def _cancel(self) -> None:
        for task in self._flying:
            with contextlib.suppress(self._ray.exceptions.RayError):
                self._ray.cancel(task)  # an interrupt in the process of the run, which saves it


class _Datasets:
    """Each dataset once in the cluster's memory, as long as a job needs it; a node's workers share one copy."""

    def __init__(self, ray: Any, jobs: Counter[Source]) -> None:
        self._ray, self._jobs = ray, jobs
        self._there: dict[Source, Any] = {}

    def get(self, source: Source) -> Any:
        """The reference to a dataset."""
        if source not in self._there:
            dataset = load_source(source)
            _ = dataset.fingerprint  # computed once here, it travels along
            self._there[source] = self._ray.put(dataset)
        return self._there[source]

    def release(self, source: Source) -> None:
        """One job less needs it."""
        self._jobs[source] -= 1
        if not self._jobs[source]:
            self._there.pop(source, None)


@dataclass
class _Leftovers:
    """Finished runs in temporary folders of nodes, deleted there once they are here and no job needs them there."""

    ray: Any
    jobs: Sequence[Job]
    _needed: Counter[str] = field(default_factory=Counter)
    _places: dict[str, set[Place]] = field(default_factory=dict)
    _deletions: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Count who needs each run: itself, and those whose first stage it is."""
        for job in self.jobs:
            self._needed.update(_parts(job))

    def lie(self, job: Job, place: Place) -> None:
        """The files of a job and of its first stage are there."""
        for name in _parts(job):
            self._places.setdefault(name, set()).add(place)

    def clear(self, job: Job) -> None:
        """The job is over: delete what nobody needs any more."""
        for name in _parts(job):
            self._needed[name] -= 1
            if self._needed[name] <= 0:
                for place in self._places.pop(name, ()):
                    self._delete(name, *place)

    def _delete(self, name: str, node: str, folder: str) -> None:
        def delete() -> None:  # defined here, so that Ray sends it as it is and its worker need not import torch
            shutil.rmtree(f"{folder}/{name}", ignore_errors=True)
            with contextlib.suppress(OSError):
                os.rmdir(folder)  # noqa: PTH106

        options = {"num_cpus": 0, "max_retries": 0, "scheduling_strategy": _on(node)}
        self._deletions.append(self.ray.remote(delete).options(**options).remote())

    def wait(self) -> None:
        """Let the last deletions end; a node that died needs none."""
        if self._deletions:
            self.ray.wait(self._deletions, num_returns=len(self._deletions), timeout=_PATIENCE)


def _parts(job: Job) -> tuple[str, ...]:
    return (job.name,) if job.needs is None else (job.name, job.needs)


def _on(node: str) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node, soft=False)


def _mailbox(ray: Any) -> Any:
    """A small process beside the driver that keeps what workers tell until it is taken."""

    class Mailbox:  # defined here, so that Ray sends it as it is and its process need not import torch
        def __init__(self) -> None:
            self._letters: list[bytes] = []

        def tell(self, letter: bytes) -> None:
            self._letters.append(letter)

        def take(self) -> list[bytes]:
            letters, self._letters = self._letters, []
            return letters

    beside = _on(ray.get_runtime_context().get_node_id())
    return ray.remote(Mailbox).options(num_cpus=0, scheduling_strategy=beside).remote()


def _one_line(error: Exception) -> str:
    """What Ray's error comes down to."""
    cause = getattr(error, "cause", None)
    if cause is not None:
        error = cause
    text = str(error).strip().splitlines() or [""]
    return text[0] if isinstance(error, CoteachError) else f"{type(error).__name__}: {text[0]}"
