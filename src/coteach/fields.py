"""The settings of a class with their types, defaults and docstrings, read from its source.

Importing torch takes longer than printing help should. So the command line and the catalogue of methods read
the annotated fields of a class, and the docstring under each, from the file instead of importing it.
"""

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from coteach.errors import SettingError, unknown

_TYPES = {"bool": bool, "int": int, "float": float, "str": str, "Literal": Literal}


@dataclass(frozen=True)
class Field:
    """One setting: its name, its type, its default and the docstring under it."""

    name: str
    type: Any
    default: Any
    doc: str


def classes(path: Path) -> tuple[ast.ClassDef, ...]:
    """The classes that a Python file defines at its top level."""
    return _classes(path, path.stat().st_mtime_ns)


def imported(path: Path) -> dict[str, str]:
    """What a file calls by another name: the real one of each `from ... import a as b`."""
    found = [node for node in _tree(path, path.stat().st_mtime_ns).body if isinstance(node, ast.ImportFrom)]
    return {alias.asname: alias.name for node in found for alias in node.names if alias.asname}


def imports(path: Path) -> list[str]:
    """The modules that a file imports, and the names that it imports from them, which may be modules, too.

    Each is as the file has it, with a dot in front for each level of a relative import.
    """
    found: list[str] = []
    for node in ast.walk(_tree(path, path.stat().st_mtime_ns)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            found += [base, *(base.removesuffix(".") + f".{alias.name}" for alias in node.names)]
    return found


@cache
def _classes(path: Path, changed: int) -> tuple[ast.ClassDef, ...]:
    return tuple(node for node in _tree(path, changed).body if isinstance(node, ast.ClassDef))


@cache
def _tree(path: Path, changed: int) -> ast.Module:
    try:
        return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    except SyntaxError as error:
        raise SettingError(f"{path} is not valid Python: line {error.lineno}: {error.msg}") from error


@cache  # by the node itself: a file that changed is parsed anew
def fields_of(node: ast.ClassDef, *, strict: bool = False) -> tuple[Field, ...]:
    """The annotated attributes of a class that hold plain values; others are not settings.

    `strict` refuses an attribute with a value whose annotation is neither a plain type nor a ClassVar.
    """
    found = []
    for statement, after in zip(node.body, [*node.body[1:], None], strict=True):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        try:
            kind = eval(ast.unparse(statement.annotation), {"__builtins__": {}}, _TYPES)
        except (NameError, TypeError, AttributeError):
            said = ast.unparse(statement.annotation)
            if strict and statement.value is not None and "ClassVar" not in said:
                raise SettingError(
                    f"{node.name}.{statement.target.id} is annotated with {said}: a setting is a bool, int, float, str "
                    "or Literal, anything else a ClassVar"
                ) from None
            continue
        try:
            default = ast.literal_eval(statement.value) if statement.value else None
        except ValueError:
            where = f"{node.name}.{statement.target.id}"
            raise SettingError(
                f"the default of {where} must be a plain value, it is {ast.unparse(statement)!r}"
            ) from None
        found.append(Field(statement.target.id, kind, default, _docstring(after)))
    return tuple(found)


def _docstring(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return " ".join(node.value.value.split())
    return ""


def checked(values: Mapping[str, Any], fields: Mapping[str, Field], owner: str) -> dict[str, Any]:
    """`values` after a check that each is known to `fields` and of its type; whole numbers pass for floats."""
    result = {}
    for name, value in values.items():
        if name not in fields:
            raise unknown(f"setting of {owner}", name, fields)
        result[name] = _as(value, fields[name], owner)
    return result


def _as(value: Any, field: Field, owner: str) -> Any:
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        raise SettingError(f"{field.name} is {value}: give a finite number")
    choices = getattr(field.type, "__args__", ())
    if getattr(field.type, "__origin__", None) is Literal:
        if value in choices:
            return value
        wanted = "one of " + ", ".join(map(repr, choices))
    else:
        kinds = choices or (field.type,)
        if type(value) in kinds:
            return value
        if float in kinds and type(value) is int:
            return float(value)
        wanted = " or ".join("none" if kind is type(None) else kind.__name__ for kind in kinds)
    raise SettingError(f"{field.name} of {owner} is {value!r}: give {wanted}")
