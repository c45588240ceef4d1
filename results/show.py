"""Writes what README.md, docs/ and results/ show of the runs in results/: `make tables`, after a run was added."""

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from pathlib import Path

import explain

from coteach.analysis.figures import draw
from coteach.analysis.numbers import BEST, LAST_TEN, Measure, label_precision, over_networks, test_accuracy
from coteach.analysis.tables import Table, markdown, tables, tabulate
from coteach.bench.grid import read_grid
from coteach.paper import Cell
from coteach.results.collection import Collection, read_runs
from coteach.results.run import Result
from coteach.storage import write_over

RESULTS = Path(__file__).parent
HOME = RESULTS.parent
FIGURES = HOME / "docs" / "figures"
NAMES = {"Table 4": "MNIST", "Table 5": "CIFAR-10", "Table 6": "CIFAR-100"}


def texts() -> dict[Path, str]:
    """Every text file that shows numbers, as it should be."""
    paper = all_runs(RESULTS / "paper")
    accuracy = tables(read_grid("paper").only(list(NAMES)), paper, LAST_TEN, "accuracy")
    best = tables(read_grid("paper").only(list(NAMES)), paper, BEST, "accuracy")
    readme, page = HOME / "README.md", HOME / "docs" / "reproduction.md"
    blocks = {"verdict": verdict(accuracy), "gains": gains(accuracy, best), "curves": curves(paper)}
    blocks |= asked(paper)
    blocks |= {"between networks": explain.between_networks(paper), "memorised": explain.memorised(paper)}
    blocks |= {"windows": explain.windows(paper)}
    small = all_runs(RESULTS / "f-correction")
    swapped = tables(read_grid("f-correction"), small, LAST_TEN)
    blocks["matrices"] = explain.matrices(paper, small)
    blocks["transposed"] = markdown(swapped[0]).replace("**", "")
    stages = tables(read_grid("stage-one"), all_runs(RESULTS / "stage-one"), LAST_TEN, "accuracy")
    blocks["each stage one"] = together(stages).replace("**", "")
    of_r = all_runs(RESULTS / "schedule")
    blocks |= {"schedules": explain.schedules(of_r), "drops": explain.drops(of_r)}
    return {
        RESULTS / "digits" / "digits.md": together(tables(read_grid("digits"), all_runs(RESULTS / "digits"), LAST_TEN)),
        RESULTS / "f-correction" / "f-correction.md": together(swapped),
        RESULTS / "stage-one" / "stage-one.md": together(stages),
        RESULTS / "schedule" / "schedule.md": together(tables(read_grid("schedule"), of_r, LAST_TEN)),
        RESULTS / "paper" / "paper.md": together(tables(read_grid("paper"), paper, LAST_TEN)),
        readme: between(readme.read_text(encoding="utf-8"), "paper", together(accuracy)),
        page: reduce(lambda text, mark: between(text, mark, blocks[mark]), blocks, page.read_text(encoding="utf-8")),
    }


def all_runs(folder: Path) -> Collection:
    """The runs of a folder, every one of which must be sound."""
    found = read_runs(folder)
    if found.passed_over:
        raise SystemExit("\n".join(found.passed_over))
    return found


def together(found: list[Table]) -> str:
    """Tables one after another."""
    return "\n".join(map(markdown, found))


def verdict(found: list[Table]) -> str:
    """How many cells are measured, and how many of those are near the printed ones."""
    places = [(table, place) for table in found for place in table.cells]
    apart = [abs(table.points(*place)) for table, place in places]
    spread = [100 * table.printed[place].std for table, place in places]
    seeds = sorted({table.cells[place].n for table, place in places})
    within = sum(points <= min(3, 2 * std) for points, std in zip(apart, spread, strict=True))
    return (
        f"**{len(places)} of {sum(len(table.printed) for table in found)} cells are measured, with "
        f"{' to '.join(dict.fromkeys(map(str, (seeds[0], seeds[-1]))))} seed{'s' * (seeds != [1])} each. "
        f"{sum(points <= 3 for points in apart)} are within 3 points of the printed number, "
        f"{within} of them within two of the printed standard deviations.**\n"
    )


