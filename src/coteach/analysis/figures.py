"""The figures of a grid and of the demo: the same runs give the same bytes."""

import html
import io
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from coteach import noise
from coteach.analysis.charts import Chart, Line, charts, limits, line, slug
from coteach.analysis.numbers import Measure
from coteach.analysis.style import method_style
from coteach.bench.grid import Grid
from coteach.results.collection import Collection
from coteach.storage import write_over
from coteach.training.loop import EpochRecord

_INK = "#1a1b1c"  # in a page, it stands for the page's own text colour and is replaced by it
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "coteach",
    "pdf.fonttype": 42,
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.titlesize": 10,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _INK,
    "axes.linewidth": 0.8,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.handlelength": 3.2,
}
# what each format would otherwise write of the time and the program
_NOTHING: dict[str, Any] = {
    "svg": dict.fromkeys(("Date", "Creator", "Format", "Type")),
    "pdf": dict.fromkeys(("CreationDate", "Creator", "Producer")),
    "png": {"Software": None},
}
FORMATS = tuple(_NOTHING)
_IN_A_ROW = 3

Runs = Mapping[str, Sequence[Sequence[EpochRecord]]]
"""For each method, the epochs of each repetition."""


def draw(grid: Grid, runs: Collection, folder: Path, formats: Sequence[str] = FORMATS) -> list[Path]:
    """Write the figures of a grid into a folder and answer their files.

    Figure 2 of the paper is always there. A chart comes twice, cropped and with a full axis, and not at all
    without a run.
    """
    written = _write(folder / "fig2-transition-matrices", transition_matrices(), formats)
    for chart in charts(grid, runs):
        if not chart.empty:
            written += _write(folder / chart.name, panels(chart, full=False), formats)
            written += _write(folder / f"{chart.name}-full", panels(chart, full=True), formats)
    return written


def _write(stem: Path, figure: Figure, formats: Sequence[str]) -> list[Path]:
    written = []
    with mpl.rc_context(_STYLE):
        for kind in formats:
            buffer = io.BytesIO()
            _save(figure, buffer, format=kind, dpi=200, facecolor="white", metadata=_NOTHING[kind])
            path = stem.with_name(f"{stem.name}.{kind}")
            write_over(path, buffer.getvalue())
            written.append(path)
    return written


def transition_matrices() -> Figure:
    """Figure 2 of the paper: pair noise of 45 % and symmetric noise of 50 % on five classes."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(6.4, 3.3), layout="constrained")
        names = [str(number) for number in range(1, 6)]
        both = (("pair, 45 %", noise.pair(5, 0.45)), ("symmetric, 50 %", noise.symmetric(5, 0.5)))
        for axes, (title, q) in zip(figure.subplots(1, 2), both, strict=True):
            _draw_matrix(axes, q, names, "{:.4g} %")
            axes.set_title(title)
        return figure


def panels(chart: Chart, *, full: bool) -> Figure:
    """All panels of a chart, and one legend for them that says n."""
    columns = min(_IN_A_ROW, len(chart.panels))
    rows = -(-len(chart.panels) // columns)
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(0.5 + 3.1 * columns, 1.0 + 2.5 * rows), layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False, sharey=full)
        for place, axes in enumerate(grid.flat):
            axes.set_visible(place < len(chart.panels))
        for place, (name, lines) in enumerate(chart.panels.items()):
            axes = grid.flat[place]
            _draw_lines(axes, lines, full=full)
            axes.set_title(name, parse_math=False)
            axes.set_xlabel("epoch" if lines else "")
            if place % columns == 0:
                axes.set_ylabel(f"{chart.measure}, %")
        _legend(figure, chart, columns)
        figure.suptitle(chart.title, fontsize=11, fontweight="bold", parse_math=False)
        return figure


def _legend(figure: Figure, chart: Chart, columns: int) -> None:
    title, labels = chart.key()
    handles = [Line2D([], [], label=label, **method_style(method).options()) for method, label in labels.items()]
    across = min(len(handles), 7 if columns == _IN_A_ROW and max(map(len, labels.values())) < 14 else 2 * columns)
    sizes = {"fontsize": 9, "title_fontsize": 9, "columnspacing": 1.4}
    figure.legend(handles=handles, loc="outside lower center", ncols=across, title=title, **sizes)


def curves(runs: Runs, measure: Measure, label: str) -> str:
    """A measure against the epoch, as SVG for a page: each method's mean over repetitions, shaded by their std."""
    lines = [drawn for method, epochs in runs.items() if (drawn := line(method, epochs, measure))]
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(5.6, 3.4), layout="constrained")
        axes = figure.add_subplot()
        _draw_lines(axes, lines)
        axes.set(xlabel="epoch", ylabel=label)
        if lines:
            axes.legend(loc="best")
        return _svg(figure, label)


