"""Tables (CSV, Parquet) as vectors: which columns count, how missing values are filled, and what was done, in words."""

import csv
import difflib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from coteach.data.labels import plain
from coteach.data.notes import first_few
from coteach.errors import DataError, SettingError, StorageError, unknown

if TYPE_CHECKING:
    from _csv import Reader

Cells = NDArray[Any]
"""A column: texts, or float64 with NaN for a missing value."""
Table = dict[str, Cells]

SUFFIXES = (".csv", ".tsv", ".parquet")
LABEL_NAMES = ("label", "labels", "class", "target", "category", "y")
"""A column of such a name holds the labels, if no other is named."""
_MISSING = ("", "na", "n/a", "nan", "null", "none", "?")
_NO_LABEL = ("", "na", "n/a", "nan", "null", "?")  # "none" may well be a class
_MOST_CATEGORIES = 100  # a column with more is a name or a text, and would make a vector of thousands
_MOST_GAPS = 3  # columns with missing values that get a line each
_FEW_ROWS = 20  # with fewer, whole numbers may all differ by chance
_IDENTITY = re.compile(r"(?i:(^|[_\W])(id|idx|index|key|nr|no))$|[a-z](Id|ID)$")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")


def read_table(path: Path) -> tuple[Table, list[str]]:
    """The columns of a CSV file (comma, semicolon or tab) or of a Parquet file by name, and what was left out."""
    names, columns = _parquet(path) if path.suffix.lower() == ".parquet" else _csv(path)
    named = [name for name in names if name]
    if not named or len(set(named)) != len(named):
        raise DataError(f"{path}: its first line must name each column once: mend it")
    if not len(columns[0]):
        raise DataError(f"{path} has no rows below its first line: give at least one")
    table = {name: cells for name, cells in zip(names, columns, strict=True) if name}
    return table, [f"{path.name}: a column without a name is left out"] if len(table) < len(names) else []


def column_names(path: Path) -> list[str]:
    """The names of a table's columns, without reading more of it than that takes."""
    if path.suffix.lower() == ".parquet":
        return list(_arrow(path, lambda parquet: parquet.read_schema(path)).names)
    with _rows(path) as (rows, _):
        return [name.strip() for name in next(filter(None, rows), [])]


def _csv(path: Path) -> tuple[list[str], list[Cells]]:
    with _rows(path) as (rows, comma):
        names = [name.strip() for name in next(filter(None, rows), [])]
        columns: list[list[str]] = [[] for _ in names]
        for row in filter(None, rows):
            if len(row) != len(names):
                raise DataError(
                    f"{path}: line {rows.line_num} has {len(row)} values, the first line names {len(names)} columns: "
                    "mend it"
                )
            for column, value in zip(columns, row, strict=True):
                column.append(value.strip())
    if not names:
        raise DataError(f"{path} is empty: give a table whose first line names its columns")
    if comma == ";":  # where a semicolon separates, a comma stands in numbers
        columns = [[_pointed(value) for value in column] for column in columns]
    return names, [np.array(column, dtype=np.str_) for column in columns]


@contextmanager
def _rows(path: Path) -> "Iterator[tuple[Reader, str]]":
    """The rows of a CSV file, and what separates the values in them."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            first = file.readline()
            file.seek(0)
            comma = "\t" if path.suffix.lower() == ".tsv" else max(",;\t", key=first.count)
            yield csv.reader(file, delimiter=comma), comma
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is not a table in UTF-8 ({error}): save it as CSV in UTF-8") from error


def _pointed(value: str) -> str:
    return value.replace(",", ".") if _DECIMAL_COMMA.fullmatch(value) else value


def _parquet(path: Path) -> tuple[list[str], list[Cells]]:
    table = _arrow(path, lambda parquet: parquet.read_table(path))
    return list(table.column_names), [_cells(column) for column in table.columns]


def _arrow(path: Path, read: Callable[[Any], Any]) -> Any:
    """What is read from a Parquet file by pyarrow."""
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise SettingError("reading Parquet needs pyarrow: pip install 'coteach[parquet]', or save it as CSV") from None
    try:
        return read(parquet)
    except ArrowException as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path} is not a Parquet file ({reason}): write it again") from error
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from error


def _cells(column: Any) -> Cells:
    """A column of pyarrow's. Whole numbers are texts first, for as labels they keep every digit."""
    if str(column.type) in ("halffloat", "float", "double"):
        return np.asarray(column.to_numpy(), np.float64)
    return np.array(["" if value is None else str(value).strip() for value in column.to_pylist()], dtype=np.str_)


