"""Which methods there are. A method is registered by its file being in this folder.

A file holds a method when one of its classes has `name = "..."`. Names and settings are read from the sources,
so that listing them needs no torch.
"""

import ast
import hashlib
import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coteach import methods
from coteach.config import config_fields
from coteach.errors import SettingError, unknown
from coteach.fields import Field, classes, fields_of, imported

if TYPE_CHECKING:
    from coteach.methods.base import Method

_OWN = Path(__file__).parent
_Classes = dict[str, ast.ClassDef]
_WITHOUT_SETTINGS = {"Module", "NamedTuple", "ABC", "Generic", "Protocol", "object"}


@dataclass(frozen=True)
class Entry:
    """A method as the catalogue knows it."""

    name: str
    summary: str
    """The first line of its docstring."""
    settings: dict[str, Field]
    file: Path
    class_name: str


def entries() -> dict[str, Entry]:
    """Every method by name, in alphabetical order of their files."""
    paths = sorted((path for folder in methods.__path__ for path in _files(Path(folder))), key=lambda p: p.stem)
    files: dict[Path, _Classes] = {path: {node.name: node for node in classes(path)} for path in paths}
    known: dict[str, Entry] = {}
    for path, found in files.items():
        for node in found.values():
            name = _name(node)
            if name is None:
                continue
            if name in known:
                raise SettingError(f"{path} and {known[name].file} both hold a method {name!r}: rename one")
            settings = {field.name: field for field in _inherited(node, path, files)}
            for clash in settings.keys() & config_fields().keys():
                raise SettingError(f"{path}: a run has a setting {clash!r} already; give the method's another name")
            summary = (ast.get_docstring(node) or "").partition("\n")[0]
            known[name] = Entry(name, summary, settings, path, node.name)
    return known


def entry(name: str) -> Entry:
    """The method of that name."""
    known = entries()
    if name not in known:
        raise unknown("method", name, known, "`coteach methods` explains them")
    return known[name]


def settings_of(name: str) -> dict[str, Field]:
    """The settings of a method by name."""
    return entry(name).settings


def check_setting(name: str, setting: str, said: str = "") -> None:
    """Refuse a setting that only other methods have; `said` is what the user calls it."""
    owners = [other for other, found in entries().items() if setting in found.settings]
    if owners and name not in owners:
        raise SettingError(
            f"{name} has no setting {said or setting}: leave it out, or take a method with it, {' or '.join(owners)}"
        )


def source_sha256(name: str) -> str | None:
    """A hash of the file of a method that does not come with coteach, so that a changed one is another run."""
    file = entry(name).file
    return None if file.parent == _OWN else hashlib.sha256(file.read_bytes()).hexdigest()


def load(name: str) -> "type[Method]":
    """The class of the method of that name."""
    where = entry(name)
    loaded: type[Method] = getattr(importlib.import_module(f"{methods.__name__}.{where.file.stem}"), where.class_name)
    return loaded


def _files(folder: Path) -> list[Path]:
    """The files of a folder of methods; those of another folder than ours must have names of their own."""
    if not folder.is_dir():
        raise SettingError(f"COTEACH_METHODS names {folder}, which is no folder")
    found = list(folder.glob("*.py"))
    for path in found if folder != _OWN else []:
        if (_OWN / path.name).exists():
            raise SettingError(f"{path} has the name of a file of coteach's own: give it another")
    return found


def _inherited(node: ast.ClassDef, path: Path, files: dict[Path, _Classes]) -> list[Field]:
    """The settings of a class after those of its bases, which must be in files of methods too."""
    found: list[Field] = []
    for base in node.bases:
        plain = base.value if isinstance(base, ast.Subscript) else base
        said = plain.attr if isinstance(plain, ast.Attribute) else ast.unparse(plain)
        name = imported(path).get(said, said)
        places = [(path, files[path]), *files.items()]
        home = next(((where, each[name]) for where, each in places if name in each and each[name] is not node), None)
        if home is not None:
            found += _inherited(home[1], home[0], files)
        elif name not in _WITHOUT_SETTINGS:
            raise SettingError(
                f"{path}: {node.name} inherits from {said}, whose settings are not to be found: "
                "define it in a file beside, or inherit from Method"
            )
    return [*found, *(field for field in fields_of(node) if field.name != "name")]


def _name(node: ast.ClassDef) -> str | None:
    """What a class says in `name = "..."`."""
    for statement in node.body:
        targets: list[ast.expr] = []
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        named = any(isinstance(target, ast.Name) and target.id == "name" for target in targets)
        value = getattr(statement, "value", None)
        if named and isinstance(value, ast.Constant) and isinstance(value.value, str):
            return value.value
    return None
