"""Methods that are in no file of methods: classes of a script, or typed into a notebook."""

import inspect
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Union, get_args, get_origin

from coteach.errors import SettingError
from coteach.fields import Field

if TYPE_CHECKING:
    from coteach.methods.base import Method


def checked_class(method: Any) -> "type[Method]":
    """A class that can be a method, or an error that says why it cannot."""
    from coteach.methods.base import Method

    if not isinstance(method, type) or not issubclass(method, Method):
        raise SettingError(f"method is {method!r}: give a name, or a class that inherits from coteach.Method")
    if not isinstance(getattr(method, "name", None), str):
        raise SettingError(f'{method.__name__} has no name: give it one, such as name = "mine"')
    if method.step is Method.step:
        raise SettingError(f"{method.__name__} has no step(): write one that returns Step(losses, picked)")
    return method


def settings_in(method: "type[Method]") -> dict[str, Field]:
    """The annotated attributes of a class and its bases that hold plain values, as `fields_of` finds them in a file."""
    found = {}
    for owner in reversed(method.__mro__):
        if owner.__module__ in ("coteach.methods.base", "builtins") or owner.__module__.startswith("torch."):
            continue
        for name, kind in _annotations(owner).items():
            if name == "name" or name not in vars(owner) or kind is ClassVar or get_origin(kind) is ClassVar:
                continue
            if not _plain(kind):
                raise SettingError(
                    f"{owner.__name__}.{name} is annotated with {kind}: a setting is a bool, int, float, str or "
                    "Literal, anything else a ClassVar"
                )
            found[name] = Field(name, kind, vars(owner)[name], "")
    return found


def _annotations(owner: type) -> dict[str, Any]:
    try:
        return inspect.get_annotations(owner, eval_str=True)
    except NameError as error:
        raise SettingError(f"an annotation of {owner.__name__} is not to be understood ({error})") from error


def _plain(kind: Any) -> bool:
    if get_origin(kind) in (Union, UnionType):
        return all(map(_plain, get_args(kind)))
    return kind in (bool, int, float, str, NoneType) or get_origin(kind) is Literal
