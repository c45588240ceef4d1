"""From a config and its data to a trainer that is ready to run."""

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from coteach.batches import Batches, TestSet
from coteach.config import Config
from coteach.data import Dataset
from coteach.errors import DataError
from coteach.methods import catalogue
from coteach.nets import Shape, build, own
from coteach.noise import KINDS, Draw, corrupt
from coteach.training.loop import Trainer


def draw_labels(config: Config, dataset: Dataset, saved: Draw | None = None) -> Draw:
    """The labels that a config trains on; `saved` holds them when the config's noise is a file of labels."""
    if config.noise != "labels":
        if config.noise == "matrix":
            matrix = np.array(config.inputs.matrix)
        elif config.noise == "none":
            matrix = np.eye(dataset.classes)
        else:
            matrix = KINDS[config.noise](dataset.classes, config.rate)
        if len(matrix) != dataset.classes:
            raise DataError(f"the transition matrix is for {len(matrix)} classes, {dataset.name} has {dataset.classes}")
        return corrupt(dataset.y_train, matrix, config.noise_seed)
    if saved is None or saved.sha256 != config.inputs.labels_sha256:
        raise DataError("the saved labels of this run are not here: give their file with --noise FILE.npz")
    if not np.array_equal(saved.clean, dataset.y_train):
        raise DataError(f"the saved labels were drawn for other data than {dataset.name}: draw them again")
    return saved


def make_trainer(
    config: Config,
    dataset: Dataset,
    draw: Draw,
    device: torch.device,
    network: Callable[[Shape, int], nn.Module] | None = None,
) -> Trainer:
    """Networks, method, batches and optimisers of a run; `network` replaces the config's by a function."""
    method = catalogue.load(config.method)(dataset.classes, **config.settings)
    torch.manual_seed(config.init_seed)
    nets = [
        own(network, dataset.shape, dataset.classes)
        if network
        else build(config.network, dataset.shape, dataset.classes, config.dropout)
        for _ in range(method.networks)
    ]
    batches = Batches(
        dataset.x_train,
        draw.noisy,
        draw.clean,
        batch_size=config.batch_size,
        drop_last=config.drop_last,
        device=device,
    )
    tested = len(dataset.y_test)
    if not config.full_test:
        tested -= tested % config.batch_size
    test = TestSet(dataset.x_test[:tested], dataset.y_test[:tested], device=device)
    placed = [net.to(device, memory_format=torch.channels_last) for net in nets]  # type: ignore[call-overload]
    return Trainer(config, placed, method.to(device), batches, test)
