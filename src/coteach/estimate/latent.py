"""Latent classes: the true classes as the hidden causes of both scores and labels.

The model: an error depends on the class, not on the sample, and the right label is the most common one of a class.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln, log_softmax

from coteach.estimate.estimators import Floats, Ints, rows_to_one

FREEDOM = 4.0
"""Degrees of freedom of the t distribution of a class's scores: heavy tails, for some samples look like another's."""


@dataclass(frozen=True)
class Scores:
    """What networks say of samples that they have not learned from."""

    log_p: Floats
    """[sample, class]: log probabilities."""
    half: Ints
    """Which network scored a sample, 0 or 1."""


@dataclass(frozen=True)
class Classes:
    """A fit by `latent_classes`."""

    member: Floats
    """[sample, class]: the probability of each true class in the light of the scores and of the label."""
    likelihood: float
    """Mean log likelihood of a sample."""

    def joint(self, y: Ints) -> Floats:
        """The joint: how often each class carries each label."""
        share: Floats = self.member.T @ np.eye(self.member.shape[1])[y] / len(y)
        return share


def latent_classes(scores: Scores, y: Ints, softly: int = 20) -> Classes:
    """True classes as the hidden causes of both scores and labels, by expectation maximisation.

    The log odds of the samples of a class lie around the class's centre, t distributed, with one scatter for all
    classes; each half has its own, for another network scored it. The label depends on the class alone, by T, which
    the halves share. That a network confuses two classes does not matter, as long as its scores still tell them apart:
    with pair noise of 0.45 the largest score is a wrong class for four digits in ten, and the fit finds 97 in 100.

    Three starts, the predicted classes, the labels, and both in equal parts; the first steps take the scores at half
    their weight so as not to get stuck; the likeliest end is kept and its classes get their names.
    """
    classes = scores.log_p.shape[1]
    used = np.flatnonzero(np.bincount(y, minlength=classes))
    if len(used) < classes:  # a class that no label names would take its samples from another
        part = latent_classes(Scores(log_softmax(scores.log_p[:, used], 1), scores.half), np.searchsorted(used, y))
        member = np.zeros((len(y), classes))
        member[:, used] = part.member
        return Classes(member, part.likelihood)
    predicted, given = np.eye(classes)[scores.log_p.argmax(1)], np.eye(classes)[y]
    starts = predicted, given, (predicted + given) / 2
    fits = [fitted(scores, y, 0.9 * start + 0.1 / classes, softly=softly) for start in starts]
    best = max(fits, key=lambda fit: fit.likelihood)
    return Classes(named(best.member, y), best.likelihood)


def fitted(
    scores: Scores, y: Ints, member: Floats, *, softly: int = 0, steps: int = 300, tolerance: float = 1e-5
) -> Classes:
    """Expectation maximisation from a start, until the mean log likelihood gains less than the tolerance."""
    classes = member.shape[1]
    z = np.ascontiguousarray(scores.log_p[:, :-1] - scores.log_p[:, -1:])  # log odds against any one class
    z -= z.mean(0)
    halves = [np.flatnonzero(scores.half == h) for h in np.unique(scores.half)]
    labels = np.eye(classes)[y]
    weight = np.ones_like(member)
    likelihood = -np.inf
    for step in range(softly + steps):
        matrix = rows_to_one(member.T @ labels + 1 / classes)  # one label's worth of doubt in each row
        log = np.log(member.mean(0) + 1e-12) + np.log(matrix.T[y])
        for rows in halves:
            density, weight[rows] = _t_density(z[rows], member[rows], weight[rows])
            log[rows] += density * (0.5 if step < softly else 1.0)
        top = log.max(1, keepdims=True)
        member = np.exp(log - top)
        total = member.sum(1, keepdims=True)
        member /= total
        before, likelihood = likelihood, float((np.log(total) + top).mean())
        if step > softly + 1 and likelihood - before < tolerance:
            break
    return Classes(member, likelihood)


def _t_density(z: Floats, member: Floats, weight: Floats, freedom: float = FREEDOM) -> tuple[Floats, Floats]:
    """Log density of each sample in each class, and how much the sample weighs in the class's next centre."""
    n, d = z.shape
    w = member * weight
    size = w.sum(0) + 1e-9
    centre = w.T @ z / size[:, None]
    scatter = ((z * w.sum(1)[:, None]).T @ z - (centre.T * size) @ centre) / n
    root = np.linalg.cholesky(scatter + np.diag(1e-3 * z.var(0) + 1e-9))
    whiten = np.linalg.inv(root).T
    a, b = z @ whiten, centre @ whiten
    square = np.maximum((a**2).sum(1)[:, None] - 2 * a @ b.T + (b**2).sum(1), 0)
    constant = gammaln((freedom + d) / 2) - gammaln(freedom / 2) - d / 2 * np.log(freedom * np.pi)
    log: Floats = constant - np.log(np.diag(root)).sum() - (freedom + d) / 2 * np.log1p(square / freedom)
    return log, (freedom + d) / (freedom + square)


def named(member: Floats, y: Ints) -> Floats:
    """The columns in the order in which most labels are right, when each class takes a name of its own.

    That no two classes share a name is what settles strong pair noise: a class whose labels are halved between two
    names could take either, but all classes together cannot be shifted without making most labels wrong.
    """
    count = member.T @ np.eye(member.shape[1])[y]
    cluster, label = linear_sum_assignment(-count)
    return member[:, cluster[np.argsort(label)]]
