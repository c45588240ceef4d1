"""How far a grid is: read from its run folders, so that any process on any machine that sees them can tell."""

import contextlib
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from coteach.bench.jobs import Job, answered, worth_it
from coteach.errors import CoteachError
from coteach.results.collection import Collection
from coteach.results.folder import RunFolder
from coteach.results.run import device_seconds, epochs_made

_NONE = Collection([])


class State(StrEnum):
    """Where a run stands."""

    DONE = "done"
    RUNNING = "running"
    FAILED = "failed"
    MISSING = "missing"


@dataclass(frozen=True)
class Standing:
    """Where one run stands."""

    job: Job
    state: State
    epochs: int
    """How many it has finished."""
    seconds: float | None
    """How long it took, if it is done."""
    device: str | None = None
    """What it was made on, if it is done."""


def state_of(folder: RunFolder) -> State:
    """Where the run in a folder stands. One that was stopped is missing, for it waits to be gone on with."""
    if folder.done:
        return State.DONE
    if folder.running:
        return State.RUNNING
    return State.FAILED if folder.failed else State.MISSING


def standings(jobs: Sequence[Job], out: Path, published: Collection = _NONE) -> list[Standing]:
    """Where each job of a grid stands, by its folder or a published run.

    A run of another precision counts if the grid asks for none, as in tables.
    """
    others, found = _by_experiment(out), []
    answers = answered(jobs, published)
    for job in jobs:
        if job.name in answers:
            answer = answers[job.name]
            found.append(_done(job, len(answer.epochs), answer.summary))
            continue
        folder = RunFolder(out / job.name)
        if not folder.path.exists():
            same = others.get(job.config.experiment, [])
            folder = next((other for other, how in same if job.precision in ("auto", how)), folder)
        state = state_of(folder)
        if state is State.DONE:
            summary = folder.summary()
            found.append(_done(job, epochs_made(job.config, summary), summary))
        else:
            found.append(Standing(job, state, _finished_epochs(folder), None))
    kept = worth_it(jobs, {standing.job.name for standing in found if standing.state is State.DONE})
    return [standing for standing in found if standing.job in kept]


def _done(job: Job, epochs: int, summary: Mapping[str, Any]) -> Standing:
    return Standing(job, State.DONE, epochs, device_seconds(summary), str(summary["environment"].get("device")))


def _by_experiment(out: Path) -> dict[str, list[tuple[RunFolder, str]]]:
    """The run folders and their precisions by what they are an answer to, those that are done first."""
    found: dict[str, list[tuple[RunFolder, str]]] = {}
    folders = [RunFolder(file.parent) for file in sorted(out.glob("*/config.json"))]
    for folder in sorted(folders, key=lambda folder: not folder.done):
        with contextlib.suppress(CoteachError):  # it is none of this grid's
            config = folder.config()
            found.setdefault(config.experiment, []).append((folder, config.precision))
    return found


def _finished_epochs(folder: RunFolder) -> int:
    try:
        return len(folder.epochs())
    except CoteachError:
        return 0  # damaged: the run writes it anew


def counts(found: Sequence[Standing]) -> dict[State, int]:
    """How many runs are in each state."""
    number = Counter(standing.state for standing in found)
    return {state: number[state] for state in State}


def seconds_left(found: Sequence[Standing]) -> tuple[float, list[str]]:
    """The work that is left, one run at a time, and the data for which it is not known.

    A run is judged by the finished ones of its method on its data, else by those on its data.
    """
    speeds: dict[tuple[str, ...], list[float]] = {}
    for standing in found:
        if standing.seconds is not None:
            pace = standing.seconds / max(standing.epochs, 1)
            for key in _kinds(standing.job):
                speeds.setdefault(key, []).append(pace)
    total, unknown = 0.0, []
    for standing in found:
        left = standing.job.config.epochs - standing.epochs
        if standing.state is not State.DONE and left:
            known = next((speeds[key] for key in _kinds(standing.job) if key in speeds), None)
            if known is None:
                unknown.append(standing.job.config.data)
            else:
                total += left * statistics.median(known)
    return total, list(dict.fromkeys(unknown))


def _kinds(job: Job) -> list[tuple[str, ...]]:
    return [(job.config.data, job.config.method), (job.config.data,)]


def duration(seconds: float) -> str:
    """A length of time as people say it."""
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.{0 if seconds >= 10 * size else 1}f} {unit}s"
    return "a second" if seconds < 1.5 else f"{seconds:.0f} seconds"