def label_column(table: Table, label: str, path: Path) -> str:
    """The name of the column of labels: the one that was named, or the only one with a usual name."""
    if label:
        if label not in table:
            near = list(table) if len(table) <= 20 else difflib.get_close_matches(label, list(table), 20, 0.0)
            raise unknown(f"column of {path.name}", label, near, "name the labels' column with --label")
        return label
    usual = [name for name in table if name.lower() in LABEL_NAMES]
    if len(usual) != 1:
        names = list(table)
        names = names if len(names) <= 20 else [*names[-10:], *names[:10]]  # labels mostly stand last
        shown = ", ".join(names) + (", ..." if len(table) > 20 else "")
        raise SettingError(f"which column of {path.name} holds the labels? give --label, one of: {shown}")
    return usual[0]


def labels_in(cells: Cells, classes: Collection[str] = ()) -> list[str]:
    """A column as labels, empty where one is missing; whole numbers without a point, as in 1 for 1.0.

    A word for a missing value that is the name of one of the `classes` is a label.
    """
    texts = _texts(cells)
    missing = np.isin(np.char.lower(texts), _NO_LABEL) & ~np.isin(texts, list(classes))
    return plain(np.where(missing, "", texts).tolist())


@dataclass(frozen=True)
class Column:
    """How one column becomes numbers.

    A column of numbers is one number: missing values become the median, then the mean is taken off and the rest
    divided by the standard deviation. A column of texts is one number a category, which is 0 or 1.
    """

    name: str
    median: float = 0.0
    mean: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] = ()
    missing: bool = False
    """Whether values were missing; then one number more says where they are."""

    def encoded(self, cells: Cells, where: str) -> NDArray[np.float64]:
        """The column's numbers, [n, width]. A category that training never saw counts as missing."""
        if self.categories:
            present = _present(cells)
            values = (present[:, None] == np.array(self.categories)).astype(np.float64)
            absent = ~values.any(1)
        else:
            numbers = _numbers(cells)
            if numbers is None:
                raise DataError(f"{where}: column {self.name} was numbers in training and is not here: mend it")
            absent = np.isnan(numbers)
            values = ((np.where(absent, self.median, numbers) - self.mean) / self.scale)[:, None]
        return np.concatenate([values, absent[:, None]], 1) if self.missing else values


@dataclass(frozen=True)
class TableEncoder:
    """From the columns of a table to vectors: made by `fit` from training data, kept with the model."""

    columns: tuple[Column, ...]

    @classmethod
    def fit(
        cls, table: Mapping[str, Cells], leave_out: Collection[str], rows: NDArray[np.int64]
    ) -> tuple[Self, list[str]]:
        """The encoder for a table, and what a user should know about it, line by line.

        Numbers are scaled by those of `rows`: what is held out for testing must not shape what is learned from.
        """
        columns, notes, gaps = [], [], []
        for name, cells in table.items():
            if name in leave_out:
                continue
            column, note = _column(name, cells, rows)
            if column is not None:
                columns.append(column)
            if column is not None and column.missing and note.startswith(": "):
                gaps.append((name, note))
            elif note:
                notes.append(f"column {name}{note}")
        identity = [column for column in columns if _numbers_rows(column.name, table[column.name])]
        if len(identity) < len(columns):
            columns = [column for column in columns if column not in identity]
            notes += [f"column {column.name} numbers the rows and is left out" for column in identity]
        notes += _said_of_gaps(gaps)
        if not columns:
            why = f" ({'; '.join(notes)})" if notes else ""
            raise DataError(f"the table has no column to learn from besides its labels{why}: add some")
        return cls(tuple(columns)), notes

    def transform(self, table: Mapping[str, Cells], where: str) -> NDArray[np.float32]:
        """The rows as vectors."""
        missing = [column.name for column in self.columns if column.name not in table]
        if missing:
            more = f" (nor {', '.join(missing[1:])})" if missing[1:] else ""
            raise DataError(f"{where} has no column {missing[0]}{more}, which the training data had: add it")
        return np.concatenate([c.encoded(table[c.name], where).astype(np.float32) for c in self.columns], 1)

    def to_list(self) -> list[dict[str, Any]]:
        """Plain JSON-ready values."""
        return [asdict(column) | {"categories": list(column.categories)} for column in self.columns]

    @classmethod
    def from_list(cls, values: Iterable[Mapping[str, Any]]) -> Self:
        """The encoder that `to_list` described."""
        return cls(tuple(Column(**{**column, "categories": tuple(column["categories"])}) for column in values))


