"""What a function of the user's is known by: its source, and the values that were bound to it."""

import functools
import hashlib
import inspect
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np
from torch import Tensor

from coteach.errors import SettingError


def source_sha256(function: Callable[..., Any]) -> str:
    """A hash of the file that defines a function and of the values bound to it: a changed network is another run."""
    inner, bound = _unbound(function)
    try:
        source = inspect.getsource(inspect.getmodule(inner) or inner)
    except (OSError, TypeError) as error:
        raise SettingError(f"the source of {function!r} is not to be found: define it in a file") from error
    return hashlib.sha256((source + "".join(map(_told, bound))).encode()).hexdigest()


def _unbound(function: Any) -> tuple[Any, list[Any]]:
    """What a function is in its file, and the values that it was given since: of a partial, a closure, an object."""
    bound: list[Any] = []
    while isinstance(function, functools.partial):
        bound += [function.args, function.keywords]
        function = function.func
    if inspect.ismethod(function):
        bound.append(function.__self__)
        function = function.__func__
    elif not inspect.isroutine(function) and not inspect.isclass(function) and not hasattr(function, "__wrapped__"):
        bound.append(vars(function))
        function = type(function)
    bound += [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    if "<locals>" in getattr(function, "__qualname__", ""):  # else they stand in the file
        bound += [each for each in (function.__defaults__, function.__kwdefaults__) if each]
    return inspect.unwrap(function), bound


def _told(value: Any) -> str:
    """A value as a text that is the same in every process, and another for another value."""
    match value:
        case Mapping():
            said = f"{{{', '.join(sorted(f'{_told(key)}: {_told(each)}' for key, each in value.items()))}}}"
        case set() | frozenset():
            said = f"{{{', '.join(sorted(map(_told, value)))}}}"
        case tuple() | list():
            said = f"({', '.join(map(_told, value))})"
        case Tensor():
            said = _told(value.detach().cpu().numpy())
        case np.ndarray():
            said = f"{value.dtype}{value.shape}{hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}"
        case type() | BuiltinFunctionType():
            said = f"{value.__module__}.{value.__qualname__}"
        case FunctionType() | MethodType() | functools.partial():
            inner, bound = _unbound(value)
            said = f"{inner.__module__}.{inner.__qualname__}{_told(bound)}"
        case _:
            said = repr(value)
            if " at 0x" in said:
                raise SettingError(f"{said} is not to be told from others of its kind: bind plain values only")
    return said
