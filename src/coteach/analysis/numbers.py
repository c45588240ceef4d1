"""How a run becomes one number, and several runs a cell of a table. Never a number without its n."""

import statistics
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from coteach.paper import Cell
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
    epochs: Callable[[Sequence[EpochRecord]], Sequence[EpochRecord]]
    """Those that count."""

    def __call__(self, epochs: Sequence[EpochRecord], measure: Measure) -> float | None:
        """The number of one run, the mean over the epochs that count; None if none of them measured it."""
        values = [over_networks(record, measure) for record in self.epochs(epochs)]
        known = [value for value in values if value is not None]
        return statistics.fmean(known) if known else None

    def said_of(self, lengths: Collection[int]) -> str:
        """The caption, for runs of so many epochs each."""
        short = {epochs for epochs in lengths if epochs < 10}
        if not short:
            return self.caption
        few = "the last ten epochs, or all of a shorter run,"
        if len(set(lengths)) == 1:
            few = f"all {short.pop()} epochs".replace("all 1 epochs", "the only epoch")
        return self.caption.replace("the last ten epochs", few)


def _best(epochs: Sequence[EpochRecord]) -> Sequence[EpochRecord]:
    tested = [record for record in epochs if record.test_accuracy]
    return [max(tested, key=lambda record: statistics.fmean(record.test_accuracy))] if tested else []


LAST_TEN = Choice("last-ten", "mean over the last ten epochs and over a method's networks", lambda epochs: epochs[-10:])
"""The only one that printed numbers can be compared with."""
FINAL = Choice("final", "the last epoch, mean over a method's networks", lambda epochs: epochs[-1:])
BEST = Choice("best", "the best epoch on the test set, mean over a method's networks: optimistic", _best)
CHOICES = {choice.name: choice for choice in (LAST_TEN, FINAL, BEST)}
MEASURES: dict[str, tuple[str, Measure]] = {
    "accuracy": ("test accuracy", test_accuracy),
    "precision": ("label precision", label_precision),
}
"""For each measure that tables and figures show, its title and where to find it."""


def cell(values: Iterable[float | None]) -> Cell | None:
    """The cell of a table from one number a repetition; None if there is none."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return Cell(statistics.fmean(known), statistics.stdev(known) if len(known) > 1 else None, len(known))
