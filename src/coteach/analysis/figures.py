"""Figures as SVG text: the same input gives the same bytes, and text takes the colour of the page around it."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from coteach.analysis.numbers import Measure, over_networks
from coteach.methods import catalogue
from coteach.training.loop import EpochRecord

_INK = "#1a1b1c"  # stands for the page's own text colour, and is replaced by it
_STYLE: Any = {
    "svg.fonttype": "none",
    "svg.hashsalt": "coteach",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}
# Okabe and Ito's colours, which colour-blind readers can tell apart; the line styles serve a grey print.
_COLOURS = ["#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999"]
_LINES = ["-", "--", "-.", ":"]

Runs = Mapping[str, Sequence[Sequence[EpochRecord]]]
"""For each method, the epochs of each repetition."""


def method_style(method: str) -> dict[str, Any]:
    """The colour and the line of a method, the same in every figure."""
    place = sorted(catalogue.entries()).index(method)
    return {"color": _COLOURS[place % len(_COLOURS)], "linestyle": _LINES[place % len(_LINES)]}


def curves(runs: Runs, measure: Measure, label: str) -> str:
    """A measure against the epoch: for each method the mean over repetitions, shaded by their std."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(5.6, 3.4), layout="constrained")
        axes = figure.add_subplot()
        for method, repetitions in runs.items():
            rows = [[over_networks(record, measure) for record in epochs] for epochs in repetitions]
            values = 100 * np.array(rows, float)
            if not values.size or np.isnan(values).all():
                continue
            x = np.arange(1, values.shape[1] + 1)
            mean, std = values.mean(0), values.std(0, ddof=1 if len(values) > 1 else 0)
            style = method_style(method)
            axes.plot(x, mean, label=method, linewidth=1.8, **style)
            axes.fill_between(x, mean - std, mean + std, color=style["color"], alpha=0.2, linewidth=0)
        axes.set(xlabel="epoch", ylabel=label)
        axes.margins(x=0)
        axes.grid(axis="y", alpha=0.25, linewidth=0.6)
        axes.legend(loc="best")
        return _svg(figure)


def matrix(values: Any, names: Sequence[str]) -> str:
    """A transition matrix: the share of each true class (row) that was given each label (column)."""
    q = np.asarray(values, float)
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(4.2, 3.9), layout="constrained")
        axes = figure.add_subplot()
        axes.imshow(q, cmap="Blues", vmin=0, vmax=1)
        if len(q) <= 12:
            for i, j in zip(*np.nonzero(q > 0.005), strict=True):
                shade = "white" if q[i, j] > 0.5 else "#102030"
                axes.text(j, i, f"{100 * q[i, j]:.0f}", ha="center", va="center", color=shade, fontsize=8)
            axes.set_xticks(range(len(q)), names, rotation=0 if max(map(len, names)) < 3 else 60)
            axes.set_yticks(range(len(q)), names)
        axes.set(xlabel="label given", ylabel="true class")
        return _svg(figure)


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    figure.savefig(
        buffer, format="svg", transparent=True, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))
    )
    text = buffer.getvalue()
    return text[text.index("<svg") :].replace(_INK, "currentColor")
