"""The lines that tell what was done to somebody's data: what was left out, and what was held out."""

from collections.abc import Sequence
from typing import Any


def left_out(names: Sequence[str], what: str, which: str, of: int | None = None) -> tuple[str, ...]:
    """The line about things that were left out, with the first few named; none if there are none."""
    if not names:
        return ()
    are = "is" if len(names) == 1 else "are"
    total = "" if of is None else f" of {of:,}"
    return (f"{counted(names, what)} {which} {are} left out{total}: {first_few(names)}",)


def part_held_out(number: int, of: int) -> str:
    """The line about a test set that is none of its own."""
    if not number:
        return f"no test set was given, and none of {of:,} samples can be spared for one"
    are, their = ("is", "its label") if number == 1 else ("are", "their labels")
    return f"no test set was given: {number:,} of {of:,} samples {are} held out, and {their} may be wrong too"


def counted(things: Sequence[Any], what: str) -> str:
    """How many of what: 1 image, 2 images."""
    return f"{len(things):,} {what}" + ("" if len(things) == 1 else "s")


def first_few(names: Sequence[str], most: int = 3) -> str:
    """The first of many names."""
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")


def spelt_alike(class_names: Sequence[str]) -> list[str]:
    """The line about classes whose names differ in capitals or spaces only, if there are any."""
    found: dict[str, list[str]] = {}
    for name in class_names:
        found.setdefault("".join(name.casefold().split()), []).append(name)
    alike = next((names for names in found.values() if len(names) > 1), None)
    return [] if alike is None else [f"{' and '.join(map(repr, alike))} count as different classes: mend the labels"]
