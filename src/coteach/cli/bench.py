"""`coteach bench`: every run of a grid, and their tables. `coteach bench status`: how far it is."""

import contextlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from coteach.cli.grids import Part, say_passed_over

if TYPE_CHECKING:
    from coteach.bench.grid import Grid
    from coteach.bench.jobs import Failure, Job, Listener
    from coteach.config import Source
    from coteach.results.collection import Collection
    from coteach.results.run import Result, Runner


@dataclass(frozen=True)
class Ask(Part):
    """Run what is missing of a grid of runs and print its tables. Stopped or killed, the same command goes on.

    `coteach bench status GRID` says how far a grid is.
    """

    out: Path = Path("runs")
    """Folder for run folders."""
    engine: Literal["here", "processes", "ray"] = "here"
    """Where runs are made: one after another here, several at once in processes of their own, or on a Ray cluster."""
    workers: int = 0
    """How many runs at once, in processes; 0 for one a core, or one on a GPU. On a cluster its resources decide."""
    address: str = "auto"
    """Address of the Ray cluster: auto for the one that this machine is part of, local to start one here."""
    device: str = "auto"
    """Device: auto takes a GPU when there is one, else the CPU."""
    threads: int = 0
    """CPU threads of each run; 0 for as many as pay, with processes for a share of the cores, on a cluster for 1."""
    checkpoint_every: float = 30.0
    """Seconds between checkpoints; a killed run loses no more than that."""
    publish: Path | None = None
    """Also write each run as one small JSON file, and the tables as Markdown, into this folder. A run that is there
    already, made here or elsewhere, is not made again."""
    json: bool = False
    """Print the cells as JSON on standard output."""


@dataclass(frozen=True)
class AskStatus(Part):
    """How many runs of a grid are done, running, failed and missing, and how long the rest will take."""

    out: Path = Path("runs")
    """Folder with the run folders."""
    publish: Path | None = None
    """Folder with published runs, which count as done."""
    engine: Literal["here", "processes", "ray"] = "here"
    """Where the runs are made: with ray, the cluster says what device they are for."""
    address: str = "auto"
    """Address of the Ray cluster."""
    device: str = "auto"
    """Device that the grid is run on: a run on a GPU is another than on a CPU."""
    json: bool = False
    """Print it as JSON on standard output."""


def main(argv: list[str]) -> int:
    """Run the grid and print its tables; 1 if a run failed."""
    if argv[:1] == ["status"]:
        return _status(argv[1:])
    ask = tyro.cli(Ask, prog="coteach bench", args=argv)

    from coteach.analysis.numbers import LAST_TEN
    from coteach.analysis.tables import markdown, show, tables
    from coteach.progress import console
    from coteach.results.collection import Collection
    from coteach.storage import storage_errors, write_over

    grid = ask.read()
    _check(grid)
    for folder in (ask.out, ask.publish):
        if folder is not None:
            with storage_errors(folder, "write into"):
                folder.mkdir(parents=True, exist_ok=True)
    results, failures = _run(ask, grid)
    with contextlib.suppress(BrokenPipeError):  # nobody may read it; the tables are still to come
        for name, error in failures.items():
            log = ask.out / name / "failure.log"
            print(f"coteach: failed: {name}: {error}" + (f" ({log})" if log.exists() else ""), file=sys.stderr)
    shown = tables(grid, Collection(results), LAST_TEN)
    if ask.publish is not None and not ask.only and ask.seeds is None:  # a part must not replace the whole
        missing = f"\n{len(failures)} runs failed and are not in the tables.\n" if failures else ""
        write_over(ask.publish / f"{Path(ask.grid).stem}.md", "\n".join(map(markdown, shown)) + missing)
    if ask.json:
        json.dump([cell for found in shown for cell in found.to_list()], sys.stdout, indent=2)
        print()
    else:
        for found in shown:
            show(found, console())
    return 1 if failures else 0


def _check(grid: "Grid") -> None:
    """Tell of missing data and wrong settings now, not in days."""
    from coteach.data import load_source
    from coteach.methods import catalogue

    classes: dict[Source, int] = {}
    for config, _ in grid.runs():
        if config.source not in classes:
            classes[config.source] = load_source(config.source).classes
        catalogue.load(config.method)(classes[config.source], **config.settings)


