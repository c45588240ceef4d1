"""From an audit to one HTML file: the noise rate, the classes confused, and the worst labels to decide about."""

import base64
import hashlib
import io
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from coteach.analysis.figures import matrix
from coteach.audit.issues import Ints, Issues
from coteach.data.dataset import Dataset
from coteach.data.images import on_white
from coteach.data.tables import read_table
from coteach.estimate.combined import LEVEL, Estimate
from coteach.report.page import template

SHOWN = 500
"""How many cards a page has unless asked otherwise."""

Look = NDArray[Any] | Mapping[str, object]
"""What a sample looks like: an image [height, width, channels], or the columns of its row with their values."""

_SIDES = (160, 128, 96, 64, 48)
"""The longest side of a thumbnail in pixels: the first with which all of them together are small enough."""
_ALL_THUMBNAILS = 7_000_000
"""In characters, so that the page stays below 10 MB."""
_TINY = 48
"""Images up to this side are kept pixel by pixel and shown enlarged; larger ones are photographs."""
_BOX = 128
"""The side of the place of a thumbnail on the page."""
_COLUMNS = 40
"""How many columns of a row are shown."""
_VALUE = 200
"""How many characters of a value are shown."""
_TICK = 16
"""How many characters of a class name fit on an axis."""
_CONFUSIONS = 6
"""How many pairs of classes are listed."""


