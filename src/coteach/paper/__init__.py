"""The numbers that the paper prints, as data, and the order in which it prints its methods."""

import tomllib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def tables() -> dict[str, Any]:
    """Everything in tables.toml."""
    return tomllib.loads(files("coteach.paper").joinpath("tables.toml").read_text(encoding="utf-8"))


def in_order(methods: Iterable[str]) -> list[str]:
    """Methods in the paper's order, those that it does not have after them."""
    printed = tables()["methods"]
    return sorted(methods, key=lambda name: (printed.index(name) if name in printed else len(printed), name))
