"""Progress of long work: bars on a terminal, plain lines in a pipe. Always on standard error."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from coteach.analysis.numbers import label_precision, over_networks, test_accuracy
from coteach.config import data_name
from coteach.results.run import Progress as Standing
from coteach.training.loop import EpochRecord

_LINE_EVERY = 10.0  # seconds between lines in a pipe, so that a log stays readable


class _Console(Console):
    """A console whose reader may leave: then nobody reads any more, and the work goes on."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


class RunProgress:
    """Shows where one or several runs stand. Use it as a context, and hand `step` and `message` to `run`.

    `of_many` names runs by their data and noise, too.
    """

    def __init__(self, *, quiet: bool = False, of_many: bool = False) -> None:
        self._title = _long_title if of_many else _title
        self._console = _Console(stderr=True, quiet=quiet)
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._last_line = time.monotonic()
        if self._console.is_terminal:
            self._bars = Progress(
                TextColumn("{task.description:<24}"),
                BarColumn(bar_width=24),
                TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
                TextColumn("{task.fields[measured]}", style="bold"),
                TimeRemainingColumn(compact=True, elapsed_when_finished=True),
                console=self._console,
            )

    def __enter__(self) -> Self:
        if self._bars:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars:
            self._bars.stop()

    def step(self, now: Standing) -> None:
        """Take in one step of a run."""
        if now.over:
            self.end(now.config.name)
            why = f", the last {now.config.patience} no better" if now.config.patience else ""
            self.message(f"{self._title(now)}  ended after {now.epoch - 1} epochs{why}")
            return
        if self._bars:
            self._show(self._bars, now)
            return
        waited = time.monotonic() - self._last_line >= _LINE_EVERY
        if waited or (now.record is not None and now.epoch == now.config.epochs):
            self._last_line = time.monotonic()
            what = measured(now.record) if now.record else f"step {now.step}/{now.steps}"
            self.message(f"{self._title(now)}  epoch {now.epoch}/{now.config.epochs}  {what}")

    def message(self, text: str) -> None:
        """Say one line."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=self._bars is None)

    def end(self, name: str) -> None:
        """Take away what is shown of a run that is over."""
        if self._bars and name in self._tasks:
            self._bars.remove_task(self._tasks.pop(name))

    def _show(self, bars: Progress, now: Standing) -> None:
        key = now.config.name
        if key not in self._tasks:
            total = now.config.epochs * now.steps
            self._tasks[key] = bars.add_task(
                self._title(now), total=total, epoch=now.epoch, epochs=now.config.epochs, measured=""
            )
        done = (now.epoch - 1) * now.steps + now.step
        if now.record is not None and now.epoch == now.config.epochs:
            bars.remove_task(self._tasks.pop(key))  # a grid has more runs than a screen has lines
            self.message(f"{self._title(now)}  epoch {now.epoch}/{now.config.epochs}  {measured(now.record)}")
        elif now.record is None:
            bars.update(self._tasks[key], completed=done, epoch=now.epoch)
        else:
            bars.update(self._tasks[key], completed=done, epoch=now.epoch, measured=measured(now.record))


def console() -> Console:
    """Standard output: as wide as the terminal; in a file or a pipe as wide as anything needs."""
    wide = Console(highlight=False)
    return wide if wide.is_terminal else Console(highlight=False, width=10_000)


def measured(record: EpochRecord) -> str:
    """The two numbers that matter of an epoch, in a few characters."""
    accuracy = over_networks(record, test_accuracy)
    precision = over_networks(record, label_precision)
    parts = [] if accuracy is None else [f"test {100 * accuracy:.1f} %"]
    parts += [] if precision is None else [f"precision {100 * precision:.1f} %"]
    return "  ".join(parts) or f"loss {sum(record.train_loss) / max(len(record.train_loss), 1):.3f}"


def _long_title(now: Standing) -> str:
    return f"{data_name(now.config.data)} {now.config.noise_name} {_title(now)}"


def _title(now: Standing) -> str:
    return f"{now.config.method} seed {now.config.init_seed}"
