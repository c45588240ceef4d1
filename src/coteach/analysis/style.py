"""The colour and the line of each method: the same in every figure, for ever, whatever other methods there are."""

import hashlib
from dataclasses import dataclass
from typing import Any

from coteach import paper


@dataclass(frozen=True)
class Style:
    """How a method is drawn."""

    colour: str
    dashes: tuple[float, ...]
    """Lengths on and off, in line widths; none for a solid line."""
    width: float
    """In points."""

    def options(self) -> dict[str, Any]:
        """As matplotlib's `plot` takes it; methods with a wide line lie on top."""
        line = (0, self.dashes) if self.dashes else "-"
        return {"color": self.colour, "linestyle": line, "linewidth": self.width, "zorder": 2 + self.width}


# Okabe and Ito's colours, which colour-blind readers can tell apart; the dashes and widths serve a grey print.
# Black and yellow are left out: one cannot be seen on a dark page, the other not on a light one.
_OF_THE_PAPER = (
    Style("#8C8C8C", (1.0, 1.0), 1.6),
    Style("#E69F00", (6.0, 1.2, 2.0, 1.2), 1.4),
    Style("#CC79A7", (4.0, 1.2, 1.0, 1.2), 1.4),
    Style("#56B4E9", (2.0, 1.0), 1.6),
    Style("#009E73", (8.0, 1.8), 1.5),
    Style("#0072B2", (6.0, 1.2, 1.0, 1.2, 1.0, 1.2), 1.8),
    Style("#D55E00", (), 2.2),
)
# Tol's muted colours, none of them Okabe and Ito's, and dashes that none of the seven has.
_OTHER_COLOURS = ("#CC6677", "#44AA99", "#999933", "#AA4499", "#7F7FD5", "#B8860B", "#5FA35F")
_OTHER_DASHES = ((3.0, 1.0), (2.0, 1.0, 2.0, 3.0), (10.0, 1.5, 2.0, 1.5), (1.0, 3.5), (5.0, 3.5))


def method_style(method: str) -> Style:
    """How a method is drawn. One that the paper does not have is drawn as its name alone says."""
    place = paper.column(method)
    if place is not None:
        return _OF_THE_PAPER[place[0]]
    number = int.from_bytes(hashlib.sha256(method.encode()).digest()[:8])
    rest, colour = divmod(number, len(_OTHER_COLOURS))
    return Style(_OTHER_COLOURS[colour], _OTHER_DASHES[rest % len(_OTHER_DASHES)], 1.5)
