"""Labels that are texts: which classes they name, in which order, and what number each label is."""

import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from coteach.errors import DataError

_WHOLE = re.compile(r"[+-]?\d+")
_WHOLE_FLOAT = re.compile(r"^([+-]?\d+)\.0+$")


def plain(labels: Sequence[str]) -> list[str]:
    """The labels, written 1 where all are whole numbers and some program wrote 1.0; an empty one stays empty."""
    short = {label: _WHOLE_FLOAT.sub(r"\1", label) for label in dict.fromkeys(labels)}
    if not all(_WHOLE.fullmatch(label) for label in short.values() if label):
        return list(labels)
    return [short[label] for label in labels]


def names_of(labels: Iterable[str]) -> tuple[str, ...]:
    """The distinct labels in the order of the classes: whole numbers by their size, else by the alphabet."""
    distinct = sorted(set(labels))
    return tuple(sorted(distinct, key=int)) if all(map(_WHOLE.fullmatch, distinct)) else tuple(distinct)


def numbered(what: str, labels: Sequence[str], names: Sequence[str]) -> NDArray[np.int64]:
    """The number of each label's class; a label that is no class is an error."""
    number = {name: place for place, name in enumerate(names)}
    for place, label in enumerate(labels):
        if label not in number:
            shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
            raise DataError(
                f"{what} holds the label {label!r} (first in sample {place}), which is no class of the training "
                f"data: correct it to one of {shown}, or leave it out"
            )
    return np.array([number[label] for label in labels], np.int64)
