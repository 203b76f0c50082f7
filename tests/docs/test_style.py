"""Pages are easy to read: short sentences, and tables that fit a screen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Decisions are records, in the words of their day.
PAGES = [page for page in sorted(ROOT.glob("docs/**/*.md")) if page.parent.name != "decisions"]
#: Tables of measurements, with a column for each thing that was measured.
MEASUREMENTS = {
    "docs/concepts/copies-at-wire-speed.md",
    "docs/concepts/how-a-grid-scales.md",
    "docs/concepts/linda-case-studies/all-figures.md",
    "docs/concepts/messages-beside-mpich-and-open-mpi.md",
    "docs/concepts/suites-of-others.md",
}
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
MOST_WORDS = 20
MOST_COLUMNS = 5


def lengths(text: str) -> list[int]:
    """The number of words of each sentence of a page, without code, tables and headings."""
    blocks = re.split(r"\n\s*\n", FENCED.sub("", text))
    prose = "\n\n".join(block for block in blocks if not block.lstrip().startswith(("|", "#", "<!--", "    ", ":::")))
    plain = re.sub(r"`[^`]*`", "code", re.sub(r"\]\([^)]*\)", "]", prose))
    return [len(words) for part in re.split(r"(?<=[.!?:])\s+|\n- |\n\n", plain) if len(words := part.split()) > 1]


def columns(text: str) -> int:
    """The most columns of a table."""
    rows = (line for line in FENCED.sub("", text).splitlines() if line.startswith("|"))
    return max((len(re.findall(r"(?<!\\)\|", row)) - 1 for row in rows), default=0)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_sentences_are_short_and_tables_narrow(page: Path) -> None:
    text = page.read_text()
    found = lengths(text)
    assert not found or sum(found) / len(found) <= MOST_WORDS
    assert columns(text) <= MOST_COLUMNS or str(page.relative_to(ROOT)) in MEASUREMENTS


def test_long_sentences_and_wide_tables_are_seen() -> None:
    assert lengths("# Title\n\nOne two `a b c` four. Five [six](there.md).\n\n| a b c |\n\n```text\nx y\n```\n") == [
        4,
        2,
    ]
    assert columns("| a | b \\| c |\n|---|---|\n") == 2
