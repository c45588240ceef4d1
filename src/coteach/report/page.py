"""From the demo's numbers and figures to one HTML file."""

from dataclasses import dataclass
from importlib.resources import files

import jinja2


@dataclass(frozen=True)
class Row:
    """One line of the report's table, ready to print."""

    method: str
    summary: str
    accuracy: str
    precision: str
    repetitions: int
    best: bool


@dataclass(frozen=True)
class Figure:
    """A figure with what it shows."""

    title: str
    svg: str
    caption: str


@dataclass(frozen=True)
class Page:
    """All that a report shows."""

    title: str
    lead: str
    rows: list[Row]
    caption: str
    """How a run became a number."""
    figures: list[Figure]
    facts: dict[str, str]
    """How the numbers were made, line by line."""
    command: str


def render(page: Page) -> str:
    """The page as HTML."""
    return template("page.html").render(page=page)


def template(name: str) -> jinja2.Template:
    """A template of this folder; what it shows is escaped unless it says otherwise."""
    loader = jinja2.FunctionLoader(lambda name: files("coteach.report").joinpath(name).read_text(encoding="utf-8"))
    environment = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    return environment.get_template(name)
