"""Run a config in its folder: start it, or go on where it stopped, or find it done."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import nn

from coteach.config import Config
from coteach.data import Dataset, load
from coteach.errors import CoteachError, DataError
from coteach.nets import Shape, count_parameters
from coteach.noise import Draw, load_draw
from coteach.results.checkpoint import Checkpoints
from coteach.results.environment import environment
from coteach.results.folder import RunFolder
from coteach.storage import write_over
from coteach.training.device import choose_device, set_threads
from coteach.training.loop import EpochRecord, Trainer
from coteach.training.setup import draw_labels, make_trainer


class InterruptedRun(CoteachError):  # noqa: N818 - the user asked for it
    """The run was stopped from outside and saved where it stood."""

    exit_code = 130


@dataclass(frozen=True)
class Progress:
    """Where a run stands, told after each step."""

    config: Config
    epoch: int
    step: int
    steps: int
    record: EpochRecord | None = None
    """What the epoch measured, when this step was its last."""


@dataclass(frozen=True)
class Result:
    """A finished run."""

    config: Config
    path: Path
    epochs: list[EpochRecord]
    summary: dict[str, Any]
    already_done: bool = False
    """Whether the folder held the finished run before this call."""


def read_result(path: Path) -> Result:
    """The finished run in a folder."""
    folder = RunFolder(path)
    if not folder.done:
        raise DataError(f"{path} holds no finished run: run it to its end first")
    return Result(folder.config(), path, folder.epochs(), folder.summary(), already_done=True)


def run(
    config: Config,
    out: Path | str,
    *,
    dataset: Dataset | None = None,
    labels: Draw | None = None,
    network: Callable[[Shape, int], nn.Module] | None = None,
    device: str = "auto",
    threads: int = 0,
    checkpoint_every: float = 30.0,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_message: Callable[[str], None] = lambda message: None,
) -> Result:
    """Train a config in its folder under `out` and answer the finished run.

    A run that was stopped or killed goes on from its last checkpoint and ends as if it had not been. `dataset`
    saves loading it again, `labels` are those of a config with saved labels, `network` replaces the config's
    network by a function of (shape, classes). A checkpoint is written every `checkpoint_every` seconds.
    """
    if network is not None:
        config = replace(config, network=f"{network.__module__}:{network.__qualname__}")
    folder = RunFolder(Path(out) / config.name)
    if folder.done:
        return read_result(folder.path)
    place = choose_device(device)
    with folder.claimed(), torch.random.fork_rng([place] if place.type == "cuda" else []):
        if folder.done:  # another process finished it in the meantime
            return read_result(folder.path)
        set_threads(threads)
        dataset = dataset or load(config.data)
        if config.inputs.data_sha256 not in (None, dataset.fingerprint):
            raise DataError(f"{config.data} has changed since this run was described: describe it anew")
        if labels is None and folder.labels_file.exists():
            labels = load_draw(folder.labels_file)
        draw = draw_labels(config, dataset, labels)
        trainer = make_trainer(config, dataset, draw, place, network)
        folder.start(config, draw)
        saver = _Saver(trainer, Checkpoints(folder.path), checkpoint_every)
        saver.restore(on_message, keep_threads=threads == 0)
        _train(saver, folder, on_progress)
        _save_weights(trainer, folder.weights_file)
        folder.finish(
            {
                "epochs": config.epochs,
                "seconds": round(saver.seconds, 3),
                "noise_rate": draw.rate,
                "noise_matrix": draw.realised.tolist(),
                "labels_sha256": draw.sha256,
                "data_sha256": dataset.fingerprint,
                "class_names": list(dataset.class_names),
                "train_samples": len(dataset.y_train),
                "test_samples": len(trainer.test),
                "parameters": [count_parameters(net) for net in trainer.networks],
                "environment": environment(place),
            }
        )
        saver.checkpoints.remove()
    return Result(config, folder.path, folder.epochs(), folder.summary())


class _Saver:
    """Saves a trainer's state now and then, and counts the seconds of a run over all its tries."""

    def __init__(self, trainer: Trainer, checkpoints: Checkpoints, every: float) -> None:
        self.trainer = trainer
        self.checkpoints = checkpoints
        self.every = every
        self._earlier = 0.0
        self._began = self._saved = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds spent on the run, earlier tries included."""
        return self._earlier + time.monotonic() - self._began

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
            self._earlier = state["seconds"]
            if keep_threads:
                set_threads(state["threads"])  # sums over another number of threads round differently
            on_message(f"going on in epoch {self.trainer.epoch} of {self.trainer.config.epochs}")

    def save(self) -> None:
        """Write a checkpoint."""
        self.trainer.check()  # a state with NaN in it must not replace a good one
        self.checkpoints.save(self.trainer.state() | {"seconds": self.seconds, "threads": torch.get_num_threads()})
        self._saved = time.monotonic()


def _train(saver: _Saver, folder: RunFolder, on_progress: Callable[[Progress], None]) -> None:
    """Train from where the trainer stands to the end of the run."""
    trainer, config = saver.trainer, saver.trainer.config
    folder.keep_epochs(trainer.epoch - 1)
    with _stop_requests() as stop:

        def pause() -> None:
            if stop.is_set() or saver.due:
                saver.save()
            if stop.is_set():
                raise InterruptedRun(
                    f"stopped in epoch {trainer.epoch} of {config.epochs} and saved in {folder.path}: "
                    "run the same command again to go on"
                )

        steps = trainer.steps_per_epoch
        while trainer.epoch <= config.epochs:
            for _ in trainer.run_epoch():
                on_progress(Progress(config, trainer.epoch, trainer.steps_done, steps))
                pause()
            record = trainer.finish_epoch()
            folder.append(record)
            on_progress(Progress(config, record.epoch, steps, steps, record))
            if trainer.epoch <= config.epochs:
                pause()


@contextmanager
def _stop_requests() -> Iterator[threading.Event]:
    """An event that Ctrl-C or a polite kill sets, for a step must not be torn apart. A second Ctrl-C does not wait."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def request(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    for number in before:
        signal.signal(number, request)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _save_weights(trainer: Trainer, path: Path) -> None:
    """Every network's weights under its number: 0.… and, where there are two, 1.…"""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in trainer.networks.state_dict().items()}
    write_over(path, safetensors.torch.save(tensors))
