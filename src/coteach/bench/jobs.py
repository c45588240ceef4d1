"""A grid as jobs: each run once, first stages before the runs that need them, and what became of each."""

import contextlib
import traceback
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import torch

from coteach.config import Config, Source
from coteach.data import Dataset, load_source
from coteach.errors import CoteachError, StorageError
from coteach.noise import Draw
from coteach.recipes import stage_one_of
from coteach.results.collection import Collection
from coteach.results.folder import RunFolder
from coteach.results.run import InterruptedRun, Progress, Result, Runner, whole


@dataclass(frozen=True)
class Job:
    """One run to be made."""

    config: Config
    """As its folder names it."""
    labels: Draw | None = None
    needs: str | None = None
    """The name of the job that is its first stage."""
    precision: Literal["auto", "fp32", "tf32", "bf16"] = "auto"
    """As the grid asks for it."""
    asked: bool = True
    """Whether the grid asks for it; if not, it is there for those that need it."""

    @property
    def name(self) -> str:
        """The name of the run's folder."""
        return self.config.name


@dataclass(frozen=True)
class Failure:
    """Why a run ended without a result."""

    error: str
    """One line."""
    log: str
    """All that is known."""


def jobs_of(runs: Iterable[tuple[Config, Draw | None]], device: torch.device, *, to_be_made: bool = True) -> list[Job]:
    """The jobs of runs, those of a grid for example, on a device, each after the one that it needs.

    A precision that only a GPU has is refused on another device, unless the jobs are not `to_be_made` but looked for.
    """
    found: dict[str, Job] = {}
    for planned, labels in runs:
        elsewhere = not to_be_made and planned.precision not in ("auto", "fp32")
        where = torch.device("cuda") if elsewhere else device
        config = whole(planned, where)
        before = stage_one_of(planned)
        needs = None
        if before is not None:
            first = whole(before, where)
            needs = first.name
            found.setdefault(needs, Job(first, labels, precision=before.precision, asked=False))
        precision = planned.precision
        if precision == "auto" and config.name in found:
            precision = found[config.name].precision  # another table may ask for this one and no other
        found[config.name] = Job(config, labels, needs, precision)
    return list(found.values())


def answered(jobs: Iterable[Job], published: Collection) -> dict[str, Result]:
    """By the names of jobs, the published runs that answer them; a method or network that has changed is another."""
    found = {}
    for job in jobs:
        result = published.find(replace(job.config, precision=job.precision))
        if result is not None and result.config.inputs == job.config.inputs:
            found[job.name] = result
    return found


def worth_it(jobs: Sequence[Job], done: Container[str]) -> list[Job]:
    """The jobs without first stages that nobody needs any more, since all that need them are done."""
    needed = {job.needs for job in jobs if job.name not in done}
    return [job for job in jobs if job.asked or job.name in needed]


@dataclass(frozen=True)
class Listener:
    """What an engine tells while it works."""

    on_progress: Callable[[Progress], None] = lambda progress: None
    on_message: Callable[[str], None] = lambda message: None
    on_end: Callable[[Job, Failure | None], None] = lambda job, failure: None


class Schedule:
    """Which jobs wait, which may start, and what became of the others."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._waiting = {job.name: job for job in jobs}
        self._unfinished = dict(self._waiting)
        self._failed: set[str] = set()

    def __bool__(self) -> bool:
        """Whether anything is left to do or under way."""
        return bool(self._unfinished)

    def start(self) -> Job | None:
        """The next job whose first stage is done, now taken; None if none may start yet."""
        for job in self._waiting.values():
            if job.needs not in self._unfinished:
                return self._waiting.pop(job.name)
        return None

    def put_back(self, job: Job) -> None:
        """The job was not made after all, and waits again."""
        self._waiting[job.name] = job

    def end(self, job: Job, failure: Failure | None) -> None:
        """The job is over."""
        del self._unfinished[job.name]
        if failure is not None:
            self._failed.add(job.name)

    def hopeless(self, job: Job) -> Failure | None:
        """Why a job cannot succeed, because its first stage failed; else None."""
        if job.needs not in self._failed:
            return None
        reason = f"its first stage {job.needs} failed"
        return Failure(reason, reason)


@dataclass
class Worker:
    """Makes one job after another in this process. Keeps the last dataset, for the next job mostly has the same."""

    runner: Runner
    _loaded: tuple[Source, Dataset] | None = field(default=None, init=False)

    def make(self, job: Job, dataset: Dataset | None = None) -> Failure | None:
        """Make the run, or find it done. An interruption is raised, any other error is the answer."""
        folder = RunFolder(self.runner.out / job.name)
        try:
            dataset = dataset or self._dataset(job.config.source)
            self.runner.run(job.config, dataset=dataset, labels=job.labels, wait=True)
        except InterruptedRun:
            raise
        except CoteachError as error:
            failure = Failure(str(error), traceback.format_exc())
        except Exception as error:  # one broken run must not end a week of others
            failure = Failure(f"{type(error).__name__}: {error}", traceback.format_exc())
        else:
            return None
        with contextlib.suppress(StorageError):  # the cause of the failure may be the disk
            folder.fail(failure.log)
        return failure

    def _dataset(self, source: Source) -> Dataset:
        if self._loaded is None or self._loaded[0] != source:
            self._loaded = None  # two large datasets at once may be too much
            self._loaded = source, load_source(source)
        return self._loaded[1]
