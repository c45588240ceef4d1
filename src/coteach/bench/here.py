"""The engine that makes one run after another in this process."""

from collections.abc import Sequence

from coteach.bench.jobs import Job, Listener, Schedule, Worker
from coteach.results.run import Runner


def run_here(jobs: Sequence[Job], runner: Runner, listener: Listener) -> None:
    """Make every job; `runner` says where and how."""
    schedule, worker = Schedule(jobs), Worker(runner)
    while (job := schedule.start()) is not None:
        failure = schedule.hopeless(job) or worker.make(job)
        schedule.end(job, failure)
        listener.on_end(job, failure)
