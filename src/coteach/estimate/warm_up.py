"""The warm-up: two networks, each trained on one half of the samples, each scoring the half that it has not seen."""

import hashlib
import io
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from scipy.special import log_softmax
from torch import Tensor, nn

from coteach.batches import TestSet
from coteach.config import Config
from coteach.data import Dataset
from coteach.errors import DataError
from coteach.estimate.estimators import Ints
from coteach.estimate.latent import Scores
from coteach.nets import Shape
from coteach.noise import Draw
from coteach.results.checkpoint import Checkpoints
from coteach.results.run import InterruptedRun, Progress
from coteach.results.saving import stop_requests
from coteach.storage import write_over
from coteach.training.arithmetic import switches
from coteach.training.device import kept_random_state
from coteach.training.loop import Trainer
from coteach.training.setup import make_trainer

EPOCHS = 30
"""At most this many epochs."""
PATIENCE = 3
"""A network stops when its loss on the half it has not seen, by the labels as given, has not improved for so long:
before it learns wrong labels by heart."""
BEST = 3
"""A score is the mean of the log probabilities at this many epochs, those of the lowest such loss."""

Network = Callable[[Shape, int], nn.Module]
Weights = dict[str, Tensor]


class InterruptedWarmUp(InterruptedRun):
    """Stopped from outside before the networks were warm."""

    weights: tuple[Weights, ...] = ()
    """Of each half's network, as far as it came; only the first half's if the other's has not finished an epoch."""


@dataclass(frozen=True, eq=False)
class WarmUp:
    """What the warm-up learned."""

    scores: Scores
    weights: tuple[Weights, ...]
    """Of each half's network, at its best epoch."""
    epochs: tuple[int, ...]
    """Epochs that each trained for."""

    @property
    def sha256(self) -> str:
        """Of the weights."""
        return hashlib.sha256(self._tensors()).hexdigest()

    def _tensors(self) -> bytes:
        return safetensors.torch.save(
            {f"{h}.{name}": value.contiguous() for h, each in enumerate(self.weights) for name, value in each.items()}
        )

    def save(self, folder: Path) -> None:
        """Keep it in a folder; `load` finds it there."""
        content = io.BytesIO()
        np.savez(content, log_p=self.scores.log_p, half=self.scores.half, epochs=np.array(self.epochs))
        write_over(folder / "scores.npz", content.getvalue())
        write_over(folder / "weights.safetensors", self._tensors())  # last: it means that the warm-up is done

    @classmethod
    def load(cls, folder: Path) -> "WarmUp | None":
        """The finished warm-up in a folder, if there is one."""
        if not (folder / "weights.safetensors").exists():
            return None
        try:
            with np.load(folder / "scores.npz", allow_pickle=False) as file:
                scores, epochs = Scores(file["log_p"], file["half"]), tuple(file["epochs"].tolist())
            weights: tuple[Weights, ...] = ({}, {})
            for name, value in safetensors.torch.load_file(folder / "weights.safetensors").items():
                half, _, rest = name.partition(".")
                weights[int(half)][rest] = value
        except Exception as error:  # numpy, zipfile and safetensors each have their own for a damaged file
            raise DataError(f"{folder} is damaged ({error}): delete the folder and run again") from error
        return cls(scores, weights, epochs)


