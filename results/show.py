"""Writes what README.md, docs/ and results/ show of the runs in results/: `make tables`, after a run was added."""

import tempfile
from pathlib import Path

from coteach.analysis.figures import draw
from coteach.analysis.numbers import LAST_TEN
from coteach.analysis.tables import Table, markdown, tables
from coteach.bench.grid import read_grid
from coteach.results.collection import Collection, read_runs
from coteach.storage import write_over

RESULTS = Path(__file__).parent
HOME = RESULTS.parent
FIGURES = HOME / "docs" / "figures"
NAMES = {"Table 4": "MNIST", "Table 5": "CIFAR-10", "Table 6": "CIFAR-100"}


def texts() -> dict[Path, str]:
    """Every text file that shows numbers, as it should be."""
    paper = all_runs(RESULTS / "paper")
    accuracy = tables(read_grid("paper").only(list(NAMES)), paper, LAST_TEN, "accuracy")
    readme, page = HOME / "README.md", HOME / "docs" / "reproduction.md"
    return {
        RESULTS / "digits" / "digits.md": together(tables(read_grid("digits"), all_runs(RESULTS / "digits"), LAST_TEN)),
        RESULTS / "paper" / "paper.md": together(tables(read_grid("paper"), paper, LAST_TEN)),
        readme: between(readme.read_text(encoding="utf-8"), "paper", together(accuracy)),
        page: between(between(page.read_text(encoding="utf-8"), "gains", gains(accuracy)), "assumptions", asked(paper)),
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


def gains(found: list[Table]) -> str:
    """What co-teaching gains over standard, beside what is printed."""
    lines = [
        "| | noise | co-teaching | printed | standard | printed | gain | printed |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for table in found:
        for row in table.rows:
            both = (row, "co-teaching"), (row, "standard")
            if all(place in table.cells for place in both):
                name = NAMES[table.title.partition(",")[0]]
                measured, printed = (
                    [round(100 * cells[p].mean, 2) for p in both] for cells in (table.cells, table.printed)
                )
                numbers = [
                    measured[0],
                    printed[0],
                    measured[1],
                    printed[1],
                    measured[0] - measured[1],
                    printed[0] - printed[1],
                ]
                lines.append(f"| {name} | {row} | " + " | ".join(f"{number:.2f}" for number in numbers) + " |")
    return "\n".join(lines) + "\n"


def asked(runs: Collection) -> str:
    """The tables of the grid `assumptions` that have a whole row, both sides of a question: neither is the best."""
    found = tables(read_grid("assumptions"), runs, LAST_TEN, "accuracy")
    whole = [table for table in found if any(all((row, c) in table.cells for c in table.columns) for row in table.rows)]
    return together(whole).replace("**", "")


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
