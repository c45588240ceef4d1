"""The handwritten digits that come with scikit-learn: real data without any download."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coteach.data.dataset import Array

TEST_IMAGES = 360


def digits_arrays() -> dict[str, Array]:
    """1,437 training and 360 test images [8, 8, 1]; the split is shuffled and always the same."""
    pixels, digits = _pixels_and_digits()
    images = np.rint(pixels.reshape(-1, 8, 8, 1) * 255 / 16).astype(np.uint8)  # sklearn's pixels are 0..16
    labels = digits.astype(np.uint8)
    order = np.random.default_rng(0).permutation(len(labels))
    test, train = order[:TEST_IMAGES], order[TEST_IMAGES:]
    return {
        "x_train": images[train],
        "y_train": labels[train],
        "x_test": images[test],
        "y_test": labels[test],
    }


def _pixels_and_digits() -> tuple[NDArray[Any], NDArray[Any]]:
    """From scikit-learn's file, where it lies as it always has: importing scikit-learn for it takes two seconds."""
    package = find_spec("sklearn")
    if package is not None and package.origin is not None:
        file = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
        if file.is_file():
            table = np.loadtxt(file, delimiter=",")
            return table[:, :-1], table[:, -1]

    from sklearn.datasets import load_digits

    pixels, digits = load_digits(return_X_y=True)
    return pixels, digits
