"""What a function or class of the user's is known by: its source, or else its code, and the values bound to it."""

import functools
import hashlib
import inspect
import sys
import sysconfig
from collections.abc import Callable, Mapping
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from torch import Tensor

from coteach.errors import SettingError

_NOT_SAID = {
    "__dict__", "__weakref__", "__module__", "__doc__", "__firstlineno__", "__static_attributes__", "_abc_impl",
}  # fmt: skip
_INSTALLED = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")]


def source_sha256(function: Callable[..., Any]) -> str:
    """A hash of what a function is made of, so that a changed network is another run.

    That is the file that defines it, the files of the user's own that this one imports, and the values bound to it. Of
    what is in no file, as in a notebook, it is the compiled code, with all of the notebook's that it calls by name.
    """
    try:
        inner, bound = _unbound(function)
    except (TypeError, ValueError) as error:
        raise SettingError(
            f"{function!r} is not to be told from others of its kind ({error}): give a plain function"
        ) from error
    home = inspect.getmodule(inner)
    try:
        source = inspect.getsource(home or inner)
    except (OSError, TypeError):  # typed in
        source = _code(inner, set())
    else:
        source += "" if home is None else "".join(map(inspect.getsource, _imported(home)))
    return hashlib.sha256((source + "".join(map(_told, bound))).encode()).hexdigest()


def _code(value: Any, seen: set[int]) -> str:
    """A function or a class of no file as a text: what it does, and what it calls that is in no file, either."""
    if id(value) in seen:
        return str(value.__qualname__)
    seen.add(id(value))
    if isinstance(value, type):
        parts = [f"{base.__module__}.{base.__qualname__}" for base in value.__bases__]
        parts += [_code(base, seen) for base in value.__bases__ if base.__module__ == value.__module__]
        own = sorted((name, each) for name, each in vars(value).items() if name not in _NOT_SAID)
        return "".join([*parts, *(name + _part(each, value.__module__, seen) for name, each in own)])
    code, names = value.__code__, value.__globals__
    called = [(name, names[name]) for name in _names(code) if name in names]
    return _compiled(code) + "".join(name + _part(each, value.__module__, seen) for name, each in called)


def _part(value: Any, home: str, seen: set[int]) -> str:
    """An attribute of a class, or what a name stands for."""
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    if isinstance(value, property):
        return "".join(_part(each, home, seen) for each in (value.fget, value.fset, value.fdel) if each)
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, FunctionType | type) and value.__module__ == home:
        return _code(value, seen) + (_told(_unbound(value)[1]) if isinstance(value, FunctionType) else "")
    return _told(value)


def _names(code: CodeType) -> list[str]:
    """All global names that a piece of code uses, those of functions inside it too."""
    inside = [name for each in code.co_consts if isinstance(each, CodeType) for name in _names(each)]
    return list(dict.fromkeys([*code.co_names, *inside]))


def _compiled(code: CodeType) -> str:
    constants = [_compiled(each) if isinstance(each, CodeType) else _told(each) for each in code.co_consts]
    return f"{code.co_code.hex()}{code.co_names}{code.co_varnames}{constants}"


def _imported(home: ModuleType) -> list[ModuleType]:
    """The modules that a module uses, and those that they use, as far as they are neither installed nor Python's."""
    found: dict[str, ModuleType] = {home.__name__: home}
    waiting = [home]
    while waiting:
        for value in vars(waiting.pop()).values():
            name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            module = sys.modules.get(name) if isinstance(name, str) else None
            if module is not None and module.__name__ not in found and _own(module):
                found[module.__name__] = module
                waiting.append(module)
    return [found[name] for name in sorted(found) if name != home.__name__]


def _own(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    if file is None or not file.endswith(".py") or module.__name__.partition(".")[0] == "coteach":
        return False
    path = Path(file).resolve()
    return path.exists() and not any(path.is_relative_to(folder) for folder in _INSTALLED)


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
        defaults = (getattr(function, name, None) for name in ("__defaults__", "__kwdefaults__"))  # a class has none
        bound += [each for each in defaults if each]
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