def warm_up_config(config: Config, samples: int) -> Config:
    """How the networks of a run are warmed up: plain training on a half, at the full learning rate."""
    return replace(
        config,
        method="standard",
        settings={},
        epochs=EPOCHS,
        decay_from=EPOCHS,
        idle_epochs=0,
        hold_out=0.5,
        guard="off",
        drop_last=True,
        batch_size=max(2, min(config.batch_size, samples // 2)),
    )


def halves_of(y: Ints, seed: int) -> Ints:
    """0 or 1 for each sample, at random, with each label in both halves."""
    mixed = np.random.default_rng([seed, 2]).permutation(len(y))
    half = np.empty(len(y), np.int64)
    half[mixed[np.argsort(y[mixed], kind="stable")]] = np.arange(len(y)) % 2
    return half


class _Half:
    """The network of one half while it trains."""

    def __init__(self, trainer: Trainer, unseen: TestSet, labels: Tensor) -> None:
        self.trainer = trainer
        self.losses: list[float] = []
        """On the other half, one an epoch."""
        self._unseen, self._labels = unseen, labels
        self._best: list[tuple[int, Tensor]] = []
        self._weights: Weights = {}

    @property
    def over(self) -> bool:
        """Whether it has trained for long enough."""
        return len(self.losses) >= EPOCHS or (
            len(self.losses) > 0 and len(self.losses) - int(np.argmin(self.losses)) > PATIENCE
        )

    def finish_epoch(self) -> None:
        """Score the other half, and keep the scores if they are among the best."""
        self.trainer.finish_epoch()
        log_p = self.trainer.log_probabilities(self._unseen)[0].cpu()
        self.losses.append(-float(log_p.gather(1, self._labels[:, None]).mean()))
        if self.losses[-1] == min(self.losses):
            self._weights = self._copy()
        self._best.append((len(self.losses) - 1, log_p))
        self._best = sorted(self._best, key=lambda each: self.losses[each[0]])[:BEST]

    @property
    def weights(self) -> Weights:
        """Of its best epoch; before the end of the first, as they are."""
        return self._weights or self._copy()

    def _copy(self) -> Weights:
        net = self.trainer.networks[0]
        return {name: value.detach().cpu().clone() for name, value in net.state_dict().items()}

    def result(self) -> dict[str, Any]:
        """What it came to."""
        mean = torch.stack([log_p for _, log_p in self._best]).mean(0)
        return {"log_p": mean, "weights": self._weights, "epochs": len(self.losses)}

    def state(self) -> dict[str, Any]:
        """All that its rest depends on."""
        return {"trainer": self.trainer.state(), "losses": self.losses, "best": self._best, "weights": self._weights}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
        self.trainer.load_state(state["trainer"])
        self.losses, self._best, self._weights = state["losses"], state["best"], state["weights"]


def warm_up(
    config: Config,
    dataset: Dataset,
    draw: Draw,
    *,
    device: torch.device,
    network: Network | None = None,
    folder: Path | None = None,
    checkpoint_every: float = 30.0,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> WarmUp:
    """Train a new network on each half of the samples and score the other half with it.

    With a folder it is saved there now and then, goes on from there, and is found there when it is done.
    """
    found = None if folder is None else WarmUp.load(folder)
    if found is not None:
        return found
    y = draw.noisy
    if len(y) < 4:
        raise DataError(f"{dataset.name} has {len(y)} samples, too few to judge their labels: give at least 4")
    half = halves_of(y, config.order_seed)
    untested = replace(dataset, x_test=dataset.x_test[:0], y_test=dataset.y_test[:0])
    saved = _Saved(folder, checkpoint_every)
    with stop_requests() as stop, switches(config, device), kept_random_state(device):
        for h in range(len(saved.done), 2):
            mine = replace(config, init_seed=config.init_seed + h)
            seen, unseen = np.flatnonzero(half == h), np.flatnonzero(half != h)
            trainer = make_trainer(mine, untested, draw, device=device, network=network, rows=seen)
            judged = TestSet(trainer.batches.samples, y, rows=unseen, device=device)
            now = _Half(trainer, judged, torch.from_numpy(y[unseen]))
            saved.restore(now)
            shown = replace(mine, method=f"warm-up {h + 1} of 2")
            while not now.over:
                for _ in trainer.run_epoch():
                    on_progress(Progress(shown, trainer.epoch, trainer.steps_done, trainer.steps_per_epoch))
                    if folder is not None and (stop.is_set() or saved.due):
                        saved.save(now)
                    if stop.is_set():
                        stopped = InterruptedWarmUp(
                            f"stopped in the warm-up{saved.where}: run the same command again to go on"
                        )
                        done = tuple(part["weights"] for part in saved.done)
                        stopped.weights = (*done, now.weights) if now.losses or not done else done
                        raise stopped
                now.finish_epoch()
            on_progress(Progress(shown, trainer.epoch, 0, trainer.steps_per_epoch, over=True))
            saved.done.append(now.result())
    log_p = np.empty((len(y), dataset.classes))
    for h, part in enumerate(saved.done):
        log_p[half != h] = log_softmax(part["log_p"].numpy(), 1)
    result = WarmUp(
        Scores(log_p, 1 - half),
        tuple(part["weights"] for part in saved.done),
        tuple(part["epochs"] for part in saved.done),
    )
    if folder is not None:
        result.save(folder)
        Checkpoints(folder).remove()
    return result


class _Saved:
    """A warm-up on the disk while it is under way, or nowhere without a folder."""

    def __init__(self, folder: Path | None, every: float) -> None:
        self._checkpoints = None if folder is None else Checkpoints(folder)
        self._state: dict[str, Any] = (self._checkpoints and self._checkpoints.load()[0]) or {"done": [], "half": {}}
        self._every, self._last = every, time.monotonic()
        self.where = "" if folder is None else f" and saved in {folder}"
        self.done: list[dict[str, Any]] = self._state["done"]
        """The finished halves."""

    @property
    def due(self) -> bool:
        """Whether the last checkpoint is old."""
        return time.monotonic() - self._last >= self._every

    def restore(self, now: _Half) -> None:
        """Go on with a half that was under way."""
        if self._state["half"]:
            now.load_state(self._state["half"])
            self._state["half"] = {}

    def save(self, now: _Half) -> None:
        """Write a checkpoint."""
        now.trainer.check()  # a state with NaN in it must not replace a good one
        if self._checkpoints is not None:
            self._checkpoints.save({"done": self.done, "half": now.state()})
        self._last = time.monotonic()
