"""Which samples to hold out for testing when no test set was given."""

import numpy as np
from numpy.typing import NDArray

from coteach.errors import SettingError

SHARE = 0.2
"""Of the data, if nothing else is said."""
_SEED = 0  # the same data are always divided the same way: runs with different seeds can be compared


def held_out(labels: NDArray[np.int64], share: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The places to train on and those to test on: `share` of every class, as near as whole samples allow.

    Every class keeps a sample to train on. At least one sample is held out, if any class can spare one and `share`
    is not 0.
    """
    if not 0 <= share < 1:
        raise SettingError(f"test_share is {share:g}: it must be at least 0 and less than 1")
    number = np.bincount(labels)
    wanted = number * share
    taken = np.minimum(np.floor(wanted), np.maximum(number - 1, 0)).astype(np.int64)
    most = max(round(len(labels) * share), 1) if share else 0
    for c in np.argsort(taken - wanted, kind="stable"):  # those that lost most by rounding down come first
        if taken.sum() < most and taken[c] + 1 < number[c]:
            taken[c] += 1
    shuffled = np.random.default_rng(_SEED).permutation(len(labels))
    grouped = shuffled[np.argsort(labels[shuffled], kind="stable")]
    within = np.arange(len(labels)) - (np.cumsum(number) - number)[labels[grouped]]
    test = within < taken[labels[grouped]]
    return np.sort(grouped[~test]), np.sort(grouped[test])
