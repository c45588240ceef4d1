"""From a config and its data to a trainer that is ready to run."""

import os
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from coteach.batches import Batches, TestSet
from coteach.config import Config
from coteach.data import Dataset
from coteach.errors import DataError, SettingError
from coteach.methods import catalogue
from coteach.methods.two_stage import TwoStageMethod
from coteach.nets import Network, build, draw_norm_scales, forward_flop, own
from coteach.noise import KINDS, Draw, corrupt
from coteach.samples import Resident, Streamed
from coteach.training.arithmetic import settled
from coteach.training.device import fits, seed_of
from coteach.training.ledger import Ledger
from coteach.training.loop import Trainer

_SMALL = 1e8
"""Multiplications and additions of a forward pass over a batch, below which threads do not pay."""


def threads_that_pay(config: Config, dataset: Dataset, network: object = None) -> int:
    """1 for a small network, else 0, which is one a core; `network` is a function that replaces the config's.

    A step of a small network is many short pieces of work, after each of which all threads wait for the slowest. Two
    of them gain a fifth on a quiet machine; when another program takes a core, they are fifty times slower than one.
    """
    if network is not None or ":" in config.network or os.environ.get("OMP_NUM_THREADS"):
        return 0
    with torch.device("meta"):  # nothing is computed
        net = build(config.network, dataset.shape, dataset.classes, config.dropout)
    return int(config.batch_size * forward_flop(net, dataset.shape) < _SMALL)


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
        raise DataError(
            "the saved labels of this run are not here: give their file with --noise FILE.npz, or run(..., labels=draw)"
        )
    if not np.array_equal(saved.clean, dataset.y_train) or len(saved.matrix) != dataset.classes:
        raise DataError(f"the saved labels were drawn for other data than {dataset.name}: draw them again")
    return saved


def held_out_rows(config: Config, samples: int) -> NDArray[np.int64]:
    """Which samples a config holds out: nothing may be trained on them."""
    mixed = np.random.default_rng([config.order_seed, 0]).permutation(samples)
    return mixed[: round(config.hold_out * samples)]


def make_trainer(
    config: Config,
    dataset: Dataset,
    draw: Draw,
    *,
    device: torch.device,
    network: Network | None = None,
    stage_one: Mapping[str, Tensor] | None = None,
    initial: Sequence[Mapping[str, Tensor]] = (),
    rows: NDArray[np.int64] | None = None,
    room: int | None = None,
) -> Trainer:
    """Networks, method, batches and optimisers of a run.

    `network` replaces the config's by a function; `stage_one` holds the weights that a two-stage method learns from,
    `initial` those that the networks start with; `rows` are the samples to train on, by default all but those to hold
    out. Data of more than `room` bytes, by default half of a GPU's free memory, are streamed to it.
    """
    place = Resident if fits(dataset.x_train.nbytes + dataset.x_test.nbytes, device, room) else Streamed
    train, test = place(dataset.x_train, device), place(dataset.x_test, device)
    method = catalogue.load(config.method)(dataset.classes, **config.settings)
    torch.manual_seed(config.init_seed)
    nets = [_build(config, dataset, network) for _ in range(method.networks)]
    if config.norm_init == "uniform" and network is None and ":" not in config.network:
        # Numbers of their own: other weights stay the same, and scales do not follow them.
        scales = torch.Generator().manual_seed(seed_of(config.init_seed, 0, 0))
        for net in nets:
            draw_norm_scales(net, scales)
    nets = [net.to(device) for net in nets]
    if len({id(p) for net in nets for p in net.parameters()}) != sum(len(list(net.parameters())) for net in nets):
        raise SettingError("the networks share parameters: the function must build a new network at each call")
    for net, weights in zip(nets, initial, strict=False):  # a method of one network needs only the first
        net.load_state_dict(dict(weights))
    if isinstance(method, TwoStageMethod) and stage_one is not None:
        teacher = nets[0] if method.continues else _build(config, dataset, network).to(device)
        teacher.load_state_dict(dict(stage_one))
        every = TestSet(train, draw.noisy, device=device)
        method.to(device).learn_from(_probabilities(teacher, every), every.y)
    elif isinstance(method, TwoStageMethod) and method.stage_one == "none":
        method.to(device).be_told(torch.tensor(draw.matrix, dtype=torch.float32, device=device))
    held = held_out_rows(config, len(draw.noisy)) if rows is None else np.empty(0, np.int64)
    if config.hold_out and rows is None and not 0 < len(held) < len(draw.noisy):
        many, mend = ("all", "lower") if len(held) else ("none", "raise")
        raise SettingError(f"hold_out {config.hold_out:g} of {len(draw.noisy)} samples is {many} of them: {mend} it")
    truth_known = config.noise != "none"  # labels as given may be wrong, nobody knows which
    batches = Batches(
        train,
        draw.noisy,
        draw.clean if truth_known else None,
        rows=np.setdiff1d(np.arange(len(draw.noisy)), held) if rows is None else rows,
        batch_size=config.batch_size,
        drop_last=config.drop_last,
        device=device,
    )
    tested = len(dataset.y_test)
    if not config.full_test and tested:
        tested -= tested % config.batch_size
        if not tested:
            raise SettingError(f"full_test no leaves none of {len(dataset.y_test)} test samples: lower batch_size")
    return Trainer(
        settled(config, device),
        [net.to(memory_format=torch.channels_last) for net in nets],  # type: ignore[call-overload]
        method.to(device),
        batches,
        test=TestSet(test, dataset.y_test, rows=np.arange(tested), device=device),
        held_out=TestSet(train, draw.noisy, rows=held, device=device) if len(held) else None,
        ledger=None if truth_known else Ledger(method.networks, len(draw.noisy)).to(device),
        class_names=dataset.class_names,
    )


def _build(config: Config, dataset: Dataset, network: Network | None) -> nn.Module:
    if network is not None:
        return own(network, dataset.shape, dataset.classes)
    return build(config.network, dataset.shape, dataset.classes, config.dropout)


@torch.no_grad()
def _probabilities(net: nn.Module, samples: TestSet) -> Tensor:
    """What a network says of every sample, in their order."""
    net.eval()
    return torch.cat([net(x).softmax(1) for x, _ in samples])
