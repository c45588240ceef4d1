"""What the runs in results/ say beyond their tables: arithmetic on what they recorded, for docs/reproduction.md."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from coteach.analysis.numbers import LAST_TEN, over_networks, test_accuracy
from coteach.analysis.tables import tabulate
from coteach.bench.grid import TablePlan, read_grid
from coteach.noise import pair
from coteach.paper import Cell
from coteach.results.collection import Collection
from coteach.results.run import Result

Matrix = NDArray[np.float64]
WINDOWS = ((1, 10), (11, 40), (41, 160), (161, 190), (191, 200))


def chosen_answers(noise: Matrix, believed: Matrix, rounds: int = 20_000) -> Matrix:
    """For each true class, the answer p with the smallest expected loss -log (p @ believed)[label].

    It is what a network would say that cannot tell the samples of a class apart, found by expectation maximisation
    from an even start; where two answers are as good, that start divides it between them.
    """
    believed = np.clip(believed, 1e-12, None)
    answers = np.full_like(noise, 1 / len(noise))
    for _ in range(rounds):
        answers *= noise / (answers @ believed) @ believed.T
    return answers


def share_of_the_right(answers: Matrix) -> float:
    """The mean share that such a network gives to the right class, in percent."""
    return 100 * float(np.diag(answers).mean())


def mean_accuracy(run: Result, first: int, last: int) -> float:
    """In percent, over epochs that trained, counted from 1."""
    values = [over_networks(record, test_accuracy) or 0.0 for record in run.epochs if record.train_loss]
    return 100 * statistics.fmean(values[first - 1 : last])


def of_grid(runs: Collection, grid: str, title: str = "", **settings: object) -> list[Result]:
    """The runs that are there of a grid, or of its table of this title, with these values of settings."""
    plans = [plan for plan in read_grid(grid).tables if title in ("", plan.title)]
    wanted = {planned.config.name: planned.config for plan in plans for planned in plan.planned}.values()
    found = [runs.find(config) for config in wanted if settings.items() <= config.to_dict().items()]
    return [run for run in found if run is not None]


def matrices(paper: Collection, small: Collection) -> str:
    """F-correction on MNIST pair-45: what its matrix alone says, beside what was measured."""
    lines = [
        "| network | stage one | matrix | right class, share | right classes | epochs 1 to 10 | last ten |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    asked = {"method": "f-correction", "noise": "pair"}
    measured = (
        *of_grid(paper, "assumptions", "Stage one", **asked),
        *of_grid(paper, "assumptions", "F-correction, the matrix transposed", **asked),
        *of_grid(small, "f-correction", **asked),
    )
    rows = []
    for run in measured:
        config = run.config
        matrix = np.array(run.summary["matrix_of_stage_one"])
        turned = bool(config.settings["transposed"])
        answers = chosen_answers(np.array(run.summary["noise_matrix"]), matrix.T if turned else matrix)
        right = int((answers.argmax(1) == np.arange(len(answers))).sum())
        seed = "" if config.network == "paper-cnn" else f", seed {config.init_seed}"
        what = [config.network + seed, str(config.settings["stage_one"]), "transposed" if turned else "as it is"]
        last = 100 * (LAST_TEN(run.epochs, test_accuracy) or 0.0)
        rows.append((share_of_the_right(answers), right, what, mean_accuracy(run, 1, 10), last))
    for share, right, what, first, last in sorted(rows):
        lines.append(f"| {' | '.join(what)} | {share:.0f} % | {right} of 10 | {first:.1f} | {last:.1f} |")
    return "\n".join(lines) + "\n"


def swapped(rows: Sequence[int], classes: int = 10, rate: float = 0.45) -> Matrix:
    """The true matrix of pair noise, but for these rows, which are those of the class before."""
    noise = pair(classes, rate)
    believed = noise.copy()
    believed[list(rows)] = noise[[row - 1 for row in rows]]
    return believed


class Known(NamedTuple):
    """What a training loss says of a network that gives nearly every sample the label that it carries."""

    wrong: float
    """At most this share of labels is not the network's first choice: such a one costs at least log 2."""
    counted: float
    """The least that S-model counts on the diagonal: all of the wrong ones might lie in one row, which is of a tenth of
    the samples or a little less."""
    surest: float
    """The least that F-correction reads off on the diagonal. At most 3 % of all samples are left out as too sure of a
    class, if no more of them tie. Then 6 % have its label and are not, and the surest that is left is at least as sure
    as any of them, so they cannot all cost more than the mean allows."""

    @classmethod
    def by(cls, loss: float) -> Self:
        """From the mean cross entropy over the samples."""
        wrong = loss / math.log(2)
        return cls(wrong, 1 - wrong / 0.09, math.exp(-loss / 0.06))


