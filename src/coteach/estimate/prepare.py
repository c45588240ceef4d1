"""From labels of unknown quality to a run that knows their noise rate: warm up, estimate, correct, start from there."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from coteach.config import Config
from coteach.data import Dataset
from coteach.estimate.combined import Estimate, estimate
from coteach.estimate.correction import corrected
from coteach.estimate.halves import Network, Weights, sha256_of
from coteach.estimate.warm_up import WarmUp, warm_up, warm_up_config
from coteach.noise import Draw
from coteach.results.folder import RunFolder
from coteach.results.run import Progress, Result, Runner, whole
from coteach.training.arithmetic import settled
from coteach.training.device import choose_device, threads
from coteach.training.setup import threads_that_pay

MOST = 0.95
"""However many labels are wrong, some samples must be left to learn from."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """A run that is ready to start."""

    config: Config
    """With the estimated rate as tau, where the method has one, and the weights to start with by their hash."""
    estimate: Estimate
    warm_up: WarmUp
    initial: tuple[Weights, ...]
    """What the networks start with: the warm-up's weights, corrected where the method selects by loss."""


def prepare(
    config: Config,
    dataset: Dataset,
    draw: Draw,
    *,
    device: torch.device,
    out: Path | None = None,
    network: Network | None = None,
    checkpoint_every: float = 30.0,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_message: Callable[[str], None] = lambda message: None,
) -> Prepared:
    """Estimate the noise rate of the labels that a config trains on, and put it into the config.

    With `out`, the warm-up has a folder there, goes on where it stopped, and is found when it is done.
    """
    # A folder is named after the sources too; without one, a network may have been typed into a notebook.
    first = warm_up_config(settled(config, device) if out is None else whole(config, device, network), len(draw.noisy))
    folder = None if out is None else RunFolder(out / "warm-ups" / replace(first, method="warm-up").name)
    how: dict[str, Any] = {
        "device": device,
        "network": network,
        "folder": None if folder is None else folder.path,
        "checkpoint_every": checkpoint_every,
        "on_progress": on_progress,
    }
    with nullcontext() if folder is None else folder.claimed():
        warmed = warm_up(first, dataset, draw, **how)
        found = estimate(warmed.scores, draw.noisy, config.order_seed)
        on_message(said(found))
        for warning in found.warnings:
            on_message(f"not sure: {warning}")
        settings, initial = dict(config.settings), warmed.weights
        if "tau" in settings:
            settings["tau"] = round(min(found.rate, MOST), 4)
        if config.correction_epochs and "schedule" in settings and found.trusted:
            initial = corrected(first, warmed, found.suggested, dataset, epochs=config.correction_epochs, **how)
            settings["schedule"] = "constant"  # these networks know already which losses are small
    started = replace(config, settings=settings, inputs=replace(config.inputs, warm_up_sha256=sha256_of(initial)))
    return Prepared(started, found, warmed, initial)


def run_estimated(
    runner: Runner,
    config: Config,
    dataset: Dataset,
    draw: Draw,
    *,
    rate: float | None = None,
    network: Network | None = None,
) -> tuple[Result, Prepared]:
    """The finished run of a config whose noise rate is estimated first; `rate` takes the estimate's place."""
    runner.tell_notes(dataset)
    with threads(runner.threads or threads_that_pay(config, dataset, network)):
        prepared = prepare(
            config,
            dataset,
            draw,
            device=choose_device(runner.device),
            out=runner.out,
            network=network,
            checkpoint_every=runner.checkpoint_every,
            on_progress=runner.on_progress,
            on_message=runner.on_message,
        )
    started = prepared.config
    if rate is not None and "tau" in started.settings:
        started = replace(started, settings={**started.settings, "tau": rate})
    labels = draw if config.noise == "labels" else None
    result = runner.run(started, dataset=dataset, labels=labels, network=network, initial=prepared.initial)
    return result, prepared


def said(found: Estimate) -> str:
    """The estimate in one line."""
    return f"about {100 * found.rate:.1f} % of the labels are wrong ({100 * found.low:.1f} to {100 * found.high:.1f} %)"
