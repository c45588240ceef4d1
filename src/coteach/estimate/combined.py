"""All estimators together: the rate, its interval, the transition matrix, and whether to trust them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from coteach.estimate.estimators import (
    Floats,
    Ints,
    confident_joint,
    disagreement,
    dual_matrix,
    joint_of,
    margin_mixture,
    ranking,
    rows_to_one,
    wrong_share,
)
from coteach.estimate.latent import Scores, fitted, latent_classes

RESAMPLES = 20
"""Bootstrap resamples behind an interval."""
LEVEL = 0.95
"""Share of the resamples that an interval holds."""
APART = 0.05
"""Two estimators whose intervals are further apart than this disagree."""
OPEN = 0.1
"""With more than this share of the samples open between classes, the scores are too poor to tell the rate."""
SLACK = 0.01
"""An estimator may lie so much above the bound, which is an estimate too."""
CHANCE = 0.95
"""Networks guess that disagree with more of the labels than this share of what always saying the commonest one would,
unless they rank."""
RANK = 3.5
"""From so many standard deviations on, networks rank the labels better than by chance."""
FEW = 20
"""With fewer samples a class than this, an estimate is not to be trusted."""


@dataclass(frozen=True)
class Rate:
    """What one estimator says: the share of wrong labels, and its interval."""

    name: str
    rate: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Estimate:
    """The combined estimate."""

    rate: float
    """Share of the labels that are wrong."""
    low: float
    high: float
    matrix: Floats
    """[true class, label]: how each class is labelled, by the latent classes; by the confident joint if they failed."""
    warnings: tuple[str, ...]
    """Why not to trust it, a line each; empty if nothing speaks against it."""
    open: float
    """Share of the samples, in expectation, whose class is another than the likeliest."""
    member: Floats
    """[sample, class]: the probability of each true class."""
    parts: tuple[Rate, ...]
    """What each estimator says; the last one, the disagreement, is an upper bound."""
    blind: bool = False
    """Whether the networks guess the labels no better than chance, so that nothing follows from them."""

    @property
    def trusted(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.warnings

    @property
    def suggested(self) -> Ints:
        """For each sample, its likeliest class."""
        likeliest: Ints = np.argmax(self.member, 1)
        return likeliest

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready values, without those of each sample."""
        return {
            "rate": self.rate,
            "low": self.low,
            "high": self.high,
            "matrix": self.matrix.tolist(),
            "trusted": self.trusted,
            "blind": self.blind,
            "warnings": list(self.warnings),
            "estimators": [{"name": p.name, "rate": p.rate, "low": p.low, "high": p.high} for p in self.parts],
        }


def estimate(scores: Scores, y: Ints, seed: int = 0, resamples: int = RESAMPLES) -> Estimate:
    """The rate, its interval and T, from the scores of the samples and their labels as given. No true label is used.

    The rate is that of the latent classes. The other estimators are witnesses, and one of them must come near. The
    interval is the bootstrap's; since a model's own mistakes look like wrong labels, it reaches lower by the share of
    samples whose class stays open, and down to the witnesses that came near. If the latent classes fail, which shows
    in a rate above the disagreement, the median of the others that lie below it takes their place.
    """
    found = latent_classes(scores, y)
    joints = {
        "latent classes": found.joint(y),
        "confident joint": confident_joint(scores.log_p, y),
        "dual matrix": joint_of(dual_matrix(scores.log_p, y), y),
    }
    points = [*map(wrong_share, joints.values()), margin_mixture(scores.log_p, y), disagreement(scores.log_p, y)]
    draws = _bootstrap(scores, y, found.member, np.random.default_rng(seed), resamples)
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    parts = tuple(
        Rate(name, rate, min(rate, a), max(rate, b))
        for name, rate, a, b in zip([*joints, "margin mixture", "disagreement"], points, low, high, strict=True)
    )
    latent, *others, bound = parts
    most = bound.high + SLACK
    inside = [part for part in others if part.rate <= most]
    failed = latent.rate > most
    chosen = [latent] if not failed else inside or [bound]
    rate = max(0.0, float(np.median([part.rate for part in chosen])))  # rounding may leave it a hair below
    bottom, top = min(part.low for part in chosen), max(part.high for part in chosen)
    near = [part for part in inside if part.low <= top + APART and bottom <= part.high + APART]
    # A margin mixture of 0 has found no second hill, as in any overlap of classes: it vouches for nothing.
    vouched = any(part.name != "margin mixture" or part.high > 0 for part in near)
    beside = [part.low for part in near if abs(part.rate - rate) <= APART]
    unsure = float(1 - found.member.max(1).mean())
    guessing = bound.rate > CHANCE * (1 - np.bincount(y).max() / len(y))
    blind = bool(guessing and ranking(scores.log_p, y, scores.half) < RANK)
    return Estimate(
        rate=rate,
        low=max(0.0, min([bottom - unsure, *beside])),
        high=top,
        matrix=rows_to_one(joints["confident joint" if failed else "latent classes"]),
        warnings=tuple(_warnings(parts, failed=failed, near=vouched, blind=blind, unsure=unsure, y=y)),
        blind=blind,
        open=unsure,
        member=found.member,
        parts=parts,
    )


def _warnings(parts: tuple[Rate, ...], *, failed: bool, near: bool, blind: bool, unsure: float, y: Ints) -> list[str]:
    """What speaks against an estimate."""
    said = ", ".join(f"{part.name} {100 * part.rate:.0f} %" for part in parts[:-1])
    warnings = []
    if len(y) < FEW * (int(y.max()) + 1):
        warnings.append(f"{len(y)} samples of {int(y.max()) + 1} classes are few for an estimate")
    if failed or not near:
        warnings.append(f"the estimators disagree ({said}): give the rate if you know it")
    if blind:
        warnings.append("the networks guess the labels no better than chance: no estimate can be had from them")
    if unsure > OPEN:
        warnings.append(
            f"the networks cannot tell the class of {100 * unsure:.0f} % of the samples, and what is hard looks wrong"
        )
    return warnings


def _bootstrap(scores: Scores, y: Ints, member: Floats, rng: np.random.Generator, resamples: int) -> Floats:
    """The rates of the five estimators on samples drawn again, [resample, estimator]; the networks stay as they are."""
    draws = []
    for _ in range(resamples):
        rows = rng.integers(len(y), size=len(y))
        log_p, labels = scores.log_p[rows], y[rows]
        fit = fitted(Scores(log_p, scores.half[rows]), labels, member[rows], steps=4)
        draws.append(
            [
                wrong_share(fit.joint(labels)),
                wrong_share(confident_joint(log_p, labels)),
                wrong_share(joint_of(dual_matrix(log_p, labels), labels)),
                margin_mixture(log_p, labels, steps=30),
                disagreement(log_p, labels),
            ]
        )
    return np.array(draws)