def memorised(paper: Collection) -> str:
    """How near to the identity the matrices of a whole run of standard should be, by its last training loss."""
    lines = [
        "| | training loss, last epoch | labels that it gets wrong, at most | S-model's diagonal, at least "
        "| F-correction's, at least |",
        "|---|---:|---:|---:|---:|",
    ]
    for run in of_grid(paper, "paper", "Table 4", method="standard", init_seed=1):
        loss = run.epochs[-1].train_loss[0]
        known = Known.by(loss)
        numbers = f"{loss:.5f} | {100 * known.wrong:.2f} % | {known.counted:.3f} | {known.surest:.3f}"
        lines.append(f"| {run.config.noise_name} | {numbers} |")
    return "\n".join(lines) + "\n"


def windows(paper: Collection) -> str:
    """In which epochs the differences of single changes arise."""
    scales = "Dropout and the first scales of batch norm"
    pairs = [
        ("MNIST symmetric-50, standard: without dropout", "Dropout", {"dropout": 0.0}, "Dropout", {"dropout": 0.25}),
        (
            "CIFAR-100 symmetric-20, standard, uniform scales: without dropout",
            *(scales, {"dropout": 0.0, "norm_init": "uniform"}),
            *(scales, {"dropout": 0.25, "norm_init": "uniform"}),
        ),
        (
            "CIFAR-100 pair-45, co-teaching: the authors' recipe",
            *("The authors' recipe, CIFAR-100", {"method": "co-teaching"}),
            *("Dropout, CIFAR-100", {"dropout": 0.25}),
        ),
    ]
    lines = [
        "| | " + " | ".join(f"epochs {first} to {last}" for first, last in WINDOWS) + " |",
        "|---|" + "---:|" * len(WINDOWS),
    ]
    for what, title, changed, other, usual in pairs:
        runs = of_grid(paper, "assumptions", title, **changed), of_grid(paper, "assumptions", other, **usual)
        if not all(runs):
            continue
        (new,), (old,) = runs
        apart = [mean_accuracy(new, *window) - mean_accuracy(old, *window) for window in WINDOWS]
        lines.append(f"| {what} | " + " | ".join(f"{points:+.1f}" for points in apart) + " |")
    return "\n".join(lines) + "\n"


def between_networks(paper: Collection) -> str:
    """How far the two networks of a run of co-teaching end from each other."""
    apart = []
    for run in of_grid(paper, "paper", method="co-teaching", init_seed=1):
        one, two = (statistics.fmean(r.test_accuracy[k] for r in run.epochs[-10:]) for k in (0, 1))
        apart.append(100 * abs(one - two))
    return (
        f"The two networks of a run of co-teaching end {min(apart):.2f} to {max(apart):.2f} points apart, "
        f"{statistics.median(apart):.2f} in the middle one of {len(apart)}.\n"
    )


def plan_of(grid: str, title: str) -> TablePlan:
    """The table of a grid with this title."""
    (plan,) = (plan for plan in read_grid(grid).tables if plan.title == title)
    return plan


def schedules(small: Collection) -> str:
    """Table 7 as printed, of MNIST, beside the digits with R(T) by the text and by the authors' program."""
    printed = plan_of("paper", "Table 7").printed_cells()
    text = tabulate(plan_of("schedule", "R(T) by the text"), small, "accuracy", LAST_TEN)
    authors = tabulate(plan_of("schedule", "R(T) by the authors' program"), small, "accuracy", LAST_TEN)
    sources: list[Mapping[tuple[str, str], Cell]] = [printed, text.cells, authors.cells]
    kinds = "printed", "the text's R(T)", "the authors'"
    heads = [f"{kind}, {column.removesuffix('.0')}" for kind in kinds for column in text.columns]
    lines = ["| | " + " | ".join(heads) + " |", "|---|" + "---:|" * len(heads)]
    for row in text.rows:
        means = [f"{100 * source[row, column].mean:.1f}" for source in sources for column in text.columns]
        lines.append(f"| {row} | " + " | ".join(means) + " |")
    return "\n".join(lines) + "\n"


def drops(small: Collection) -> str:
    """Table 8 as printed, of MNIST, and on the digits."""
    printed = plan_of("paper", "Table 8").printed_cells()
    table = tabulate(plan_of("schedule", "tau"), small, "accuracy", LAST_TEN)
    lines = ["| | " + " | ".join(table.columns) + " |", "|---|" + "---:|" * len(table.columns)]
    for row in table.rows:
        lines.append(
            f"| {row}, MNIST, printed | " + " | ".join(printed[row, c].percent() for c in table.columns) + " |"
        )
        cells = (table.cells[row, c].percent() for c in table.columns)
        lines.append(f"| {row}, digits | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