def gains(found: list[Table], best: list[Table]) -> str:
    """What co-teaching gains over two other methods, beside what is printed, and over the best epoch of standard."""
    lines = [
        "| | noise | over standard | printed | over MentorNet | printed | over standard, best epoch of each |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for table, optimistic in zip(found, best, strict=True):
        for row in table.rows:
            numbers = [
                gain(table.cells, row, "standard"),
                gain(table.printed, row, "standard"),
                gain(table.cells, row, "mentornet"),
                gain(table.printed, row, "mentornet"),
                gain(optimistic.cells, row, "standard"),
            ]
            lines.append(f"| {NAMES[table.title.partition(',')[0]]} | {row} | " + " | ".join(numbers) + " |")
    return "\n".join(lines) + "\n"


def gain(cells: Mapping[tuple[str, str], Cell], row: str, other: str) -> str:
    """By how many points co-teaching is above another method, of the numbers as tables show them."""
    both = (row, "co-teaching"), (row, other)
    if not all(place in cells for place in both):
        return "-"
    mine, its = (round(100 * cells[place].mean, 2) for place in both)
    return f"{mine - its:+.2f}"


def curves(runs: Collection) -> str:
    """The best epoch and the last ten, with seed 1, of standard, of co-teaching, and of how clean its picks are."""
    lines = [
        "| | noise | standard, best (epoch) | last ten | co-teaching, best (epoch) | last ten "
        "| its picks, cleanest (epoch) | last ten |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for plan in read_grid("paper").only([*NAMES, "standard", "co-teaching"]).repeated(1).tables:
        for noise in plan.noises:
            numbers = []
            for method in ("standard", "co-teaching"):
                (config,) = (p.config for p in plan.planned if (p.noise, p.config.method) == (noise, method))
                found = runs.find(config)
                numbers += ["-", "-"] if found is None else highest(found, test_accuracy)
            numbers += ["-", "-"] if found is None else highest(found, label_precision)
            lines.append(f"| {NAMES[plan.title]} | {noise} | " + " | ".join(numbers) + " |")
    return "\n".join(lines) + "\n"


def highest(run: Result, measure: Measure) -> list[str]:
    """The highest value of a measure with its epoch, and the mean of the last ten."""
    values = [over_networks(record, measure) or 0.0 for record in run.epochs]
    top = max(values)
    return [f"{100 * top:.2f} ({values.index(top) + 1})", f"{100 * (LAST_TEN(run.epochs, measure) or 0):.2f}"]


def asked(runs: Collection) -> dict[str, str]:
    """By their titles, the tables of the grid `assumptions` with a run that is not one of the paper's.

    Neither side is the best, and what is not measured is left out.
    """
    of_the_paper = {planned.config.experiment for plan in read_grid("paper").tables for planned in plan.planned}
    texts = {}
    for plan in read_grid("assumptions").tables:
        others = (planned.config for planned in plan.planned if planned.config.experiment not in of_the_paper)
        if any(runs.find(config) is not None for config in others):
            table = tabulate(plan, runs, "accuracy", LAST_TEN)
            rows = tuple(row for row in table.rows if any((row, column) in table.cells for column in table.columns))
            columns = tuple(column for column in table.columns if any((row, column) in table.cells for row in rows))
            texts[plan.title] = markdown(replace(table, rows=rows, columns=columns)).replace("**", "")
    return texts


def between(text: str, mark: str, new: str) -> str:
    """A text with what stands between two marks replaced."""
    first, last = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
    if text.count(first) != 1 or text.count(last) != 1:
        raise SystemExit(f"the marks {first.strip()} and {last} must each be there once")
    return text[: text.index(first) + len(first)] + new + text[text.index(last) :]


def main() -> None:
    """Write the texts and the figures."""
    for path, text in texts().items():
        write_over(path, text)
    with tempfile.TemporaryDirectory() as folder:
        for path in draw(read_grid("paper"), read_runs(RESULTS / "paper"), Path(folder), ["svg"]):
            if not path.stem.endswith("-full") and not path.stem.startswith("fig2"):
                write_over(FIGURES / path.name, path.read_bytes())


if __name__ == "__main__":
    main()
