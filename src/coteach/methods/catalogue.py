"""Which methods there are. A method is registered by its file being in this folder, or by its class being handed over.

A file holds a method when one of its classes has `name = "..."`. Names and settings are read from the sources,
so that listing them needs no torch.
"""

import ast
import hashlib
import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from coteach import methods
from coteach.config import config_fields
from coteach.errors import SettingError, unknown
from coteach.fields import Field, classes, fields_of, imported, imports
from coteach.methods.typed_in import checked_class, settings_in

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
    loaded: "type[Method] | None" = None
    """The class itself, if it was handed over."""


_handed_over: dict[str, Entry] = {}
"""The methods of this process that are in no file of methods."""


def name_of(method: "str | type[Method]") -> str:
    """The name of a method. A class is known by it from now on, in this process, or until another one has it."""
    if isinstance(method, str):
        return method
    loaded = checked_class(method)
    in_file = _in_files().get(loaded.name)
    if in_file is None:
        summary = (loaded.__doc__ or "").partition("\n")[0]
        home = Path(getattr(sys.modules.get(loaded.__module__), "__file__", None) or loaded.__module__)
        settings = _unlike_a_runs(settings_in(loaded), loaded.__name__)
        _handed_over[loaded.name] = Entry(loaded.name, summary, settings, home, loaded.__name__, loaded)
    elif load(loaded.name) is not loaded:
        raise SettingError(
            f"{in_file.file} holds a method {loaded.name!r} already: give {loaded.__name__} another name"
        )
    return loaded.name


def entries() -> dict[str, Entry]:
    """Every method by name, in alphabetical order of their files; those that were handed over come last."""
    return _in_files() | _handed_over


def _in_files() -> dict[str, Entry]:
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
            settings = _unlike_a_runs({field.name: field for field in _inherited(node, path, files)}, path)
            summary = (ast.get_docstring(node) or "").partition("\n")[0]
            known[name] = Entry(name, summary, settings, path, node.name)
    return known


def _unlike_a_runs(settings: dict[str, Field], where: Path | str) -> dict[str, Field]:
    """Settings after a check that none is called like one of a run."""
    for clash in settings.keys() & config_fields().keys():
        raise SettingError(f"{where}: a run has a setting {clash!r} already; give the method's another name")
    return settings


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
    """A hash of a method that does not come with coteach, so that a changed one is another run: of its file, and of
    the files beside it that it imports.
    """
    found = entry(name)
    if found.loaded is not None:
        from coteach.function_source import source_sha256 as source_of

        return source_of(found.loaded)
    if found.file.parent == _OWN:
        return None
    return hashlib.sha256(b"".join(each.read_bytes() for each in _with_imports(found.file))).hexdigest()


def _with_imports(file: Path) -> list[Path]:
    """A file, and after it those of its folder that it imports, and those that they import."""
    found, waiting = [file], [file]
    while waiting:
        for module in imports(waiting.pop()):
            beside = file.with_name(f"{module.rpartition('.')[2]}.py")
            if beside not in found and beside.exists():
                found.append(beside)
                waiting.append(beside)
    return [file, *sorted(found[1:])]


def load(name: str) -> "type[Method]":
    """The class of the method of that name."""
    where = entry(name)
    if where.loaded is not None:
        return where.loaded
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
    return [*found, *(field for field in fields_of(node, strict=True) if field.name != "name")]


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
