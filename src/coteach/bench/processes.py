"""The engine that makes several runs at once, each in a process of its own on this machine."""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.sharedctypes import RawValue
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from coteach.bench.jobs import Failure, Job, Listener, Schedule, Worker
from coteach.errors import SettingError
from coteach.results.run import InterruptedRun, Progress, Runner

if TYPE_CHECKING:
    from ctypes import c_int

TRIES = 3
"""Of a job whose process dies: each goes on from the last checkpoint."""
_PAUSE = 0.2  # seconds between two steps that are told


class Ended(NamedTuple):
    """A worker's last word on a job."""

    failure: Failure | None


def run_in_processes(
    jobs: Sequence[Job], runner: Runner, listener: Listener, workers: int, *, one_device: bool = False
) -> None:
    """Make every job in one of `workers` processes; `runner` says where and how, and its threads are for each.

    `one_device` says that they share one, so that of their time there each counts its share. A process that dies is
    replaced, and its job goes on from its last checkpoint. An interruption is handed on once, so that every run is
    saved.
    """
    if not 1 <= workers <= 1024:
        raise SettingError(f"workers is {workers}: give a number from 1 to 1024")
    schedule, deaths = Schedule(jobs), Counter[str]()
    sharing = RawValue("i", 1)  # without a lock, which a process that is killed would keep
    crew = [_Hand(runner, sharing) for _ in range(min(workers, len(jobs)))]
    try:
        while schedule:
            for hand in crew:
                if hand.job is None:
                    _employ(hand, schedule, listener)
            busy: dict[Any, _Hand] = {hand.pipe: hand for hand in crew if hand.job is not None}
            if one_device:
                sharing.value = max(len(busy), 1)
            for pipe in wait(list(busy)) if busy else ():  # without any, the last jobs were hopeless
                _hear(busy[pipe], schedule, listener, deaths)
    except BaseException:
        _stop(crew)
        raise
    for hand in crew:
        hand.dismiss()


def _employ(hand: "_Hand", schedule: Schedule, listener: Listener) -> None:
    """Give a job to a hand without one, if there is one to give."""
    while (job := schedule.start()) is not None:
        failure = schedule.hopeless(job)
        if failure is None:
            hand.give(job)
            return
        schedule.end(job, failure)
        listener.on_end(job, failure)


def _hear(hand: "_Hand", schedule: Schedule, listener: Listener, deaths: Counter[str]) -> None:
    """Take in one word of a busy hand, or its death."""
    job = hand.job
    if job is None:
        return
    try:
        word = hand.pipe.recv() if hand.pipe else None
    except (EOFError, OSError):
        cause = hand.bury()
        deaths[job.name] += 1
        if deaths[job.name] < TRIES:
            listener.on_message(f"{job.name}: its process {cause}; another goes on with it")
            schedule.put_back(job)
            return
        error = f"its process {cause}, {TRIES} times over"
        word = Ended(Failure(error, error))
    match word:
        case Progress():
            listener.on_progress(word)
        case Ended(failure):
            hand.job = None
            schedule.end(job, failure)
            listener.on_end(job, failure)
        case message:
            listener.on_message(str(message))


def _stop(crew: "Sequence[_Hand]") -> None:
    """Ask every process to save its run and end; a second interruption does not wait for them."""
    processes = [hand.process for hand in crew if hand.process is not None]
    for process in processes:
        process.terminate()
    try:
        for process in processes:
            process.join()
    except BaseException:
        for process in processes:
            process.kill()
        raise


@contextlib.contextmanager
def _interruptions_ignored() -> Iterator[None]:
    """Ctrl-C passes by for a moment."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _Hand:
    """A process that makes jobs, started when it gets its first."""

    def __init__(self, runner: Runner, sharing: "c_int") -> None:
        self._runner = runner
        self._sharing = sharing
        self.process: Any = None
        self.pipe: Connection | None = None
        self.job: Job | None = None

    def give(self, job: Job) -> None:
        """Hand over a job."""
        if self.pipe is None:
            # Not forked: a fork of a process that has used torch's threads may hang.
            context = multiprocessing.get_context("spawn")
            self.pipe, theirs = context.Pipe()
            runner = self._runner
            how = runner.out, runner.device, runner.threads, runner.checkpoint_every
            self.process = context.Process(target=_work, args=(theirs, how, self._sharing), daemon=True)
            with _interruptions_ignored():  # which the process inherits, until it has a session of its own
                self.process.start()
            theirs.close()  # so that the pipe ends when the process does
        self.job = job
        with contextlib.suppress(OSError):  # it died in the meantime, which is heard next
            self.pipe.send(job)

    def bury(self) -> str:
        """Forget the dead process; returns how it ended."""
        self.process.join()
        code: int = self.process.exitcode
        self.dismiss()
        if code >= 0:
            return f"ended with code {code}"
        return f"was killed by {signal.Signals(-code).name}"

    def dismiss(self) -> None:
        """Let the process end."""
        if self.pipe is not None:
            self.pipe.close()
            self.process.join()
        self.process = self.pipe = self.job = None


def _work(pipe: Connection, how: tuple[Path, str, int, float], sharing: "c_int") -> None:
    """What a process does: make jobs until the pipe is closed. `sharing` says how many processes are on its device."""
    if hasattr(os, "setsid"):
        os.setsid()  # Ctrl-C in the terminal goes to the parent alone, which hands it on once
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    told = 0.0
    job: Job

    def tell(word: Any) -> None:
        nonlocal told
        now = time.monotonic()
        if isinstance(word, Progress) and word.record is None and not word.over and now - told < _PAUSE:
            return
        told = now
        try:
            pipe.send(word if isinstance(word, Progress) else f"{job.name}: {word}")
        except OSError:
            raise InterruptedRun("the process that gave the job is gone") from None

    worker = Worker(Runner(*how, on_progress=tell, on_message=tell, sharing=lambda: sharing.value))
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt, InterruptedRun):
        while True:
            job = pipe.recv()
            pipe.send(Ended(worker.make(job)))
