"""The doors for data of the user's own: which kind lies at a path, and which files it consists of."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from coteach.data import arrays, images, tables
from coteach.data.arrays import Arrays, labels_beside, read_arrays, read_test_arrays
from coteach.data.folders import ImageFiles, file_column, labelled_folder, listed_files, may_list_files
from coteach.data.images import files_sha256
from coteach.data.known import CATALOGUE
from coteach.data.notes import left_out
from coteach.data.tables import Table, column_names, label_column, labels_in, read_table
from coteach.errors import CoteachError, DataError, SettingError

SUFFIXES = (*tables.SUFFIXES, *arrays.SUFFIXES)
"""Of the files that are data by themselves."""
_KINDS = "the path of a folder of images or of a .csv, .tsv, .parquet, .npz or .npy file"


@dataclass(frozen=True)
class Rows:
    """The rows of a table that have a label."""

    where: str
    """The table's file, for errors."""
    table: Table
    label: str
    """The name of the column of labels."""
    ids: tuple[str, ...]
    labels: tuple[str, ...]
    notes: tuple[str, ...] = ()


Source = ImageFiles | Rows | Arrays


def existing(path: Path) -> Path:
    """The path, after a check that something of a known kind lies there."""
    if not path.exists():
        raise DataError(f"{path} does not exist: give {_KINDS}, or a name ({', '.join(CATALOGUE)})")
    if not path.is_dir() and path.suffix.lower() not in (*SUFFIXES, *images.SUFFIXES):
        raise DataError(f"{path} is of no known kind: give {_KINDS}")
    return path


def opened(path: Path, label: str = "") -> tuple[Source, Source | None]:
    """The labelled data at a path, and the test set that lies there too; `label` says where the labels are."""
    if existing(path).is_dir():
        if label:
            raise SettingError(f"{path} is a folder, whose subfolders are the labels: leave --label {label} out")
        return labelled_folder(path)
    if path.suffix.lower() in arrays.SUFFIXES:
        found = read_arrays(path, label)
        return found, found.test
    if images.is_image(path):
        raise DataError(f"{path} is one image: give a folder of images, one subfolder a class, or a CSV of files")
    return _opened_table(path, label), None


def opened_test(path: Path, source: Source, label: str = "") -> Source:
    """The test set at a path, for training data that were opened with the same `label`."""
    if existing(path).is_dir():
        return labelled_folder(path)[0]
    if path.suffix.lower() in arrays.SUFFIXES:
        return read_test_arrays(path)
    if path.suffix.lower() in tables.SUFFIXES:
        if isinstance(source, ImageFiles):
            return _opened_table(path, label, source.labels)
        return _opened_table(path, source.label if isinstance(source, Rows) else label)
    return opened(path, label)[0]


def version(path: Path, *, label: str = "", test: str = "") -> str:
    """Changes when a file of the data comes, goes or is written to. Of the data themselves nothing is read."""
    found = _files(path, label)
    return files_sha256([*found, *_files(Path(test).expanduser(), "")] if test else found)


def _files(path: Path, label: str) -> list[Path]:
    """The files that data consist of; what is wrong with them is told by those who read them."""
    found = [path]
    try:
        if path.is_dir():
            train, test = labelled_folder(path)
            found += [*train.paths, *(() if test is None else test.paths)]
        elif path.suffix.lower() == ".npy":
            found.append(labels_beside(path, label))
        elif path.suffix.lower() in tables.SUFFIXES:
            table = read_table(path)[0] if may_list_files(column_names(path)) else {}
            if file_column(table) is not None:
                found += listed_files(table, path, None).paths
    except CoteachError:
        pass
    return found


def _opened_table(path: Path, label: str, classes: Collection[str] = ()) -> ImageFiles | Rows:
    table, notes = read_table(path)
    column, files = label_column(table, label, path), file_column(table)
    if files is not None and files != column:
        listed = listed_files(table, path, column, classes)
        others = [name for name in table if name not in (files, column)]
        return replace(listed, notes=(*notes, *left_out(others, "column", "of a list of images"), *listed.notes))
    labels = labels_in(table[column])
    kept = [row for row, given in enumerate(labels) if given]
    lost = [f"row {row}" for row, given in enumerate(labels) if not given]
    if not kept:
        raise DataError(f"{path}: no row has a {column}: name another column with --label")
    return Rows(
        str(path),
        {name: cells[kept] for name, cells in table.items()},
        column,
        tuple(map(str, kept)),
        tuple(labels[row] for row in kept),
        (*notes, *left_out(lost, "row", "without a label", len(labels))),
    )
