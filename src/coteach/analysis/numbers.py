"""How a run becomes one number, and several runs a cell of a table. Never a number without its n."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from coteach.training.loop import EpochRecord

Measure = Callable[[EpochRecord], Sequence[float]]


def test_accuracy(record: EpochRecord) -> Sequence[float]:
    """Test accuracy of each network."""
    return record.test_accuracy


def label_precision(record: EpochRecord) -> Sequence[float]:
    """Clean share of what each network picked."""
    return record.label_precision


def over_networks(record: EpochRecord, measure: Measure) -> float | None:
    """The mean of a measure over the networks of a method; None in an epoch that did not measure it."""
    values = measure(record)
    return statistics.fmean(values) if values else None


@dataclass(frozen=True)
class Choice:
    """A named way to choose one number from the epochs of a run; its caption goes under every table."""

    name: str
    caption: str
    last: int
    """How many of the last epochs count; 0 for all."""
    of: Callable[[list[float]], float]

    def __call__(self, epochs: Sequence[EpochRecord], measure: Measure) -> float | None:
        """The number of one run; None if none of the epochs that count measured it."""
        values = [over_networks(record, measure) for record in epochs[-self.last :]]
        known = [value for value in values if value is not None]
        return self.of(known) if known else None


LAST_TEN = Choice("last ten", "mean over the last ten epochs and over a method's networks", 10, statistics.fmean)
FINAL = Choice("final", "the last epoch, mean over a method's networks", 1, statistics.fmean)
BEST = Choice("best", "the best epoch on the test set, mean over a method's networks: optimistic", 0, max)


@dataclass(frozen=True)
class Cell:
    """A mean over repetitions with its standard deviation (n - 1 in the divisor) and n."""

    mean: float
    std: float | None
    """None for a single repetition."""
    n: int

    def percent(self) -> str:
        """As tables print it: 87.63 ± 0.21."""
        spread = "" if self.std is None else f" ± {100 * self.std:.2f}"
        return f"{100 * self.mean:.2f}{spread}"


def cell(values: Iterable[float | None]) -> Cell | None:
    """The cell of a table from one number a repetition; None if there is none."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Cell(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None, len(known))
