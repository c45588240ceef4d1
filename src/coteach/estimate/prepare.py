"""From labels of unknown quality to a run that knows their noise rate: warm up, estimate, and start from there."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from coteach.config import Config
from coteach.data import Dataset
from coteach.estimate.combined import Estimate, estimate
from coteach.estimate.warm_up import Network, WarmUp, warm_up, warm_up_config
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
    """With the estimated rate as tau, where the method has one, and the warm-up's weights by their hash."""
    estimate: Estimate
    warm_up: WarmUp


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

    def train(folder: Path | None) -> WarmUp:
        return warm_up(
            first,
            dataset,
            draw,
            device=device,
            network=network,
            folder=folder,
            checkpoint_every=checkpoint_every,
            on_progress=on_progress,
        )

    if out is None:
        warmed = train(None)
    else:
        folder = RunFolder(out / "warm-ups" / replace(first, method="warm-up").name)
        with folder.claimed():
            warmed = train(folder.path)
    found = estimate(warmed.scores, draw.noisy, config.order_seed)
    on_message(said(found))
    for warning in found.warnings:
        on_message(f"not sure: {warning}")
    settings = dict(config.settings)
    if "tau" in settings:
        settings["tau"] = round(min(found.rate, MOST), 4)
    started = replace(config, settings=settings, inputs=replace(config.inputs, warm_up_sha256=warmed.sha256))
    return Prepared(started, found, warmed)


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
    result = runner.run(started, dataset=dataset, labels=labels, network=network, initial=prepared.warm_up.weights)
    return result, prepared


def said(found: Estimate) -> str:
    """The estimate in one line."""
    return f"about {100 * found.rate:.1f} % of the labels are wrong ({100 * found.low:.1f} to {100 * found.high:.1f} %)"
