"""From labels of unknown quality to a run that knows their noise rate: warm up, estimate, correct, start from there."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from coteach.config import Config
from coteach.data import Dataset
from coteach.estimate.combined import Estimate, estimate
from coteach.estimate.correction import corrected
from coteach.estimate.halves import InterruptedWarmUp, Weights, sha256_of
from coteach.estimate.warm_up import WarmUp, warm_up, warm_up_config
from coteach.methods import catalogue
from coteach.nets import Network
from coteach.noise import Draw
from coteach.results.folder import RunFolder
from coteach.results.run import Progress, Result, Runner, whole
from coteach.training.arithmetic import settled
from coteach.training.device import choose_device, threads
from coteach.training.setup import threads_that_pay

MOST = 0.95
"""However many labels are wrong, some samples must be left to learn from."""
_LONG = 500_000
"""Probabilities, with which an estimate takes seconds."""
LEFT = 0.2
"""Of as many labels as a class is given, this share at least must be suggested: else the estimate has lost it."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """A run that is ready to start."""

    config: Config
    """With the estimated rate as tau, where the method has one, and the weights to start with by their hash. With a
    correction, R(T) is constant; without one, `correction_epochs` is 0."""
    estimate: Estimate
    warm_up: WarmUp
    initial: tuple[Weights, ...]
    """What the networks start with: the warm-up's weights, corrected where the config asks for it."""


class InterruptedCorrection(InterruptedWarmUp):
    """Stopped from outside after the estimate."""

    def __init__(self, line: str, prepared: Prepared) -> None:
        super().__init__(line)
        self.prepared = prepared
        """As far as it came."""


def prepare(
    config: Config,
    dataset: Dataset,
    draw: Draw,
    *,
    device: torch.device,
    rate: float | None = None,
    out: Path | None = None,
    network: Network | None = None,
    checkpoint_every: float = 30.0,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_message: Callable[[str], None] = lambda message: None,
) -> Prepared:
    """Estimate the noise rate of the labels that a config trains on, and put it into the config.

    `rate` takes the estimate's place there, if it is known. With `out`, the warm-up has a folder there, goes on where
    it stopped, and is found when it is done.
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
        "on_message": on_message,
    }
    with nullcontext() if folder is None else folder.claimed(on_wait=on_message):
        warmed = warm_up(first, dataset, draw, **how)
    if warmed.scores.log_p.size > _LONG:
        on_message("estimating how many labels are wrong")
    found = estimate(warmed.scores, draw.noisy, config.order_seed)
    on_message(said(found))
    for warning in found.warnings:
        on_message(f"not sure: {warning}")
    settings = dict(config.settings)
    if "tau" in settings:
        settings["tau"] = round(min(found.rate, MOST), 4) if rate is None else rate
    if rate is not None:
        on_message(f"the rate given is used: {100 * rate:.1f} %{'' if fits(found, rate) else ', against the estimate'}")
    wanted = config.correction_epochs > 0 and settings.get("schedule") == "text"
    against = objection(found, draw, rate)
    if wanted and against is not None:
        on_message(f"the networks do not learn the suggested labels first: {against}")
    if not wanted or against is not None:
        started = replace(config, settings=settings, correction_epochs=0)
        return Prepared(_starting_from(started, warmed.weights), found, warmed, warmed.weights)
    # Networks that have learned from the suggestions know which losses are small.
    started = replace(config, settings=settings | {"schedule": "constant"})
    on_message("the networks learn the suggested labels first, and leave out the share tau from the first epoch on")
    try:
        with nullcontext() if folder is None else folder.claimed(on_wait=on_message):
            initial = corrected(
                replace(first, correction_epochs=config.correction_epochs),
                warmed,
                found.suggested,
                dataset,
                networks=catalogue.load(config.method).networks,
                **how,
            )
    except InterruptedWarmUp as stopped:
        initial = stopped.weights + warmed.weights[len(stopped.weights) :]
        raise InterruptedCorrection(str(stopped), Prepared(started, found, warmed, initial)) from stopped
    return Prepared(_starting_from(started, initial), found, warmed, initial)


def fits(found: Estimate, rate: float) -> bool:
    """Whether a rate that somebody knows is one that the estimate allows."""
    return found.low <= rate <= found.high


def objection(found: Estimate, draw: Draw, rate: float | None) -> str | None:
    """What speaks against learning the labels that an estimate suggests, if anything."""
    if not found.trusted:
        return "the estimate is in doubt"
    if rate is not None and not fits(found, rate):
        return "the rate given does not fit the estimate"
    given, left = (np.bincount(y, minlength=len(found.matrix)) for y in (draw.noisy, found.suggested))
    return None if (left >= LEFT * given).all() else "a class would all but vanish"


def _starting_from(config: Config, weights: tuple[Weights, ...]) -> Config:
    return replace(config, inputs=replace(config.inputs, warm_up_sha256=sha256_of(weights)))


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
    runner.tell(*dataset.notes)
    with threads(runner.threads or threads_that_pay(config, dataset, network)):
        prepared = prepare(
            config,
            dataset,
            draw,
            device=choose_device(runner.device),
            rate=rate,
            out=runner.out,
            network=network,
            checkpoint_every=runner.checkpoint_every,
            on_progress=runner.on_progress,
            on_message=runner.on_message,
        )
    labels = draw if config.noise == "labels" else None
    result = runner.run(
        prepared.config,
        dataset=dataset,
        labels=labels,
        network=network,
        initial=prepared.initial,
        summary={"estimate": prepared.estimate.to_dict()},
    )
    return result, prepared


def said(found: Estimate) -> str:
    """The estimate in one line."""
    return f"about {100 * found.rate:.1f} % of the labels are wrong ({100 * found.low:.1f} to {100 * found.high:.1f} %)"
