"""From what somebody decided about the suggestions of an audit to cleaned labels; the original is only read."""

import csv
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from coteach import data
from coteach.audit import corrected
from coteach.audit.issues import Suggestion, read_suggestions
from coteach.data.doors import SUFFIXES
from coteach.data.folders import listed_path
from coteach.errors import DataError, SettingError, StorageError
from coteach.storage import storage_errors, written_over

ISSUES = "label_issues.csv"
ABOUT = "audit.json"
COLUMNS = ("id", "given_label", "suggested_label", "decision")

Decision = Literal["accept", "reject"]
Key = tuple[str, str]
"""A sample by its id and its given label: a list of files may have one file twice, with two labels."""


@dataclass(frozen=True)
class Source:
    """What was audited, as audit.json says."""

    data: str
    """The absolute path of the file or the folder, or the name of a known dataset."""
    kind: Literal["images", "table", "arrays"]
    label: str = ""
    """Of a table, the column of labels; of an .npy file, the file of labels."""
    class_names: tuple[str, ...] = ()
    noise: str = "none"
    """What was put on the labels, to try the audit."""
    fingerprint: str = ""
    """Of the data as they were."""
    blind: bool = False
    """Whether the audit's networks guessed the labels no better than chance."""

    @property
    def suffix(self) -> str:
        """What the name of the cleaned labels ends with."""
        if self.kind == "images":
            return ".csv"
        return ".npz" if self.data in data.NAMES else Path(self.data).suffix.lower()

    @classmethod
    def read(cls, folder: Path) -> "Source":
        """That of the audit in a folder."""
        path = folder / ABOUT
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            kind, names = content["kind"], tuple(content["class_names"])
            if kind not in ("images", "table", "arrays"):
                raise ValueError(f"kind is {kind!r}")
            label, noise = str(content.get("label", "")), str(content.get("noise", "none"))
            blind = bool(content.get("noise_rate", {}).get("blind"))
            return cls(str(content["data"]), kind, label, names, noise, str(content.get("data_sha256", "")), blind)
        except OSError as error:
            hint = "give the folder that `coteach audit` wrote"
            raise StorageError(f"{folder} holds no audit ({path.name}: {error.strerror}): {hint}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} is damaged ({error}): make the audit again") from error

    def moved_to(self, place: Path) -> "Source":
        """The same data at another path; labels in a file of their own may have come along, or stayed."""
        if self.data in data.NAMES:
            raise SettingError(f"the audit is one of {self.data}, which is known by its name: leave --data out")
        if not place.exists():
            raise DataError(f"{place} does not exist: say with --data where the audited data lie now")
        was = Path(self.data).suffix.lower()
        if (was in SUFFIXES and place.suffix.lower() != was) or (was not in SUFFIXES and not place.is_dir()):
            raise SettingError(f"the audit is one of {Path(self.data).name}, and {place} is of another kind")
        label = self.label
        if label.endswith(".npy") and (beside := place.absolute().parent / Path(label).name).exists():
            label = str(beside)
        return replace(self, data=str(place.absolute()), label=label)


@dataclass(frozen=True)
class Applied:
    """What became of the labels."""

    out: Path
    labels: int
    changed: int
    rejected: int
    gone: int = 0
    """Audited images that are not there any more, and are left out."""


def apply(
    folder: Path,
    decisions: Path | None,
    out: Path,
    accept_above: float | None = None,
    *,
    moved_to: Path | None = None,
) -> Applied:
    """Write the labels of an audited dataset with the accepted suggestions in place of the labels given.

    `accept_above` accepts every suggestion of at least this score, unless `decisions` rejects it; `moved_to` says where
    the data lie now, if not where they were audited. What `out` becomes depends on the data: a copy of a table, an .npz
    or an .npy file with other labels, or for images a CSV of files and labels. Nothing is overwritten.
    """
    source = Source.read(folder)
    if moved_to is not None:
        source = source.moved_to(moved_to)
    if source.noise != "none" and source.data not in data.NAMES:
        raise SettingError(f"{folder} was made with --noise, to try it: audit the labels as they are first")
    if decisions is None and accept_above is None:
        raise SettingError("nothing to apply: give --decisions decisions.csv, --accept-above SCORE, or both")
    if accept_above is not None and not 0 <= accept_above <= 1:
        raise SettingError(f"accept_above is {accept_above:g}: a score lies between 0 and 1")
    if accept_above is not None and source.blind:
        raise SettingError(
            "the audit's networks guessed no better than chance, so its scores say nothing: decide by hand"
        )
    if out.suffix.lower() != source.suffix:
        raise SettingError(f"the cleaned labels go into a {source.suffix} file: give --out clean{source.suffix}")
    if out.exists() or out.is_symlink():
        raise SettingError(f"{out} is there already: give another --out, or delete it first")
    suggestions = read_suggestions(folder / ISSUES)
    kept = _still_there(source, suggestions)
    decided = {} if decisions is None else read_decisions(decisions, suggestions, source.class_names)
    rejected = sum(label is None for label in decided.values())
    if accept_above is not None:
        high = [each for each in suggestions if each.score >= accept_above and each.given != each.suggested]
        for each in high:
            decided.setdefault(_key(each), each.suggested)
    labels = [decided.get(_key(each)) or each.given for each in kept]
    _write(source, kept, labels, out)
    changed = sum(label != each.given for label, each in zip(labels, kept, strict=True))
    return Applied(out, len(labels), changed, rejected, len(suggestions) - len(kept))


