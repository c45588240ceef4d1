"""Flags made from fields: each setting of a config or a method becomes one, with its docstring as help."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypedDict, get_origin

import tyro

from coteach.errors import SettingError
from coteach.fields import Field

_METAVARS = {int: "INT", float: "NUMBER", str: "TEXT"}


def options(name: str, fields: Iterable[Field], defaults: Mapping[str, Any]) -> Any:
    """A dictionary type for tyro with one flag a field; a flag that was not given is not in it.

    `defaults` are only shown: what a missing flag means depends on the recipe.
    """
    flags = {}
    for item in fields:
        shown = defaults.get(item.name)
        hint = f"(default: {_shown(shown)})" if shown is not None else ""
        kind, metavar = item.type, _METAVARS.get(item.type)
        if item.type is bool:
            kind, metavar = Literal["yes", "no"], "yes|no"
        elif get_origin(item.type) is Literal:
            metavar = "|".join(map(str, item.type.__args__))
        flags[item.name] = Annotated[kind, tyro.conf.arg(help=item.doc, help_behavior_hint=hint, metavar=metavar)]
    return TypedDict(name, flags, total=False)  # type: ignore[operator]


def given(parsed: Mapping[str, Any], fields: Iterable[Field]) -> dict[str, Any]:
    """The flags that were given."""
    switches = {item.name for item in fields if item.type is bool}
    return {name: value == "yes" if name in switches else value for name, value in parsed.items()}


def peek(argv: list[str], flag: str) -> str | None:
    """The value of a flag before the arguments are parsed: which flags there are may depend on it."""
    found = None
    for place, word in enumerate(argv):
        if word == flag and place + 1 < len(argv):
            found = argv[place + 1]
        elif word.startswith(f"{flag}="):
            found = word.partition("=")[2]
    return found  # given twice, the last one counts


def share(name: str, asked: str | float) -> float | None:
    """The share of wrong labels that a flag gives; None for auto, which is to be estimated."""
    if asked == "auto":
        return None
    try:
        rate = float(asked)
    except ValueError:
        raise SettingError(f"{name} is {asked!r}: give auto or a number, such as 0.2") from None
    if not 0 <= rate < 1:
        raise SettingError(f"{name} is {rate:g}: it is a share, from 0 to below 1, such as 0.2")
    return rate


def _shown(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
