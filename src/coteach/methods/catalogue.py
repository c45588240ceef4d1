"""Which methods there are. A method is registered by its file being in this folder.

A file holds a method when one of its classes has `name = "..."`. Names and settings are read from the sources,
so that listing them needs no torch.
"""

import ast
import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coteach import methods
from coteach.errors import unknown
from coteach.fields import Field, classes, fields_of

if TYPE_CHECKING:
    from coteach.methods.base import Method


@dataclass(frozen=True)
class Entry:
    """A method as the catalogue knows it."""

    name: str
    summary: str
    """The first line of its docstring."""
    settings: dict[str, Field]
    module: str
    class_name: str


def entries() -> dict[str, Entry]:
    """Every method by name, in alphabetical order of their files."""
    files = sorted((path for folder in methods.__path__ for path in Path(folder).glob("*.py")), key=lambda p: p.stem)
    nodes = {node.name: (node, file.stem) for file in files for node in classes(file)}
    found = {}
    for node, module in nodes.values():
        name = _constant(node, "name")
        if name is not None:
            summary = (ast.get_docstring(node) or "").partition("\n")[0]
            settings = {field.name: field for field in _inherited(node, nodes)}
            found[name] = Entry(name, summary, settings, f"{methods.__name__}.{module}", node.name)
    return found


def entry(name: str) -> Entry:
    """The method of that name."""
    known = entries()
    if name not in known:
        raise unknown("method", name, known, "`coteach methods` explains them")
    return known[name]


def settings_of(name: str) -> dict[str, Field]:
    """The settings of a method by name."""
    return entry(name).settings


def load(name: str) -> "type[Method]":
    """The class of the method of that name."""
    where = entry(name)
    loaded: type[Method] = getattr(importlib.import_module(where.module), where.class_name)
    return loaded


def _inherited(node: ast.ClassDef, nodes: dict[str, tuple[ast.ClassDef, str]]) -> list[Field]:
    """The settings of a class after those of its bases."""
    bases = [nodes[base.id][0] for base in node.bases if isinstance(base, ast.Name) and base.id in nodes]
    return [field for base in bases for field in _inherited(base, nodes)] + fields_of(node)


def _constant(node: ast.ClassDef, name: str) -> str | None:
    for statement in node.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
            targets = [target.id for target in statement.targets if isinstance(target, ast.Name)]
            if name in targets and isinstance(statement.value.value, str):
                return statement.value.value
    return None
