"""Flags made from fields: each setting of a config or a method becomes one, with its docstring as help."""

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, field, make_dataclass
from typing import Annotated, Any, Literal, get_origin

import tyro

from coteach.errors import SettingError
from coteach.fields import Field

_METAVARS = {int: "INT", float: "NUMBER", str: "TEXT"}


def options(name: str, fields: Iterable[Field], defaults: Mapping[str, Any], required: Iterable[str] = ()) -> Any:
    """A dataclass for tyro with one optional flag a field; a flag that was not given holds None.

    `defaults` are only shown: what a missing flag means depends on the recipe.
    """
    parts: list[Any] = []
    for item in fields:
        must = item.name in required
        shown = defaults.get(item.name)
        hint = "(required)" if must else f"(default: {_shown(shown)})" if shown is not None else ""
        kind = item.type if must else item.type | None
        metavar = _METAVARS.get(item.type)
        if item.type is bool:
            kind, metavar = Literal["yes", "no"] | None, "yes|no"
        elif get_origin(item.type) is Literal:
            metavar = "|".join(map(str, item.type.__args__))
        note = tyro.conf.arg(help=item.doc, help_behavior_hint=hint, metavar=metavar)
        parts.append((item.name, Annotated[kind, note], field(default=MISSING if must else None)))
    parts.sort(key=lambda part: part[0] not in required)
    return make_dataclass(name, parts, frozen=True)


def given(parsed: Any, fields: Iterable[Field]) -> dict[str, Any]:
    """The flags that were given."""
    values = {}
    for item in fields:
        value = getattr(parsed, item.name)
        if value is not None:
            values[item.name] = value == "yes" if item.type is bool else value
    return values


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
