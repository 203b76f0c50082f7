"""The parts of the documentation site that are ours: navigation, links, commands. `make docs` builds all of it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from website.commands import leaves, with_options
from website.descriptions import MOST, description
from website.links import for_site
from website.offline import foreign, foreign_in
from website.pages import DOCS, INDEX_OF_DECISIONS, OUTSIDE, ROOT, index_of_decisions, pages_in, place_of, source_of
from website.parameters import with_parameters_apart

COMMANDS = sorted(leaves())


def navigation() -> list[str]:
    """The pages that mkdocs.yml names, with those of folders."""
    _, _, nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")
    entries = re.findall(r"^\s*- (?:[^:\n]+: )?([\w/.-]+(?:\.md|/))$", nav, re.MULTILINE)
    return [page for entry in entries for page in (pages_in(entry) if entry.endswith("/") else [entry])]


def test_every_page_is_in_the_navigation_once() -> None:
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} | set(OUTSIDE.values()) | {INDEX_OF_DECISIONS}
    assert Counter(navigation()) == Counter(pages)


def test_places_lead_back_to_their_sources() -> None:
    for path in [*OUTSIDE, "docs/papers.md", "docs/guide/grids.md"]:
        place = place_of(path)
        assert place
        assert source_of(place) == path
    assert place_of("python/phalanx/grid.py") is None
    assert place_of("docs/none.md") is None
    assert place_of("docs/decisions/") == INDEX_OF_DECISIONS


@pytest.mark.parametrize(
    ("place", "text", "expected"),
    [
        ("guide/grids.md", "[a](security.md#rules)", "[a](security.md#rules)"),
        ("guide/grids.md", "[a](../../README.md#what-it-costs)", "[a](../project/readme.md#what-it-costs)"),
        ("guide/grids.md", "[a](#here) [b](https://x.org/)", "[a](#here) [b](https://x.org/)"),
        ("project/readme.md", "[a](docs/guide/grids.md)", "[a](../guide/grids.md)"),
        ("project/readme.md", "[a](docs/decisions/)", "[a](../decisions/index.md)"),
        ("project/benchmarks.md", "[a](../docs/papers.md)", "[a](../papers.md)"),
        ("guide/grids.md", "![a](figure.svg)", "![a](figure.svg)"),
        ("guide/grids.md", "[a](gone.md)", "[a](gone.md)"),
        ("guide/grids.md", "`[a](../../README.md)`", "`[a](../../README.md)`"),
        ("guide/grids.md", "```python\n[a](../../README.md)\n```", "```python\n[a](../../README.md)\n```"),
        ("guide/grids.md", "<!-- run: background -->\n```console\n```", "```console\n```"),
    ],
)
def test_links_are_those_of_the_site(place: str, text: str, expected: str) -> None:
    assert for_site(text, place) == expected


def test_links_to_sources_become_their_names() -> None:
    text = "see [`hosts.py`](../../python/phalanx/hosts.py) and `x` in [net](../../crates/phalanx-net/src)"
    assert for_site(text, "guide/grids.md") == (
        'see <span class="source" title="python/phalanx/hosts.py">`hosts.py`</span> and `x` in '
        '<span class="source" title="crates/phalanx-net/src">net</span>'
    )


def test_the_index_has_every_decision() -> None:
    text = index_of_decisions()
    for page in (DOCS / "decisions").glob("[0-9]*.md"):
        assert f"]({page.name})" in text


def page_of(command: str) -> str:
    return (DOCS / "reference" / "commands" / f"{command.split()[1]}.md").read_text()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_its_options_on_its_page(command: str) -> None:
    comment = f"<!-- options: {command} -->"
    assert page_of(command).count(comment) == 1
    shown = with_options(f"before\n\n{comment}\n\nafter")
    assert f"```text\n{command} " in shown
    assert "--help" in shown
    assert "```console\n$ " in shown
    assert shown.startswith("before\n")
    assert shown.endswith("after")


@pytest.mark.parametrize("command", sorted({command.split()[1] for command in COMMANDS}))
def test_every_command_has_two_examples(command: str) -> None:
    examples = re.findall(rf"^\$ (?:.*\| )?phalanx {command}\b", page_of(f"phalanx {command}"), re.MULTILINE)
    assert len(examples) >= 2


def test_options_keep_their_signs() -> None:
    shown = with_options("<!-- options: phalanx cp -->")
    assert "&#91;clear&#124;authenticated&#124;safe&#124;private&#93;" in shown
    assert "(&#42; ? &#91; &#42;&#42;)" in shown


def test_what_a_page_loads_from_elsewhere_is_seen(tmp_path: Path) -> None:
    local = '<script src="assets/x.js"></script><a href="https://x.org">x</a>'
    assert foreign(local) == []
    (tmp_path / "page.html").write_text(
        '<link rel="stylesheet" href="https://fonts.x.org/a.css"><script src="//y/z.js">'
    )
    assert list(foreign_in(tmp_path)) == ["page.html: https://fonts.x.org/a.css", "page.html: //y/z.js"]


def test_parameters_of_one_entry_are_taken_apart() -> None:
    shown = with_parameters_apart(
        "It copies.\n\nParameters\n----------\nsrc, dst\n    Paths.\n\n    More.\n"
        'level : {"clear", "safe"}, optional\n    The level.\nn : int\n    A number.\n\n'
        "Returns\n-------\nint, str\n    Both.\n"
    )
    assert shown == (
        "It copies.\n\nParameters\n----------\nsrc\n    Paths.\n\n    More.\ndst\n    Paths.\n\n    More.\n"
        'level\n    One of ``"clear"``, ``"safe"``.\n    The level.\nn : int\n    A number.\n\n\n'
        "Returns\n-------\nint, str\n    Both.\n"
    )


def test_the_description_of_a_page_is_its_first_paragraph() -> None:
    page = (
        "# Title\n\n```python\nx = 1\n\ny = 2\n```\n\n<!-- a comment -->\n\nA [farm](x.md) runs `f`,\n*often*.\n\nMore."
    )
    assert description(page) == "A farm runs f, often."
    assert description("# Title\n\n| a | b |\n|---|---|\n") is None
    shown = description("word " * 100) or ""
    assert len(shown) <= MOST
    assert shown.endswith("word…")
