"""Estimators of the wrong labels, as pure functions: log probabilities and labels in, a joint or a rate out.

T[i, j] is the probability that a sample of class i carries the label j; joint[i, j] is the share of all samples
that are of class i and carry the label j. Each log probability comes from a network that has not seen the sample.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.special import expit
from scipy.stats import rankdata

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def counted(rows: Ints, columns: Ints, classes: int) -> Floats:
    """How often each pair occurs, [row, column]."""
    pairs = np.bincount(rows * classes + columns, minlength=classes**2)
    return pairs.reshape(classes, classes).astype(np.float64)


def rows_to_one(counts: Floats) -> Floats:
    """Each row divided by its sum; a row of zeros becomes that of the identity: nothing speaks against its labels."""
    total = counts.sum(1, keepdims=True)
    return np.where(total > 0, counts / np.where(total > 0, total, 1), np.eye(len(counts)))


def wrong_share(joint: Floats) -> float:
    """The share of a joint that lies off its diagonal."""
    return float(1 - np.trace(joint) / joint.sum())


def disagreement(log_p: Floats, y: Ints) -> float:
    """The share of labels that differ from the predicted class: an upper bound of the rate.

    Out of sample, a prediction can match a label that is right or, by chance, one that is wrong; where the right
    label is the most common one of every class, nothing matches more labels than the true class does.
    """
    return float((log_p.argmax(1) != y).mean())


def ranking(log_p: Floats, y: Ints, half: Ints) -> float:
    """By how many standard deviations a label is more probable where it is given than where it is not.

    It is a rank sum test of all classes together, in each half by itself, for another network scored it; random labels
    come out around 0. Networks whose likeliest class is nearly always the commonest one may still rank well.
    """
    more = spread = 0.0
    for h in np.unique(half):
        p, given = log_p[half == h], y[half == h]
        size = np.bincount(given, minlength=p.shape[1])
        more += sum(rankdata(p[:, c])[given == c].sum() - n * (len(p) + 1) / 2 for c, n in enumerate(size))
        # One class is more probable where another is less: at worst they say the same, as two classes do.
        spread += np.sqrt(size * (len(p) - size) * (len(p) + 1) / 12).sum() ** 2
    return float(more / np.sqrt(spread)) if spread else 0.0


def confident_joint(log_p: Floats, y: Ints) -> Floats:
    """The joint by counting confident samples (Northcutt, Jiang and Chuang, 2021).

    A class is open to a sample if its probability reaches the mean that the samples with this label have for it; the
    sample counts for the most probable class open to it. Each label's counts are then scaled to how often it is given.
    """
    p = np.exp(log_p)
    classes = p.shape[1]
    given = np.bincount(y, minlength=classes)
    own = np.bincount(y, p[np.arange(len(y)), y], minlength=classes)
    reached = p >= np.where(given > 0, own / np.maximum(given, 1), np.inf)
    sure = reached.any(1)
    count = counted(np.where(reached, p, -1).argmax(1)[sure], y[sure], classes)
    missing = np.flatnonzero(count.sum(0) == 0)
    count[missing, missing] = 1.0  # nothing speaks against this label
    joint: Floats = count / count.sum(0) * given / len(y)
    return joint


def dual_matrix(log_p: Floats, y: Ints, quantile: float = 0.97) -> Floats:
    """T by way of the predicted class (Yao et al., 2020): T(predicted | true) times T(label | predicted).

    The first factor is what the network says of a class's surest sample, leaving out those above a quantile as
    outliers; the second is counted.
    """
    p = np.exp(log_p)
    first = np.empty((p.shape[1], p.shape[1]))
    for c, column in enumerate(p.T):
        left = column <= np.quantile(column, quantile, method="lower")
        first[c] = p[np.where(left, column, -1).argmax()]
    return first @ rows_to_one(counted(p.argmax(1), y, p.shape[1]))


def joint_of(matrix: Floats, y: Ints) -> Floats:
    """The joint of a transition matrix, with the class shares that best explain how often each label is given."""
    share = np.bincount(y, minlength=len(matrix)) / len(y)
    prior = nnls(matrix.T, share)[0]
    joint: Floats = matrix * (prior / prior.sum())[:, None]
    return joint


def margin_mixture(log_p: Floats, y: Ints, steps: int = 100) -> float:
    """The rate by two Gaussians on the margin: log probability of the label less that of the best other class.

    A loss has no zero that divides right labels from wrong ones; the margin has: right labels lie above 0. So a
    second component whose mean is above 0 is no sign of wrong labels, and the rate is then 0.
    """
    rows = np.arange(len(y))
    others = log_p.copy()
    others[rows, y] = -np.inf
    margin = log_p[rows, y] - others.max(1)
    wrong = (margin < 0).astype(np.float64)
    floor = 1e-2 * margin.var() + 1e-12
    mean = np.zeros(2)
    for _ in range(steps):
        if not 0.5 <= wrong.sum() <= len(y) - 0.5:
            return float(wrong.mean())
        weights = np.stack([1 - wrong, wrong])
        mean = weights @ margin / weights.sum(1)
        square = (margin - mean[:, None]) ** 2
        variance = (weights * square).sum(1) / weights.sum(1) + floor
        log = np.log(weights.mean(1) / np.sqrt(variance))[:, None] - 0.5 * square / variance[:, None]
        before, wrong = wrong, expit(log[1] - log[0])
        if abs(wrong.mean() - before.mean()) < 1e-5:
            break
    return float(wrong.mean()) if mean[1] < 0 else 0.0
