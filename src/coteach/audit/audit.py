"""An audit: one training, and what it says of every label."""

from dataclasses import dataclass, replace

import numpy as np

from coteach.audit.issues import Issues
from coteach.audit.suspects import Evidence, rare_classes, suspects
from coteach.config import Config
from coteach.data import Dataset
from coteach.data.notes import first_few
from coteach.estimate.combined import Estimate
from coteach.estimate.prepare import run_estimated
from coteach.model import load_model
from coteach.nets import Network, function_named
from coteach.results.folder import RunFolder
from coteach.results.run import Result, Runner
from coteach.training.setup import draw_labels


@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit came to."""

    issues: Issues
    estimate: Estimate
    result: Result
    """The run behind it, with the trained model in its folder."""


def audit(
    dataset: Dataset, config: Config, runner: Runner, *, rate: float | None = None, network: Network | None = None
) -> Audit:
    """Train on the labels as given and judge each of them; `rate` is the share of wrong labels, if it is known."""
    draw = draw_labels(config, dataset)
    result, prepared = run_estimated(runner, config, dataset, draw, rate=rate, network=network)
    own = network or (function_named(config.network) if ":" in config.network else None)
    model = load_model(result.path, network=own, device=runner.device)
    evidence = Evidence(
        before=prepared.estimate.member,
        probabilities=model.predict_proba(dataset.x_train).astype(np.float64),
        ledger=RunFolder(result.path).evidence(),
    )
    few = [dataset.class_names[place] for place in np.flatnonzero(rare_classes(draw.noisy, dataset.classes))]
    if few and len(few) < dataset.classes:
        runner.on_message(f"too few labels for a class to be suggested to other samples: {first_few(few)}")
    issues = suspects(dataset, draw.noisy, evidence)
    if prepared.estimate.blind:
        runner.on_message("no label is called wrong, for these networks cannot tell")
        issues = replace(issues, is_issue=np.zeros_like(issues.is_issue))
    return Audit(issues, prepared.estimate, result)