def _column(name: str, cells: Cells, rows: NDArray[np.int64]) -> tuple[Column | None, str]:
    """How a column is encoded, None if it is left out, and what is to be said of it."""
    numbers = _numbers(cells)
    missing = int(np.isnan(numbers).sum() if numbers is not None else (_present(cells) == "").sum())
    if missing == len(cells):
        return None, " is empty and left out"
    if numbers is not None:
        learned = numbers[rows] if np.isfinite(numbers[rows]).any() else numbers
        median = float(np.nanmedian(learned))
        filled = np.where(np.isnan(learned), median, learned)
        column = Column(name, median, float(filled.mean()), float(filled.std()) or 1.0, missing=missing > 0)
        how = f"filled with the median {median:g}"
        note = ""
    else:
        present = _present(cells)
        categories = np.unique(present[present != ""])
        odd = _odd(categories)
        but = f", numbers but for {odd[0]!r}{' and others' if len(odd) > 1 else ''}" if odd else ""
        if len(categories) > _MOST_CATEGORIES:
            return None, f" has {len(categories):,} different texts{but}{', and' if but else ' and'} is left out"
        column = Column(name, categories=tuple(categories.tolist()), missing=missing > 0)
        how = "counted as a category of their own"
        note = f" is taken for texts{but}" if odd else ""
    return column, note + (f": {missing:,} of {len(cells):,} values are missing, {how}" if missing else "")


def _said_of_gaps(gaps: list[tuple[str, str]]) -> list[str]:
    """Where values are missing: a line a column, or one line for many."""
    if len(gaps) <= _MOST_GAPS:
        return [f"column {name}{note}" for name, note in gaps]
    names = first_few([name for name, _ in gaps])
    return [f"{len(gaps)} columns have missing values, filled with the median or a category of their own: {names}"]


def _numbers_rows(name: str, cells: Cells) -> bool:
    """Whether a column tells one row from another and nothing more: whole numbers, each there once, in close order or
    under a name such as Id or customer_id."""
    numbers = _numbers(cells)
    if numbers is None or len(numbers) < _FEW_ROWS or np.isnan(numbers).any() or (numbers != np.rint(numbers)).any():
        return False
    if len(np.unique(numbers)) < len(numbers):
        return False
    return bool(np.ptp(numbers) < 2 * len(numbers)) or _IDENTITY.search(name) is not None


def _odd(values: Cells) -> list[str]:
    """The few values of a column that are no numbers, where most are."""
    odd = [value for value in values.tolist() if _numbers(np.array([value])) is None]
    return odd if 10 * len(odd) <= len(values) else []


def _texts(cells: Cells) -> Cells:
    if cells.dtype.kind != "f":
        return cells
    return np.array(["" if np.isnan(value) else repr(float(value)) for value in cells], np.str_)


def _present(cells: Cells) -> Cells:
    """A column as texts, empty where a value is missing."""
    texts = _texts(cells)
    return np.where(np.isin(np.char.lower(texts), _MISSING), "", texts)


def _numbers(cells: Cells) -> NDArray[np.float64] | None:
    """The column as numbers, NaN where a value is missing or infinite; None if it is no column of numbers."""
    if cells.dtype.kind != "f":
        present = _present(cells)
        try:
            cells = np.where(present == "", "nan", present).astype(np.float64)
        except ValueError:
            return None
    return np.where(np.isinf(cells), np.nan, cells)
