"""The correction: after the warm-up, its networks learn the labels that the estimate suggests."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from coteach.config import Config
from coteach.data import Dataset
from coteach.errors import DataError
from coteach.estimate.estimators import Ints
from coteach.estimate.halves import WEIGHTS, Half, Weights, bytes_of, learnable, read_weights, train_halves
from coteach.estimate.warm_up import WarmUp
from coteach.nets import Network
from coteach.noise import Draw
from coteach.results.checkpoint import Checkpoints
from coteach.results.run import Progress
from coteach.storage import storage_errors, write_over
from coteach.training.arithmetic import switches
from coteach.training.device import kept_random_state
from coteach.training.setup import make_trainer

T = TypeVar("T")


def corrected(
    config: Config,
    warmed: WarmUp,
    suggested: Ints,
    dataset: Dataset,
    *,
    networks: int,
    device: torch.device,
    network: Network | None = None,
    folder: Path | None = None,
    checkpoint_every: float = 30.0,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_message: Callable[[str], None] = lambda message: None,
) -> tuple[Weights, ...]:
    """The weights of the warm-up's first `networks` after some epochs on the suggested labels.

    `config` is the warm-up's, and `correction_epochs` in it says how many.

    Each learns on the half that it was warmed up on. So the two stay as different as they were, which is what
    co-teaching lives on, and a network never learns a suggestion that it made itself.
    """
    epochs = config.correction_epochs
    if folder is not None:
        folder /= f"corrected-{epochs}-{networks}"
        if (folder / WEIGHTS).exists():
            Checkpoints(folder).remove()  # a kill may have left them
            return _read(folder / WEIGHTS, read_weights)
        suggested = _kept(folder / "suggested.npy", suggested)
    config = replace(config, epochs=epochs, decay_from=epochs)
    untested = replace(dataset, x_test=dataset.x_test[:0], y_test=dataset.y_test[:0])
    labels = Draw(suggested, suggested, np.eye(dataset.classes), 0)

    def begin(h: int) -> Half:
        mine, seen = learnable(config, np.flatnonzero(warmed.scores.half != h), len(suggested))
        initial = [warmed.weights[h]]
        return Half(make_trainer(mine, untested, labels, device=device, network=network, rows=seen, initial=initial))

    with switches(config, device), kept_random_state(device):
        done = train_halves(
            begin,
            "correction",
            count=networks,
            folder=folder,
            checkpoint_every=checkpoint_every,
            on_progress=on_progress,
            on_message=on_message,
        )
    weights = tuple(part["weights"] for part in done)
    if folder is not None:
        write_over(folder / WEIGHTS, bytes_of(weights))
        Checkpoints(folder).remove()
    return weights


def _kept(path: Path, suggested: Ints) -> Ints:
    """The labels as a file keeps them: another machine may round a doubtful one to another class, and go on with it."""
    if path.exists():
        return _read(path, lambda file: np.load(file, allow_pickle=False))
    content = io.BytesIO()
    np.save(content, suggested)
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_over(path, content.getvalue())
    return suggested


def _read(path: Path, how: Callable[[Path], T]) -> T:
    try:
        return how(path)
    except Exception as error:  # numpy and safetensors each have their own for a damaged file
        raise DataError(f"{path} is damaged ({error}): delete the folder and run again") from error
