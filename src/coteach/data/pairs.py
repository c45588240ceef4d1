"""A torch Dataset of (sample, label) pairs as arrays."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from coteach.data.dataset import Array
from coteach.errors import DataError


def from_torch(dataset: Any) -> tuple[Array, Array]:
    """The samples and the labels of a map-style torch Dataset, to give to `Dataset.checked`.

    A sample is a tensor, an image [channels, height, width] or a vector, or an image of Pillow; a label is a whole
    number or a text. Each sample is asked for once, so that a random transform is drawn once.
    """
    if not hasattr(dataset, "__getitem__"):
        way_out = "give loader.dataset" if hasattr(dataset, "dataset") else "give a torch Dataset that is indexed"
        raise DataError(f"{type(dataset).__name__} is not indexed: {way_out}")
    try:
        number = len(dataset)
    except TypeError:
        raise DataError("the torch Dataset has no length: give one that is indexed, not one that is iterated") from None
    if not number:
        raise DataError("the torch Dataset is empty: give at least one sample")
    x: Array | None = None
    labels: list[Any] = []
    for place in range(number):
        found = dataset[place]
        try:
            if isinstance(found, Mapping):
                raise TypeError(f"it is a {type(found).__name__} with {', '.join(map(repr, found))}")
            sample, label = found
            labels.append(label.item() if hasattr(label, "item") else label)
        except (TypeError, ValueError, RuntimeError) as error:
            raise DataError(
                f"sample {place} of the torch Dataset is no pair of a sample and one label ({error}): answer with both"
            ) from error
        values = _sample(sample)
        if x is None:
            x = np.empty((number, *values.shape), values.dtype)
        elif values.shape != x.shape[1:]:
            raise DataError(
                f"sample {place} of the torch Dataset has shape {values.shape}, those before it {x.shape[1:]}: "
                "give it a transform that makes them alike"
            )
        if not np.can_cast(values.dtype, x.dtype):
            x = x.astype(np.result_type(values.dtype, x.dtype))
        x[place] = values
    assert x is not None, "there is at least one sample"
    return x, np.array(labels)


def _sample(value: Any) -> Array:
    """One sample as an array, of images with the channels last."""
    if hasattr(value, "detach"):  # a tensor, which has its channels first
        found = np.asarray(value.detach().cpu().numpy())
        return found.transpose(1, 2, 0) if found.ndim == 3 else found
    if hasattr(value, "convert"):  # an image of Pillow, maybe with a palette
        value = value.convert("L" if value.mode in ("1", "L") else "RGB")
    return np.asarray(value)
