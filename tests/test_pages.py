"""What README.md and docs/ point to is there."""

import re
from pathlib import Path

import pytest

HOME = Path(__file__).parents[1]
PAGES = [*HOME.glob("*.md"), *(HOME / "docs").rglob("*.md"), *(HOME / "results").rglob("*.md")]


def anchors(page):
    """The names that headings of a page have as targets of links."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.+)$", prose, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(HOME)))
def test_every_link_leads_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if link.startswith("https://"):
            continue
        file, _, place = link.partition("#")
        target = (page.parent / file) if file else page
        assert target.exists(), link
        assert not place or place in anchors(target), link
