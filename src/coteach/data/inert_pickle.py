"""Read a pickle of plain values and numpy arrays without running anything that it might contain.

A pickle may name any function and have it called. Here the only names it can reach are the three that numpy's
arrays need, and each leads to a class below that does nothing but keep what it is given.
"""

import io
import pickle
from typing import Any

import numpy as np

from coteach.data.dataset import Array


class _Dtype:
    """Stands for numpy.dtype: keeps the code of the type, such as u1, and its byte order."""

    __slots__ = ("code", "order")

    def __init__(self, code: bytes | str, *_: object) -> None:
        self.code, self.order = _text(code), "|"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = _text(state[1])


class _Array:
    """Stands for numpy.ndarray and for the function that makes an empty one: keeps shape, type and bytes."""

    __slots__ = ("state",)

    def __init__(self, *_: object) -> None:
        self.state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def array(self) -> Array:
        _, shape, dtype, fortran, content = self.state
        order = dtype.order if dtype.order in "<>" else "|"
        flat = np.frombuffer(content, np.dtype(order + dtype.code))
        return flat.reshape(shape, order="F" if fortran else "C")


_STAND_INS = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
}


class _InertUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _STAND_INS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no dataset needs")
        return _STAND_INS[module, name]


def load_dict(content: bytes) -> dict[str, Any]:
    """The dictionary in a pickle of Python 2 or 3, with its arrays. Any exception means a bad pickle."""
    found = _InertUnpickler(io.BytesIO(content), encoding="bytes").load()
    if not isinstance(found, dict):
        raise pickle.UnpicklingError("it holds no dictionary")
    return {_text(key): value.array() if isinstance(value, _Array) else value for key, value in found.items()}


def _text(value: bytes | str) -> str:
    return value.decode("ascii") if isinstance(value, bytes) else str(value)
