"""How far a grid is: read from its run folders, so that any process on any machine that sees them can tell."""

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from coteach.bench.jobs import Job
from coteach.results.folder import RunFolder


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


def state_of(folder: RunFolder) -> State:
    """Where the run in a folder stands. One that was stopped is missing, for it waits to be gone on with."""
    if folder.done:
        return State.DONE
    if folder.running:
        return State.RUNNING
    return State.FAILED if folder.failed else State.MISSING


def standings(jobs: Sequence[Job], out: Path) -> list[Standing]:
    """Where each job of a grid stands."""
    found = []
    for job in jobs:
        folder = RunFolder(out / job.name)
        state = state_of(folder)
        if state is State.DONE:
            found.append(Standing(job, state, job.config.epochs, float(folder.summary()["seconds"])))
        else:
            found.append(Standing(job, state, len(folder.epochs()), None))
    return found


def counts(found: Sequence[Standing]) -> dict[State, int]:
    """How many runs are in each state."""
    number = Counter(standing.state for standing in found)
    return {state: number[state] for state in State}


def seconds_left(found: Sequence[Standing]) -> float | None:
    """The work that is left, one run at a time, judged by the runs that are done; None if none can judge it.

    A run is judged by those of its method on its data, else by those on its data.
    """
    speeds: dict[tuple[str, ...], list[float]] = {}
    for standing in found:
        if standing.seconds is not None:
            pace = standing.seconds / standing.job.config.epochs
            for key in _kinds(standing.job):
                speeds.setdefault(key, []).append(pace)
    total = 0.0
    for standing in found:
        left = standing.job.config.epochs - standing.epochs
        if standing.state is not State.DONE and left:
            known = next((speeds[key] for key in _kinds(standing.job) if key in speeds), None)
            if known is None:
                return None
            total += left * statistics.median(known)
    return total


def _kinds(job: Job) -> list[tuple[str, ...]]:
    return [(job.config.data, job.config.method), (job.config.data,)]


def duration(seconds: float) -> str:
    """A length of time as people say it."""
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.{0 if seconds >= 10 * size else 1}f} {unit}s"
    return f"{seconds:.0f} seconds"
