"""Copies of somebody's data in which some labels are others and all else is as it was."""

import csv
import io
import os
import re
import shutil
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from coteach.data.arrays import labels_beside
from coteach.data.folders import listed_path
from coteach.data.readers import damage_named
from coteach.errors import DataError, SettingError
from coteach.storage import written_over

T = TypeVar("T")

Names = Mapping[int, str]
"""The name of the class by the row, counted from 0."""


def spelled(where: Path, cells: Sequence[T], given: Names, new: Names) -> dict[int, T]:
    """What to write in each row that changes: a class is written as it mostly is in the rows that have it.

    So 1.0 stays 1.0 where an audit says 1. A row that now holds the label of another class than it did in the audit
    is an error: the data has been changed since.
    """
    if given and max(given) >= len(cells):
        raise DataError(f"{where} has {len(cells):,} rows, the audit saw row {max(given)}: make the audit again")
    names: dict[T, Counter[str]] = {}
    spellings: dict[str, Counter[T]] = {}
    for row, name in given.items():
        names.setdefault(cells[row], Counter())[name] += 1
        spellings.setdefault(name, Counter())[cells[row]] += 1
    for row, name in given.items():
        usual = names[cells[row]].most_common(1)[0][0]
        if usual != name:
            raise DataError(
                f"row {row} of {where} is {usual!r} and was {name!r} in the audit: the data was changed since then, "
                "make the audit again"
            )
    for name in new.values():
        if name not in spellings:
            raise DataError(f"no row of {where} has the label {name!r}, so that nobody knows how it is written there")
    return {row: spellings[name].most_common(1)[0][0] for row, name in new.items()}


def write_files(root: Path, labels: Iterable[tuple[str, str]], out: Path) -> None:
    """A list of images with their labels as CSV; `labels` has their paths from `root`."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(("file", "label"))
    table.writerows((_from(listed_path(root, name), out.parent), label) for name, label in labels)
    with written_over(out) as file:
        file.write(text.getvalue().encode())


def _from(path: Path, folder: Path) -> str:
    """A path from a folder, so that both can be moved together; absolute where no way leads from one to the other."""
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:  # on another drive
        return path.absolute().as_posix()


def write_csv(source: Path, label: str, given: Names, new: Names, out: Path) -> None:
    """The table with the labels of some rows changed; every other byte stays."""
    with damage_named(str(source), "make the audit again"):
        text = source.read_bytes().decode()
        mark = "\ufeff" if text.startswith("\ufeff") else ""
        text = text.removeprefix(mark)
        comma = "\t" if source.suffix.lower() == ".tsv" else max(",;\t", key=text.partition("\n")[0].count)
        records = list(_records(text, comma))
        names, *rows = (number for number, (fields, _) in enumerate(records) if fields)  # blank lines are no rows
        place = _place([name.strip() for name in records[names][0]], label, source)
        cells = [records[number][0][place].strip() for number in rows]
    lines = [line for _, line in records]
    for row, cell in spelled(source, cells, given, new).items():
        lines[rows[row]] = _with_field(lines[rows[row]], place, cell, comma)
    with written_over(out) as file:
        file.write((mark + "".join(lines)).encode())


def _place(names: list[str], label: str, source: Path) -> int:
    if label not in names:
        raise DataError(f"{source} has no column {label!r} any more: make the audit again")
    return names.index(label)


def _records(text: str, comma: str) -> Iterator[tuple[list[str], str]]:
    """Each record of a CSV text, taken apart and as it stands there."""
    taken: list[str] = []

    def lines() -> Iterator[str]:
        for line in io.StringIO(text, newline=""):
            taken.append(line)
            yield line

    for fields in csv.reader(lines(), delimiter=comma):  # it asks for no line before it needs it
        yield fields, "".join(taken)
        taken.clear()


def _with_field(record: str, place: int, cell: str, comma: str) -> str:
    """The record with one field replaced: a field is a quoted part, if it starts with one, and all up to a comma."""
    field = re.compile(rf'(?:"(?:[^"]|"")*")?[^{comma}\r\n]*')
    start = 0
    for _ in range(place):
        found = field.match(record, start)
        assert found is not None  # it matches nothing, too
        start = found.end() + 1
    found = field.match(record, start)
    assert found is not None
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=comma, lineterminator="\r\n").writerow([cell])  # by which it knows what to quote
    return record[:start] + buffer.getvalue().removesuffix("\r\n") + record[found.end() :]


def write_parquet(source: Path, label: str, given: Names, new: Names, out: Path) -> None:
    """The table with the labels of some rows changed, all columns of the types that they had."""
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        raise SettingError("writing Parquet needs pyarrow: pip install 'coteach[parquet]'") from None
    with damage_named(str(source), "write it again"):
        table = parquet.read_table(source)
    place = _place(list(table.column_names), label, source)
    values = table.column(place).to_pylist()
    for row, value in spelled(source, values, given, new).items():
        values[row] = value
    kind = table.schema.field(place)
    table = table.set_column(place, kind, arrow.array(values, type=kind.type))
    with written_over(out) as file:
        parquet.write_table(table, file)


def write_npz(source: Path, given: Names, new: Names, out: Path) -> None:
    """The file with y_train (or y) changed; all other arrays are copied as they are."""
    with damage_named(str(source), "write it again with numpy.savez"), zipfile.ZipFile(source) as arrays:
        wanted = {name.removesuffix(".npy").lower(): name for name in arrays.namelist()}
        labels = wanted.get("y_train") if {"x_train", "y_train"} & wanted.keys() else wanted.get("y")
        if labels is None:
            raise DataError(f"{source} holds no labels any more: make the audit again")
        with written_over(out) as file, zipfile.ZipFile(file, "w") as copy:
            for info in arrays.infolist():
                with arrays.open(info) as before, copy.open(_like(info), "w", force_zip64=True) as after:
                    if info.filename == labels:
                        y = np.lib.format.read_array(before, allow_pickle=False)
                        np.lib.format.write_array(after, _changed(source, y, given, new), allow_pickle=False)
                    else:
                        shutil.copyfileobj(before, after)


def _like(info: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """A file in an archive of the same name, date and compression."""
    like = zipfile.ZipInfo(info.filename, info.date_time)
    like.compress_type, like.external_attr = info.compress_type, info.external_attr
    return like


def write_npy(samples: Path, label: str, given: Names, new: Names, out: Path) -> None:
    """The labels of an .npy file of samples, with some of them changed."""
    source = labels_beside(samples, label)
    with damage_named(str(source), "write it again with numpy.save"), source.open("rb") as file:
        y = np.lib.format.read_array(file, allow_pickle=False)
    with written_over(out) as file:
        np.lib.format.write_array(file, _changed(source, y, given, new), allow_pickle=False)


def _changed(source: Path, y: np.ndarray, given: Names, new: Names) -> np.ndarray:
    """The labels, [n] or [n, 1], with some of them changed."""
    changed: np.ndarray = y.copy()
    flat: np.ndarray[Any, Any] = changed.reshape(-1)
    for row, value in spelled(source, flat.tolist(), given, new).items():
        flat[row] = value
    return changed