@dataclass(frozen=True, eq=False)
class AuditPage:
    """All that the page of an audit shows."""

    title: str
    issues: Issues
    estimate: Estimate
    look: Callable[[int], Look]
    """What the sample of this number looks like; asked only about those that get a card."""
    apply: str
    """The command that applies decisions.csv."""
    command: str
    """The command that made the audit."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """How it was made, line by line."""
    notes: Sequence[str] = ()
    """What a reader must know of the data: images skipped, values filled."""
    shown: int = SHOWN
    """At most this many cards, the worst, so that the page stays small."""

    @cached_property
    def suspects(self) -> Ints:
        """The samples for which another label is suggested, the worst first."""
        order, differ = self.issues.worst_first, self.issues.given != self.issues.suggested
        return np.array([n for n in order if differ[n]], np.int64)

    @property
    def cards(self) -> Ints:
        """Those that get a card."""
        return self.suspects[: self.shown]

    @property
    def counted(self) -> int:
        """How many labels are counted as wrong."""
        return int(self.issues.is_issue.sum())

    @property
    def hash(self) -> str:
        """Differs for different audits: a browser remembers the decisions under it."""
        found = self.issues
        digest = hashlib.sha256(json.dumps([found.ids, found.class_names]).encode())
        for values in (found.given, found.suggested, found.score):
            digest.update(np.ascontiguousarray(values).data)
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Interval:
    """What an estimator says: its text, and where it is drawn, in percent of an axis."""

    name: str
    rate: str
    between: str
    low: float
    at: float
    high: float


@dataclass(frozen=True)
class Confusion:
    """How many labels counted as wrong are of one class and thought to be of another."""

    given: int
    suggested: int
    count: int
    share: float
    """Of the largest count, in percent."""


def render_audit(page: AuditPage) -> str:
    """The page as HTML: one file that asks for nothing else."""
    estimate, names = page.estimate, page.issues.class_names
    rows = [("together", estimate.rate, estimate.low, estimate.high)]
    rows += [(part.name, part.rate, part.low, part.high) for part in estimate.parts]
    end = _axis_end(high for *_, high in rows)
    together, *parts = (_interval(*row, end) for row in rows)
    return template("audit.html").render(
        page=page,
        names=names,
        together=together,
        parts=parts,
        level=f"{100 * LEVEL:g} %",
        end=f"{100 * end:g} %",
        matrix=matrix(estimate.matrix, [_tick(name) for name in names]),
        confusions=_confusions(page.issues),
        data=_json({"audit": page.hash, "names": names, "box": _BOX, "tiny": _TINY, "cards": _cards(page)}),
    )


def looks(dataset: Dataset, source: str) -> Callable[[int], Look]:
    """How to show the training samples of data that were loaded from `source`.

    Of image files their own pixels are shown, for a person sees more in them than in what a network is fed; of a table
    its own values.
    """
    kind, path = dataset.preprocessing["kind"], Path(source).expanduser()
    if kind == "table" and dataset.ids is not None:
        table, ids = read_table(path)[0], dataset.ids
        columns = [name for name in table if name != dataset.preprocessing["label"]]
        return lambda n: {name: table[name][int(ids[n])] for name in columns}
    if kind == "images" and dataset.ids is not None:
        root, names = path if path.is_dir() else path.parent, dataset.ids
        return lambda n: _photograph(root / names[n], dataset.x_train[n])
    if len(dataset.shape) == 1:
        return lambda n: {f"x[{place}]": value for place, value in enumerate(dataset.x_train[n])}
    return lambda n: np.asarray(dataset.x_train[n])


def _photograph(path: Path, otherwise: NDArray[Any]) -> NDArray[Any]:
    """The image in a file, not larger than a thumbnail needs; what the network was fed if it can no longer be read."""
    try:
        with Image.open(path) as file:
            file.draft(None, (2 * _SIDES[0], 2 * _SIDES[0]))  # a large JPEG need not be decoded at full size
            image = on_white(ImageOps.exif_transpose(file)).convert("RGB")
            image.thumbnail((_SIDES[0], _SIDES[0]))
            return np.asarray(image)
    except (OSError, ValueError, Image.DecompressionBombError):
        return otherwise


def _axis_end(values: Any) -> float:
    """The next ten percent above all values, at most all."""
    return float(np.clip(np.ceil(10 * max(values)), 1, 10) / 10)


def _interval(name: str, rate: float, low: float, high: float, end: float) -> Interval:
    places = (round(float(100 * np.clip(value / end, 0, 1)), 2) for value in (low, rate, high))
    return Interval(name, f"{100 * rate:.1f} %", f"{100 * low:.1f} to {100 * high:.1f} %", *places)


def _tick(name: str) -> str:
    """A class name for which an axis has room, and which matplotlib does not take for a formula."""
    name = " ".join(name.split())
    return (name if len(name) <= _TICK else f"{name[: _TICK - 1]}…").replace("$", r"\$")


def _confusions(issues: Issues) -> list[Confusion]:
    """The pairs of given and suggested label, the most frequent first."""
    differ = issues.is_issue & (issues.given != issues.suggested)
    pairs = zip(issues.given[differ].tolist(), issues.suggested[differ].tolist(), strict=True)
    found = Counter(pairs).most_common(_CONFUSIONS)
    return [Confusion(*pair, count, round(100 * count / found[0][1], 2)) for pair, count in found]


def _cards(page: AuditPage) -> list[dict[str, Any]]:
    """What the script of the page makes cards of."""
    issues, looks = page.issues, [page.look(int(n)) for n in page.cards]
    rows = [_row(look) if isinstance(look, Mapping) else None for look in looks]
    pictures = iter(_pictures([look for look in looks if not isinstance(look, Mapping)]))
    return [
        {
            "id": issues.ids[n],
            "given": int(issues.given[n]),
            "suggested": int(issues.suggested[n]),
            "score": _short(issues.score[n]),
            "counted": bool(issues.is_issue[n]),
            "picked": [_short(share) for share in issues.picked[n]],
            "loss": _short(issues.loss[n]),
            "p": [_short(issues.p_given[n]), _short(issues.p_suggested[n])],
            **({"picture": next(pictures)} if row is None else row),
        }
        for n, row in zip(page.cards, rows, strict=True)
    ]


def _short(value: float) -> float | None:
    """A number as the page needs it; JSON knows no NaN."""
    return round(float(value), 4) if np.isfinite(value) else None


def _row(look: Mapping[str, object]) -> dict[str, Any]:
    """The first columns of a row as text, and how many there are beside them."""
    cells = [[str(name), _value(value)] for name, value in list(look.items())[:_COLUMNS]]
    return {"row": cells, "more": len(look) - len(cells)}


def _value(value: object) -> str:
    text = f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)
    return text if len(text) <= _VALUE else f"{text[: _VALUE - 1]}…"


def _pictures(images: Sequence[NDArray[Any]]) -> list[dict[str, Any]]:
    """A thumbnail of each image as a data URI, with its size in pixels."""
    drawn = [_drawn(image) for image in _as_bytes(images)]
    found: list[dict[str, Any]] = []
    for side in _SIDES:
        found = [_picture(image, side) for image in drawn]
        if sum(len(picture["src"]) for picture in found) <= _ALL_THUMBNAILS:
            break
    return found


def _as_bytes(images: Sequence[NDArray[Any]]) -> list[NDArray[np.uint8]]:
    """Bytes as they are; floats of any range so that all images together go from black to white."""
    floats = [image for image in images if image.dtype != np.uint8]
    low = min([0.0, *(float(image.min()) for image in floats)])
    high = max([low, *(float(image.max()) for image in floats)])
    scale = 255 / (high - low) if high > low else 0.0
    return [
        np.asarray(image if image.dtype == np.uint8 else np.rint((image - low) * scale), np.uint8) for image in images
    ]


def _drawn(image: NDArray[np.uint8]) -> Image.Image:
    """One channel as grey, three as colours, any other number as the grey of their mean."""
    if image.ndim == 3 and image.shape[2] != 3:
        image = image[:, :, 0] if image.shape[2] == 1 else image.mean(2).astype(np.uint8)
    return Image.fromarray(np.ascontiguousarray(image))


def _picture(image: Image.Image, side: int) -> dict[str, Any]:
    if max(image.size) > side:
        ratio = side / max(image.size)
        width, height = (max(1, round(length * ratio)) for length in image.size)
        image = image.resize((width, height), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    kind, options = ("png", {"optimize": True}) if max(image.size) <= _TINY else ("jpeg", {"quality": 80})
    image.save(buffer, kind, **options)
    source = f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"
    return {"src": source, "width": image.width, "height": image.height}


def _json(data: Any) -> str:
    """JSON that a script element can hold: nothing in it ends the element."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", r"\u003c")
