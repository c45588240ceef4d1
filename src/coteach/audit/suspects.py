"""From one training to suspects: how likely each label is wrong, and what it should be."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from coteach.audit.issues import Floats, Ints, Issues
from coteach.data import Dataset
from coteach.estimate.latent import Scores, latent_classes

_SURE = 1e-9
"""No label is surer than this."""
_RARE = 8
"""Labels below which a class is not suggested: as many as an estimate needs of each."""


@dataclass(frozen=True)
class Evidence:
    """What a training says of its samples."""

    before: Floats
    """[sample, class]: the probability of each class by the warm-up, whose networks have not seen the sample."""
    probabilities: Floats
    """[sample, class]: by the trained networks."""
    ledger: Mapping[str, NDArray[Any]]
    """What the networks made of it while they learned: seen, picked and loss, sums over the epochs."""


def suspects(dataset: Dataset, y: Ints, evidence: Evidence) -> Issues:
    """Every training sample of the data with its label `y`, what it should be, and why.

    The classes are made out twice, from networks that have not seen a sample and from networks that have learned what
    their peers picked. The first can be poor and are never fooled by a wrong label, the second are good and sometimes
    are; the mean of their log odds ranks better than either.
    """
    log_p = np.log(np.maximum(evidence.probabilities, np.finfo(np.float32).tiny))
    before = without_rare(evidence.before, y)
    after = without_rare(latent_classes(Scores(log_p, np.zeros(len(y), np.int64)), y).member, y)
    both = np.log(np.maximum(before, _SURE)) + np.log(np.maximum(after, _SURE))
    suggested = both.argmax(1)
    rows = np.arange(len(y))
    right = [np.clip(member[rows, y], _SURE, 1 - _SURE) for member in (before, after)]
    seen = np.maximum(evidence.ledger["seen"], 1)
    return Issues(
        ids=dataset.ids or tuple(map(str, range(len(y)))),
        class_names=dataset.class_names,
        given=y,
        suggested=suggested,
        score=expit(-np.mean([logit(p) for p in right], axis=0)),
        is_issue=suggested != y,
        picked=(evidence.ledger["picked"] / seen).T.astype(np.float64),
        loss=(evidence.ledger["loss"] / seen).mean(0).astype(np.float64),
        p_given=evidence.probabilities[rows, y].astype(np.float64),
        p_suggested=evidence.probabilities[rows, suggested].astype(np.float64),
    )


def rare_classes(y: Ints, classes: int) -> NDArray[np.bool_]:
    """Which classes have too few labels to be known by."""
    return np.bincount(y, minlength=classes) < _RARE


def without_rare(member: Floats, y: Ints) -> Floats:
    """Probabilities of classes without those that have too few labels to be known by, but for samples so labelled.

    Else a class of two labels can take a whole cluster of another class for its own.
    """
    rare = rare_classes(y, member.shape[1])
    if rare.all():
        return member
    open_to = ~rare | (np.arange(member.shape[1]) == y[:, None])
    kept = np.where(open_to, member, 0.0)
    total = kept.sum(1, keepdims=True)
    known: Floats = np.where(total > 0, kept / np.where(total > 0, total, 1.0), np.eye(member.shape[1])[y])
    return known
