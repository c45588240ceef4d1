"""The warm-up: two networks, each trained on one half of the samples, each scoring the half that it has not seen."""

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import log_softmax
from torch import Tensor

from coteach.batches import TestSet
from coteach.config import Config
from coteach.data import Dataset
from coteach.errors import DataError
from coteach.estimate.halves import (
    WEIGHTS,
    Half,
    Weights,
    bytes_of,
    halves_of,
    learnable,
    read_weights,
    sha256_of,
    train_halves,
)
from coteach.estimate.latent import Scores
from coteach.nets import Network
from coteach.noise import Draw
from coteach.recipes import stage_one_of
from coteach.results.checkpoint import Checkpoints
from coteach.results.run import Progress
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
        return sha256_of(self.weights)

    def save(self, folder: Path) -> None:
        """Keep it in a folder; `load` finds it there."""
        content = io.BytesIO()
        np.savez(content, log_p=self.scores.log_p, half=self.scores.half, epochs=np.array(self.epochs))
        write_over(folder / "scores.npz", content.getvalue())
        write_over(folder / WEIGHTS, bytes_of(self.weights))  # last: it means that the warm-up is done

    @classmethod
    def load(cls, folder: Path) -> "WarmUp | None":
        """The finished warm-up in a folder, if there is one."""
        if not (folder / WEIGHTS).exists():
            return None
        try:
            with np.load(folder / "scores.npz", allow_pickle=False) as file:
                scores, epochs = Scores(file["log_p"], file["half"]), tuple(file["epochs"].tolist())
            weights = read_weights(folder / WEIGHTS)
        except Exception as error:  # numpy, zipfile and safetensors each have their own for a damaged file
            raise DataError(f"{folder} is damaged ({error}): delete the folder and run again") from error
        return cls(scores, weights, epochs)


def warm_up_config(config: Config, samples: int) -> Config:
    """How the networks of a run are warmed up: plain training on a half, at the full learning rate."""
    held = (stage_one_of(config) or config).hold_out  # what the run holds out must be new to its networks
    return replace(
        config,
        method="standard",
        settings={},
        epochs=EPOCHS,
        decay_from=EPOCHS,
        idle_epochs=0,
        hold_out=held,
        patience=0,
        correction_epochs=0,
        guard="off",
        drop_last=True,
        batch_size=max(2, min(config.batch_size, samples // 2)),
    )


class _Warming(Half):
    """A half whose network scores the other half after each epoch, and stops when it no longer gets better at it."""

    def __init__(self, trainer: Trainer, unseen: TestSet, labels: Tensor) -> None:
        super().__init__(trainer)
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
        super().finish_epoch()
        log_p = self.trainer.log_probabilities(self._unseen)[0].cpu()
        self.losses.append(-float(log_p.gather(1, self._labels[:, None]).mean()))
        if self.losses[-1] == min(self.losses):
            self._weights = super().weights
        self._best.append((len(self.losses) - 1, log_p))
        self._best = sorted(self._best, key=lambda each: self.losses[each[0]])[:BEST]

    @property
    def weights(self) -> Weights:
        """Of its best epoch; before the end of the first, as they are."""
        return self._weights or super().weights

    def result(self) -> dict[str, Any]:
        """What it came to."""
        mean = torch.stack([log_p for _, log_p in self._best]).mean(0)
        return super().result() | {"log_p": mean, "epochs": len(self.losses)}

    def state(self) -> dict[str, Any]:
        """All that its rest depends on."""
        return super().state() | {"losses": self.losses, "best": self._best, "weights": self._weights}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
        super().load_state(state)
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
    on_message: Callable[[str], None] = lambda message: None,
) -> WarmUp:
    """Train a new network on each half of the samples and score the other half with it.

    With a folder it is saved there now and then, goes on from there, and is found there when it is done.
    """
    found = None if folder is None else WarmUp.load(folder)
    if folder is not None and found is not None:
        Checkpoints(folder).remove()  # a kill may have left them
        return found
    y = draw.noisy
    if len(y) < 4:
        raise DataError(
            f"{dataset.name} has {len(y)} samples to learn from, too few to judge their labels: give at least 4"
        )
    half = halves_of(y, config.order_seed)
    untested = replace(dataset, x_test=dataset.x_test[:0], y_test=dataset.y_test[:0])

    def begin(h: int) -> Half:
        mine, seen = learnable(config, np.flatnonzero(half == h), len(y))
        mine, unseen = replace(mine, init_seed=config.init_seed + h), np.flatnonzero(half != h)
        trainer = make_trainer(mine, untested, draw, device=device, network=network, rows=seen)
        judged = TestSet(trainer.batches.samples, y, rows=unseen, device=device)
        return _Warming(trainer, judged, torch.from_numpy(y[unseen]))

    with switches(config, device), kept_random_state(device):
        done = train_halves(
            begin,
            "warm-up",
            folder=folder,
            checkpoint_every=checkpoint_every,
            on_progress=on_progress,
            on_message=on_message,
        )
    log_p = np.empty((len(y), dataset.classes))
    for h, part in enumerate(done):
        log_p[half != h] = log_softmax(part["log_p"].numpy(), 1)
    result = WarmUp(
        Scores(log_p, 1 - half),
        tuple(part["weights"] for part in done),
        tuple(part["epochs"] for part in done),
    )
    if folder is not None:
        result.save(folder)
        Checkpoints(folder).remove()
    return result
