"""What a function or class of the user's is known by: its source, or else its code, and the values bound to it."""

import contextlib
import dis
import functools
import hashlib
import importlib.util
import inspect
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
from torch import Tensor

from coteach.errors import SettingError
from coteach.fields import imports

_NOT_SAID = {
    "__dict__", "__weakref__", "__module__", "__doc__", "__firstlineno__", "__static_attributes__", "_abc_impl",
}  # fmt: skip
_PYTHON = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")]
_PACKAGES = {"site-packages", "dist-packages"}


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
        if home is not None and getattr(home, "__file__", None):
            source += "".join(file.read_text(encoding="utf-8") for file in _imported(home))
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
    """All global names that a piece of code uses, those of functions inside it too; not those of attributes."""
    used = [str(each.argval) for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    inside = [name for each in code.co_consts if isinstance(each, CodeType) for name in _names(each)]
    return list(dict.fromkeys([*used, *inside]))


def _compiled(code: CodeType) -> str:
    constants = [_compiled(each) if isinstance(each, CodeType) else _told(each) for each in code.co_consts]
    return f"{code.co_code.hex()}{code.co_names}{code.co_varnames}{constants}"


def _imported(home: ModuleType) -> list[Path]:
    """The files that a module imports, and those that they import; neither installed ones nor Python's."""
    found: dict[str, Path] = {}
    waiting = [home]
    while waiting:
        module = waiting.pop()
        for name in _modules_named(imports(_file(module)), module.__package__ or ""):
            other = sys.modules.get(name)
            if other is not None and other is not home and name not in found and _own(other):
                found[name] = _file(other)
                waiting.append(other)
    return [found[name] for name in sorted(found)]


def _modules_named(names: Iterable[str], package: str) -> Iterator[str]:
    """What `a.b.c` may name: the module of that name, and the packages around it, which are run too."""
    for name in names:
        with contextlib.suppress(ImportError):  # one that leads out of its package was never run
            absolute = importlib.util.resolve_name(name, package)
            yield from accumulate(absolute.split("."), "{}.{}".format)


def _file(module: ModuleType) -> Path:
    return Path(str(module.__file__)).resolve()


def _own(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    if file is None or not file.endswith(".py") or module.__name__.partition(".")[0] == "coteach":
        return False
    path = _file(module)
    installed = not _PACKAGES.isdisjoint(path.parts) or any(map(path.is_relative_to, _PYTHON))
    return path.exists() and not installed


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
