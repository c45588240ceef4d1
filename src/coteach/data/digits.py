"""The handwritten digits that come with scikit-learn: real data without any download."""

import numpy as np

from coteach.data.dataset import Array

TEST_IMAGES = 360


def digits_arrays() -> dict[str, Array]:
    """1,437 training and 360 test images [8, 8, 1]; the split is shuffled and always the same."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = np.rint(digits.images * 255 / 16).astype(np.uint8)[..., np.newaxis]  # sklearn's pixels are 0..16
    labels = digits.target.astype(np.uint8)
    order = np.random.default_rng(0).permutation(len(labels))
    test, train = order[:TEST_IMAGES], order[TEST_IMAGES:]
    return {
        "x_train": images[train],
        "y_train": labels[train],
        "x_test": images[test],
        "y_test": labels[test],
    }