def panel(chart: Chart, name: str, *, full: bool) -> str:
    """One panel of a chart without a legend, as SVG for a page."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(4.9, 3.1), layout="constrained")
        axes = figure.add_subplot()
        _draw_lines(axes, chart.panels[name], full=full)
        axes.set(xlabel="epoch", ylabel=f"{chart.measure}, %")
        axis = "full axis" if full else "cropped axis"
        return _svg(figure, f"{chart.title}, {name}, {chart.measure} against the epoch, {axis}")


def _draw_lines(axes: Axes, lines: Sequence[Line], *, full: bool | None = None) -> None:
    """The lines of a panel and their shades; `full` chooses the y axis as `limits` says."""
    for each in lines:
        epochs = np.arange(1, len(each.mean) + 1)
        style = method_style(each.method)
        axes.plot(epochs, each.mean, label=each.method, **style.options())
        below, above = each.mean - each.std, each.mean + each.std
        axes.fill_between(epochs, below, above, color=style.colour, alpha=0.18, linewidth=0)
    axes.margins(x=0)
    axes.grid(axis="y", alpha=0.25, linewidth=0.6)
    if full is not None:
        axes.set_ylim(*limits(lines, full=full))
    if not lines:
        axes.set(xticks=[], yticks=[])
        axes.text(0.5, 0.5, "no runs", transform=axes.transAxes, ha="center", va="center", alpha=0.6)


def matrix(values: Any, names: Sequence[str]) -> str:
    """A transition matrix as SVG for a page: the share of each true class (row) given each label (column)."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(4.2, 3.9), layout="constrained")
        _draw_matrix(figure.add_subplot(), np.asarray(values, float), names, "{:.0f}")
        return _svg(figure, "transition matrix")


def _draw_matrix(axes: Axes, q: np.ndarray, names: Sequence[str], form: str) -> None:
    axes.imshow(q, cmap="Blues", vmin=0, vmax=1)
    if len(q) <= 12:
        for i, j in zip(*np.nonzero(q > 0.005), strict=True):
            shade = "white" if q[i, j] > 0.6 else "#102030"
            axes.text(j, i, form.format(100 * q[i, j]), ha="center", va="center", color=shade, fontsize=8)
        axes.set_xticks(range(len(q)), names, rotation=0 if max(map(len, names)) < 3 else 60)
        axes.set_yticks(range(len(q)), names)
    axes.set(xlabel="label given", ylabel="true class")


def _save(figure: Figure, buffer: IO[Any], **how: Any) -> None:
    """Without a word about letters of class names that the font lacks: a box stands for each."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        figure.savefig(buffer, **how)


def _svg(figure: Figure, label: str) -> str:
    """The figure for a page: text in the page's colour, and ids that no figure with another label has."""
    buffer = io.StringIO()
    _save(figure, buffer, format="svg", transparent=True, metadata=_NOTHING["svg"])
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(_INK, "currentColor")
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>\s*", "", text, flags=re.DOTALL)  # it would rule the whole page
    used, prefix = set(re.findall(r'(?:href="|url\()#([\w-]+)', text)), slug(label)
    text = re.sub(r' id="([^"]*)"', lambda found: f' id="{prefix}-{found[1]}"' if found[1] in used else "", text)
    text = re.sub(r'(href="|url\()#', rf"\1#{prefix}-", text)
    text = re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), text)  # half of the bytes
    return text.replace("<svg", f'<svg role="img" aria-label="{html.escape(label)}" stroke-linejoin="round"', 1)
