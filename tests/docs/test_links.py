"""What a page links to is there, and so is what it names as a path of this repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "bench" / "README.md"])

LINK = re.compile(r"\]\(([^)\s]+)\)")
#: A path in backquotes, from the top of the repository.
PATH = re.compile(r"`((?:crates|python|tests|docs|bench|examples|fuzz)/[\w./-]*)`")
#: A test by its file and its name.
TEST = re.compile(r"`((?:crates|tests)/[\w./-]+)::(\w+)`")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """The headings of a page, as links spell them."""
    titles = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def missing(page: Path) -> list[str]:
    """What the page names and is not there."""
    text = FENCED.sub("", page.read_text())
    found = [path for path in PATH.findall(text) if not (ROOT / path).exists()]
    for path, name in TEST.findall(text):
        if not (ROOT / path).exists() or not re.search(rf"\b(?:def|fn) {name}\(", (ROOT / path).read_text()):
            found.append(f"{path}::{name}")
    for link in LINK.findall(text):
        target, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        file = page.parent / target if target else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_links_to_is_there(page: Path) -> None:
    assert not missing(page)


def test_a_link_to_nothing_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A title\n[here](#a-title) [no](#no) [gone](gone.md) [web](https://x.org) `crates/none.rs` "
        "`tests/docs/test_links.py::test_none` `tests/docs/test_links.py::test_a_link_to_nothing_is_seen`\n"
    )
    assert missing(page) == ["crates/none.rs", "tests/docs/test_links.py::test_none", "#no", "gone.md"]
