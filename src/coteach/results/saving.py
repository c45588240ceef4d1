"""Saving a run while it trains, and hearing a request to stop."""

import dataclasses
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from coteach.results.checkpoint import Checkpoints
from coteach.results.folder import record_from
from coteach.training.device import set_threads
from coteach.training.loop import EpochRecord, Trainer


class Saver:
    """Saves a trainer's state now and then, and counts the seconds of a run over all its tries."""

    def __init__(
        self, trainer: Trainer, checkpoints: Checkpoints, every: float, sharing: Callable[[], int] = lambda: 1
    ) -> None:
        self.trainer = trainer
        self.checkpoints = checkpoints
        self.every = every
        self.sharing = sharing
        self.epochs: list[EpochRecord] = []
        """The epochs that the trainer has finished."""
        self.seconds = 0.0
        """Seconds spent on the run up to the last `count`, earlier tries included."""
        self.device_seconds = 0.0
        """The same in seconds of a device: of the time that several runs spend on it side by side, its share."""
        self._counted = self._saved = time.monotonic()

    def count(self) -> None:
        """Count the time since the last call."""
        now = time.monotonic()
        self.seconds += now - self._counted
        self.device_seconds += (now - self._counted) / self.sharing()
        self._counted = now

    @property
    def due(self) -> bool:
        """Whether the last checkpoint is old."""
        return time.monotonic() - self._saved >= self.every

    def restore(self, on_message: Callable[[str], None], *, keep_threads: bool) -> None:
        """Go on from the newest whole checkpoint, if there is one."""
        state, warnings = self.checkpoints.load()
        for warning in warnings:
            on_message(warning)
        if state is not None:
            self.trainer.load_state(state)
            self.epochs = [record_from(values) for values in state["epochs"]]
            self.seconds = state["seconds"]
            self.device_seconds = state.get("device_seconds", self.seconds)  # older checkpoints have none
            if keep_threads:
                set_threads(state["threads"])  # sums over another number of threads round differently
            on_message(f"going on in epoch {self.trainer.epoch} of {self.trainer.config.epochs}")

    def save(self) -> None:
        """Write a checkpoint."""
        self.trainer.check()  # a state with NaN in it must not replace a good one
        self.count()
        more = {
            "seconds": self.seconds,
            "device_seconds": self.device_seconds,
            "threads": torch.get_num_threads(),
            "epochs": [dataclasses.asdict(record) for record in self.epochs],
        }
        self.checkpoints.save(self.trainer.state() | more)
        self._saved = time.monotonic()


class Stop:
    """Whether somebody asked to stop. Unlike a threading.Event it has no lock, on which a signal that comes while
    another is being heard would wait forever.
    """

    def __init__(self) -> None:
        self._asked = False

    def set(self) -> None:
        """Ask to stop."""
        self._asked = True

    def is_set(self) -> bool:
        """Whether to stop."""
        return self._asked


class _Handler:
    """Hears a signal: the first asks to stop, for a step must not be torn apart; a second does not wait."""

    def __init__(self) -> None:
        self.stop = Stop()

    def __call__(self, number: int, frame: object) -> None:
        if self.stop.is_set():
            raise KeyboardInterrupt
        self.stop.set()


@contextmanager
def stop_requests(*signals: int) -> Iterator[Stop]:
    """What one of the signals sets, by default Ctrl-C and a polite kill. Inside another, the same one."""
    if threading.current_thread() is not threading.main_thread():
        yield Stop()
        return
    outer = signal.getsignal(signal.SIGINT)
    if isinstance(outer, _Handler):
        yield outer.stop
        return
    handler = _Handler()
    before = {number: signal.getsignal(number) for number in signals or (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, handler)
    try:
        yield handler.stop
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
