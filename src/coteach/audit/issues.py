"""What an audit found, sample by sample, and the CSV file that it becomes."""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coteach.errors import DataError, StorageError
from coteach.storage import write_over

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

COLUMNS = (
    "id", "given_label", "suggested_label", "score", "is_label_issue", "picked_by_1", "picked_by_2", "mean_loss",
    "p_given", "p_suggested",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Issues:
    """Every sample of the data, in its order; arrays of one entry a sample."""

    ids: tuple[str, ...]
    """Its file or its row."""
    class_names: tuple[str, ...]
    given: Ints
    """Its label, as a number of a class."""
    suggested: Ints
    """The likeliest class."""
    score: Floats
    """The probability that its label is wrong, in [0, 1]: the higher, the more suspect."""
    is_issue: NDArray[np.bool_]
    """Whether it is counted as wrong: another class is likelier than the given one."""
    picked: Floats
    """[sample, network]: the share of the epochs in which the network picked it to teach its peer with."""
    loss: Floats
    """Its mean loss over the epochs and the networks."""
    p_given: Floats
    """The networks' probability of the given label, when they were trained."""
    p_suggested: Floats
    """And of the suggested one."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def worst_first(self) -> Ints:
        """The numbers of the samples by falling score."""
        return np.argsort(-self.score, kind="stable")

    def write(self, path: Path) -> None:
        """The samples as CSV, the most suspect first."""
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(COLUMNS)
        table.writerows(self._rows())
        write_over(path, text.getvalue())

    def _rows(self) -> Iterator[tuple[str, ...]]:
        for n in self.worst_first:
            picked = [f"{share:.4f}" for share in self.picked[n]]
            yield (
                self.ids[n],
                self.class_names[self.given[n]],
                self.class_names[self.suggested[n]],
                f"{self.score[n]:.6f}",
                "True" if self.is_issue[n] else "False",
                *(picked * 2)[:2],  # a method of one network has one column twice
                f"{self.loss[n]:.6f}",
                f"{self.p_given[n]:.6f}",
                f"{self.p_suggested[n]:.6f}",
            )


class Suggestion(NamedTuple):
    """A line of the CSV of an audit, as far as decisions are made about it."""

    id: str
    given: str
    suggested: str
    score: float


def read_suggestions(path: Path) -> list[Suggestion]:
    """Every sample in the CSV of an audit, in its order."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            table = csv.DictReader(file)
            missing = [column for column in COLUMNS[:4] if column not in (table.fieldnames or ())]
            if missing:
                raise DataError(f"{path} has no column {missing[0]}: it is not the label_issues.csv of an audit")
            return [
                Suggestion(row["id"], row["given_label"], row["suggested_label"], float(row["score"])) for row in table
            ]
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error, ValueError, TypeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is damaged ({error}): make the audit again") from error
