"""Two networks, each trained on one half of the samples: interrupted, saved and continued like any training."""

import hashlib
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
from torch import Tensor

from coteach.config import Config
from coteach.errors import DataError
from coteach.estimate.estimators import Ints
from coteach.results.checkpoint import Checkpoints
from coteach.results.run import InterruptedRun, Progress
from coteach.results.saving import stop_requests
from coteach.training.loop import Trainer
from coteach.training.setup import held_out_rows

Weights = dict[str, Tensor]
WEIGHTS = "weights.safetensors"


class InterruptedWarmUp(InterruptedRun):
    """Stopped from outside before the networks were ready to start."""

    weights: tuple[Weights, ...] = ()
    """Of each half's network, as far as it came; only the first half's if the other's has not finished an epoch."""


def halves_of(y: Ints, seed: int) -> Ints:
    """0 or 1 for each sample, at random, with each label in both halves."""
    mixed = np.random.default_rng([seed, 2]).permutation(len(y))
    half = np.empty(len(y), np.int64)
    half[mixed[np.argsort(y[mixed], kind="stable")]] = np.arange(len(y)) % 2
    return half


def learnable(config: Config, rows: Ints, samples: int) -> tuple[Config, Ints]:
    """Those of a half's rows that the run does not hold out, and the config with batches that they can fill."""
    seen = np.setdiff1d(rows, held_out_rows(config, samples))
    if len(seen) < 2:
        raise DataError(f"hold_out {config.hold_out:g} of {samples} samples leaves too few to judge labels: lower it")
    return replace(config, batch_size=min(config.batch_size, len(seen))), seen


def bytes_of(weights: tuple[Weights, ...]) -> bytes:
    """The weights of each half's network as one safetensors file."""
    return safetensors.torch.save(
        {f"{h}.{name}": value.contiguous() for h, each in enumerate(weights) for name, value in each.items()}
    )


def read_weights(path: Path) -> tuple[Weights, ...]:
    """The weights in a file of `bytes_of`."""
    weights: dict[int, Weights] = {}
    for name, value in safetensors.torch.load_file(path).items():
        half, _, rest = name.partition(".")
        weights.setdefault(int(half), {})[rest] = value
    return tuple(weights[half] for half in sorted(weights))


def sha256_of(weights: tuple[Weights, ...]) -> str:
    """The hash by which a config knows the weights that its networks start with."""
    return hashlib.sha256(bytes_of(weights)).hexdigest()


class Half:
    """The network of one half while it trains, for as many epochs as its trainer's config says."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer

    @property
    def over(self) -> bool:
        """Whether it has trained for long enough."""
        return self.trainer.epoch > self.trainer.config.epochs

    @property
    def begun(self) -> bool:
        """Whether it is worth more than the weights it started with."""
        return self.trainer.epoch > 1

    def finish_epoch(self) -> None:
        """After the last step of an epoch."""
        self.trainer.finish_epoch()

    @property
    def weights(self) -> Weights:
        """As they are."""
        net = self.trainer.networks[0]
        return {name: value.detach().cpu().clone() for name, value in net.state_dict().items()}

    def result(self) -> dict[str, Any]:
        """What it came to: its weights, and what else there is to say."""
        return {"weights": self.weights}

    def state(self) -> dict[str, Any]:
        """All that its rest depends on."""
        return {"trainer": self.trainer.state()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
        self.trainer.load_state(state["trainer"])


def train_halves(
    begin: Callable[[int], Half],
    title: str,
    *,
    count: int = 2,
    folder: Path | None,
    checkpoint_every: float,
    on_progress: Callable[[Progress], None],
    on_message: Callable[[str], None],
) -> list[dict[str, Any]]:
    """What each half came to, or the first of them; `begin` starts one, `title` is what the progress calls it.

    With a folder it is saved there now and then and goes on from there; the checkpoints are the caller's to remove.
    """
    saved = _Saved(folder, checkpoint_every, on_message)
    with stop_requests() as stop:
        for h in range(len(saved.done), count):
            now = begin(h)
            saved.restore(now)
            trainer = now.trainer
            shown = replace(trainer.config, method=f"{title} {h + 1} of {count}")
            while not now.over:
                for _ in trainer.run_epoch():
                    on_progress(Progress(shown, trainer.epoch, trainer.steps_done, trainer.steps_per_epoch))
                    if folder is not None and (stop.is_set() or saved.due):
                        saved.save(now)
                    if stop.is_set():
                        raise _stopped(title, saved, now)
                now.finish_epoch()
            on_progress(Progress(shown, trainer.epoch, 0, trainer.steps_per_epoch, over=True))
            saved.done.append(now.result())
        if stop.is_set():  # asked for while the last half was ending
            saved.save()
            raise _stopped(title, saved)
    return saved.done


def _stopped(title: str, saved: "_Saved", now: Half | None = None) -> InterruptedWarmUp:
    error = InterruptedWarmUp(f"stopped in the {title}{saved.where}: run the same command again to go on")
    error.weights = tuple(part["weights"] for part in saved.done)
    if now is not None and (now.begun or not error.weights):
        error.weights += (now.weights,)
    return error


class _Saved:
    """The halves on the disk while they are under way, or nowhere without a folder."""

    def __init__(self, folder: Path | None, every: float, on_message: Callable[[str], None]) -> None:
        self._checkpoints = None if folder is None else Checkpoints(folder)
        state, warnings = (None, []) if self._checkpoints is None else self._checkpoints.load()
        for warning in warnings:
            on_message(warning)
        self._state: dict[str, Any] = state or {"done": [], "half": {}}
        self._every, self._last = every, time.monotonic()
        self.where = "" if folder is None else f" and saved in {folder}"
        self.done: list[dict[str, Any]] = self._state["done"]
        """The finished halves."""

    @property
    def due(self) -> bool:
        """Whether the last checkpoint is old."""
        return time.monotonic() - self._last >= self._every

    def restore(self, now: Half) -> None:
        """Go on with a half that was under way."""
        if self._state["half"]:
            now.load_state(self._state["half"])
            self._state["half"] = {}

    def save(self, now: Half | None = None) -> None:
        """Write a checkpoint, with the half that is under way."""
        if now is not None:
            now.trainer.check()  # a state with NaN in it must not replace a good one
        if self._checkpoints is not None:
            self._checkpoints.save({"done": self.done, "half": {} if now is None else now.state()})
        self._last = time.monotonic()
