"""The correction: after the warm-up, its networks learn the labels that the estimate suggests."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from coteach.config import Config
from coteach.data import Dataset
from coteach.errors import DataError
from coteach.estimate.estimators import Ints
from coteach.estimate.halves import WEIGHTS, Half, Network, Weights, bytes_of, read_weights, train_halves
from coteach.estimate.warm_up import WarmUp
from coteach.noise import Draw
from coteach.results.checkpoint import Checkpoints
from coteach.results.run import Progress
from coteach.storage import write_over
from coteach.training.arithmetic import switches
from coteach.training.device import kept_random_state
from coteach.training.setup import make_trainer


def corrected(
    config: Config,
    warmed: WarmUp,
    suggested: Ints,
    dataset: Dataset,
    *,
    epochs: int,
    device: torch.device,
    network: Network | None = None,
    folder: Path | None = None,
    checkpoint_every: float = 30.0,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> tuple[Weights, ...]:
    """The weights of the warm-up's networks after some epochs with the suggested labels; `config` is the warm-up's.

    Each learns on the half that it was warmed up on. So the two stay as different as they were, which is what
    co-teaching lives on, and a network never learns a suggestion that it made itself.
    """
    if folder is not None:
        content = hashlib.sha256(suggested.astype("<i8").tobytes()).hexdigest()
        folder /= f"corrected-{epochs}-{content[:8]}"
        if (folder / WEIGHTS).exists():
            return _found(folder)
    config = replace(config, epochs=epochs, decay_from=epochs)
    untested = replace(dataset, x_test=dataset.x_test[:0], y_test=dataset.y_test[:0])
    labels = Draw(suggested, suggested, np.eye(dataset.classes), 0)

    def begin(h: int) -> Half:
        seen = np.flatnonzero(warmed.scores.half != h)
        initial = [warmed.weights[h]]
        return Half(make_trainer(config, untested, labels, device=device, network=network, rows=seen, initial=initial))

    with switches(config, device), kept_random_state(device):
        done = train_halves(
            begin, "correction", folder=folder, checkpoint_every=checkpoint_every, on_progress=on_progress
        )
    weights = tuple(part["weights"] for part in done)
    if folder is not None:
        write_over(folder / WEIGHTS, bytes_of(weights))
        Checkpoints(folder).remove()
    return weights


def _found(folder: Path) -> tuple[Weights, ...]:
    try:
        return read_weights(folder / WEIGHTS)
    except Exception as error:  # safetensors has its own for a damaged file
        raise DataError(f"{folder} is damaged ({error}): delete the folder and run again") from error