def _run(ask: Ask, grid: "Grid") -> "tuple[list[Result], dict[str, str]]":
    """Make what is missing; returns all results, and for each run that failed its error."""
    from coteach.bench.jobs import Listener, answered, worth_it
    from coteach.errors import CoteachError, StorageError
    from coteach.progress import RunProgress
    from coteach.results.folder import RunFolder
    from coteach.results.publish import publish
    from coteach.results.run import Runner, read_result

    results: list[Result] = []
    failures: dict[str, str] = {}
    before = _published(ask.publish)

    def take(job: "Job", error: str | None = None) -> None:
        """Count a run that is over."""
        try:
            if error is None:
                result = published.get(job.name) or read_result(ask.out / job.name)
                if ask.publish is not None and job.name not in published:
                    publish([result], ask.publish)
                results.append(result)
        except CoteachError as lost:
            error = str(lost)
        if error is not None:
            failures[job.name] = error

    with RunProgress(of_many=True) as progress:

        def end(job: "Job", failure: "Failure | None") -> None:
            progress.end(job.name)
            folder = RunFolder(ask.out / job.name)
            if failure is not None and not folder.failed:
                with contextlib.suppress(StorageError):  # the cause of the failure may be the disk
                    folder.fail(failure.log)
            take(job, None if failure is None else failure.error)
            what = "failed" if job.name in failures else "done"
            progress.message(f"{len(results) + len(failures)} of {len(jobs)} {what}: {job.name}")

        how = ask.out, ask.device, ask.threads, ask.checkpoint_every
        runner = Runner(*how, on_progress=progress.step, on_message=progress.message)
        jobs = _jobs(grid, runner, ask.engine, ask.address)
        published = answered(jobs, before)
        made = {job.name for job in jobs if RunFolder(ask.out / job.name).done}
        done = made | published.keys()
        jobs = worth_it(jobs, done)
        needed = {job.needs for job in jobs if job.name not in done}
        if elsewhere := published.keys() - made - needed:
            progress.message(f"{len(elsewhere)} of {len(jobs)} runs are in {ask.publish} and not made again")
        left = []
        for job in jobs:
            if job.name in made or (job.name in published and job.name not in needed):
                take(job)
            else:
                left.append(job)
        if left:
            _make(ask, left, runner, Listener(progress.step, progress.message, end))
    return results, failures


def _jobs(grid: "Grid", runner: "Runner", engine: str, address: str, *, to_be_made: bool = True) -> "list[Job]":
    """The runs of the grid, named for the device that makes them: on a cluster, that of its workers."""
    from coteach.bench.jobs import jobs_of
    from coteach.training.device import choose_device

    if engine != "ray":
        return jobs_of(grid.runs(), choose_device(runner.device), to_be_made=to_be_made)
    from coteach.bench.cluster import jobs_on_cluster

    return jobs_on_cluster(grid, runner, address)


def _published(folder: Path | None) -> "Collection":
    """The runs of a folder that may have none yet."""
    from coteach.results.collection import Collection, read_runs

    runs = Collection([]) if folder is None else read_runs(folder, may_be_empty=True)
    say_passed_over(runs)
    return runs


def _make(ask: Ask, jobs: "list[Job]", runner: "Runner", listener: "Listener") -> None:
    """Let the engine that was asked for make the jobs."""
    from dataclasses import replace

    from coteach.bench.here import run_here
    from coteach.bench.processes import run_in_processes
    from coteach.errors import SettingError
    from coteach.training.device import allowed_cores, choose_device

    if ask.engine != "processes" and ask.workers:
        raise SettingError(f"workers goes with --engine processes, the engine is {ask.engine}: leave one out")
    match ask.engine:
        case "here":
            run_here(jobs, runner, listener)
        case "processes":
            on_gpu = choose_device(ask.device).type == "cuda"
            workers = ask.workers or (1 if on_gpu else allowed_cores())  # one run fills a GPU
            threads = ask.threads or max(allowed_cores() // max(workers, 1), 1)
            # On a CPU each has cores of its own.
            run_in_processes(jobs, replace(runner, threads=threads), listener, workers, one_device=on_gpu)
        case "ray":
            from coteach.bench.cluster import run_on_cluster

            run_on_cluster(jobs, runner, listener, ask.address)


def _status(argv: list[str]) -> int:
    """Say how far a grid is."""
    ask = tyro.cli(AskStatus, prog="coteach bench status", args=argv)

    from coteach.bench.status import State, counts, duration, seconds_left, standings
    from coteach.results.run import Runner

    jobs = _jobs(ask.read(), Runner(ask.out, ask.device), ask.engine, ask.address, to_be_made=False)
    found = standings(jobs, ask.out, _published(ask.publish))
    number, (left, unknown) = counts(found), seconds_left(found)
    if ask.json:
        runs = [{"run": each.job.name, "state": each.state, "epochs": each.epochs} for each in found]
        known = {"seconds_left": left, "not_known_for": unknown}
        json.dump({"counts": number, **known, "runs": runs}, sys.stdout, indent=2)
        print()
        return 0
    print(", ".join(f"{many} {state}" for state, many in number.items()) + f", of {len(found)} runs")
    for each in found:
        if each.state is State.RUNNING:
            print(f"running  {each.job.name}  epoch {each.epochs + 1} of {each.job.config.epochs}")
        elif each.state is State.FAILED:
            print(f"failed   {each.job.name}  {ask.out / each.job.name / 'failure.log'}")
    if number[State.DONE] < len(found):
        most = "at most " if any(each.job.config.patience for each in found if each.state is not State.DONE) else ""
        speed = " and ".join(sorted({each.device for each in found if each.device}))
        parts = [f"{most}{duration(left)}, one at a time, by the runs made on {speed}"] if left else []
        parts += [f"unknown for {data} until a run of it is done" for data in unknown]
        print("time left: " + "; ".join(parts))
    return 0