def _still_there(source: Source, suggestions: list[Suggestion]) -> list[Suggestion]:
    """What was audited and can be written: of images those that are there, of others all, if nothing has changed."""
    if source.kind != "images":
        _check_unchanged(source)
        return suggestions
    root = _root(source)
    found = [each for each in suggestions if listed_path(root, each.id).is_file()]
    if not found and all(Path(each.id).is_absolute() for each in suggestions):
        raise DataError(f"none of the images is where {source.data} says, for it names whole paths: audit it anew")
    if not found:
        raise DataError(f"none of the audited images is in {root}: say where they are now with --data")
    return found


def _root(source: Source) -> Path:
    """The folder from which audited images have their names; that of a list is where the list is."""
    path = Path(source.data)
    return path.parent if path.suffix.lower() in SUFFIXES and not path.is_dir() else path


def _check_unchanged(source: Source) -> None:
    """Rows are called by their numbers, so a table or an array must be as it was."""
    if source.data in data.NAMES:
        return
    for each in (source.data, *([source.label] if source.label.endswith(".npy") else [])):
        if not Path(each).exists():
            raise DataError(f"{each}, which was audited, is not there any more: say where the data are now with --data")
    if not source.fingerprint:
        return
    if data.load(source.data, label=source.label, test_share=0).fingerprint != source.fingerprint:
        raise DataError(f"{source.data} has changed since the audit: audit it again, or put it back as it was")


def read_decisions(path: Path, suggestions: Sequence[Suggestion], classes: Sequence[str]) -> dict[Key, str | None]:
    """The label that each decision gives, None where one is rejected, from a file as the audit's page writes it.

    Who knows better changes suggested_label to another class. What does not fit to the audit is an error.
    """
    known = {_key(each) for each in suggestions}
    ids = {each.id for each in suggestions}
    found: dict[Key, str | None] = {}
    with storage_errors(path, "read"), path.open(encoding="utf-8-sig", newline="") as file:
        try:
            comma = max(",;\t", key=file.readline().count)  # a spreadsheet may have written it anew
            file.seek(0)
            table = csv.DictReader(file, delimiter=comma)
            missing = [column for column in COLUMNS if column not in (table.fieldnames or ())]
            if missing:
                raise DataError(f"{path} has no column {missing[0]}: give the decisions.csv of the audit's page")
            for row in table:
                sample, given, suggested, said = (row[column] or "" for column in COLUMNS)
                where, key = f"{path}, line {table.line_num}", (sample, given)
                if sample not in ids:
                    raise DataError(f"{where}: the audit has no {sample!r}: give the decisions of this audit")
                if key not in known:
                    raise DataError(f"{where}: {sample!r} was not given {given!r}: give the decisions of this audit")
                if suggested not in classes:
                    raise DataError(
                        f"{where}: {suggested!r} is no class of the audit: take one of {', '.join(classes)}"
                    )
                decision = _decision(said, where)
                if decision is None:
                    continue
                label = suggested if decision == "accept" else None
                if found.setdefault(key, label) != label:
                    raise DataError(f"{where}: {sample!r} is decided in two ways: leave one of them")
        except (UnicodeDecodeError, csv.Error) as error:
            raise DataError(f"{path} is no CSV file in UTF-8 ({error}): download the decisions again") from error
    return found


def _decision(said: str, where: str) -> Decision | None:
    """None where nothing was decided."""
    word = said.strip().lower()
    if word == "accept":
        return "accept"
    if word == "reject":
        return "reject"
    if word:
        raise DataError(f"{where}: the decision is {said!r}: it must be accept or reject")
    return None


def _key(suggestion: Suggestion) -> Key:
    return suggestion.id, suggestion.given


def _write(source: Source, suggestions: Sequence[Suggestion], labels: Sequence[str], out: Path) -> None:
    if source.kind == "images":
        pairs = sorted((each.id, label) for each, label in zip(suggestions, labels, strict=True))
        corrected.write_files(_root(source), pairs, out)
        return
    path = Path(source.data)
    rows = [_row(each.id) for each in suggestions]
    if source.data in data.NAMES:
        _write_known(source, dict(zip(rows, labels, strict=True)), out)
        return
    given = {row: each.given for row, each in zip(rows, suggestions, strict=True)}
    new = {row: label for row, label in zip(rows, labels, strict=True) if label != given[row]}
    writers: dict[str, Callable[[], Any]] = {
        ".csv": lambda: corrected.write_csv(path, source.label, given, new, out),
        ".tsv": lambda: corrected.write_csv(path, source.label, given, new, out),
        ".parquet": lambda: corrected.write_parquet(path, source.label, given, new, out),
        ".npz": lambda: corrected.write_npz(path, given, new, out),
        ".npy": lambda: corrected.write_npy(path, source.label, given, new, out),
    }
    if source.suffix not in writers:
        raise DataError(f"{path} is no table and no .npz or .npy file: its labels can only be read in {ISSUES}")
    writers[source.suffix]()


def _row(text: str) -> int:
    if not text.isdecimal():
        raise DataError(f"{ISSUES} holds the id {text!r}, which is no row number: make the audit again")
    return int(text)


def _write_known(source: Source, names: dict[int, str], out: Path) -> None:
    """A known dataset as .npz: the audit says every label, for it may have been made with labels drawn wrong."""
    dataset = data.load(source.data)
    number = {name: place for place, name in enumerate(source.class_names)}
    y = dataset.y_train.copy()
    for row, name in names.items():
        if row >= len(y) or name not in number:
            raise DataError(f"row {row} with the label {name!r} is not in {source.data}: make the audit again")
        y[row] = number[name]
    with written_over(out) as file:
        np.savez_compressed(
            file,
            x_train=dataset.x_train,
            y_train=y,
            x_test=dataset.x_test,
            y_test=dataset.y_test,
            class_names=np.array(dataset.class_names),
        )
