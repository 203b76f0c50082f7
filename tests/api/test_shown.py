"""How managers, results and spaces show themselves in a terminal and in a notebook."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import phalanx as px
import pytest
from api import tasks
from phalanx import _shown


class Checked(HTMLParser):
    """The text of HTML. AssertionError for a tag that does not end, or that runs or loads something."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in {"div", "strong", "table", "thead", "tbody", "tr", "th", "td"}
        assert {name for name, _ in attrs} <= {"style", "scope"}
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + " "


def html(shown: Any) -> str:
    return Checked(shown._repr_html_()).text


def test_a_manager_tells_where_and_how_many(manager: px.Manager) -> None:
    assert list(manager.compute(tasks.double, range(7))) == list(range(0, 14, 2))
    assert repr(manager) == "<Manager of this machine: 2 interpreters>"
    text = html(manager)
    assert "this machine" in text
    assert re.search(r"tasks +\d", text)
    assert "this-machine/1" in text


def test_a_closed_manager_says_so() -> None:
    with px.Manager(contract=px.ParDegree(1)) as manager:
        assert repr(manager) == "<Manager of this machine: 1 interpreter>"
    assert repr(manager) == "<Manager of this machine: closed>"
    assert "closed" in html(manager)


def test_results_tell_how_far_they_are(manager: px.Manager) -> None:
    results = manager.compute(tasks.double, [1, 2, 3])
    assert repr(results) == "<Results of double: 3 tasks, not begun>"
    next(results)
    assert re.fullmatch(r"<Results of double: [1-3] of 3 came, running>", repr(results))
    assert "double" in html(results)
    assert list(results) == [4, 6]
    assert repr(results) == "<Results of double: 3 of 3 came, complete>"
    endless = manager.compute(tasks.double, iter(range(10**9)))
    next(endless)
    endless.close()
    assert re.fullmatch(r"<Results of double: \d+ came, ended before the last one>", repr(endless))


def test_results_can_be_shown_while_they_are_read(manager: px.Manager) -> None:
    shown: list[str] = []

    def numbers() -> Any:
        for number in range(3):
            shown.append(repr(results))
            yield number

    results = manager.compute(px.Pipeline(tasks.double, tasks.increment), numbers())
    assert list(results) == [1, 3, 5]
    assert all(text.startswith("<Results of Pipeline(double, increment): ") for text in shown)
    assert len(shown) == 3


def test_spaces_tell_where_they_are_and_what_is_in_them(tmp_path: Path) -> None:
    with px.Space() as space:
        space.out("a", 1)
        assert repr(space) == "Space()"
        assert "tuples 1" in re.sub(r"\s+", " ", html(space))
        address = space.serve(f"unix:{tmp_path / 's'}")
        assert address in html(space)
        with px.Space(address) as reached:
            assert repr(reached) == f"Space({address!r})"
            assert address in html(reached)
    assert "closed" in html(space)


def test_a_space_whose_server_is_gone_shows_itself_at_once(tmp_path: Path) -> None:
    with px.Space() as space:
        reached = px.Space(space.serve(f"unix:{tmp_path / 's'}"))
    assert "closed" not in html(reached)  # it was not asked
    reached.close()
    assert "closed" in html(reached)


def test_names_are_escaped() -> None:
    def evil(_: int) -> None: ...

    evil.__qualname__ = "<script>alert(1)</script>"
    with px.Manager(contract=px.ParDegree(1)) as manager:
        results = manager.compute(evil, [])
        assert "<script>" not in results._repr_html_()
        assert "<script>alert(1)</script>" in html(results)
    rows = [("<b>", '"&'), *[("more", "")] * 30]
    card = _shown.card("<i>", [("<u>", "'")], (("<a>",), rows))
    assert Checked(card).text.count("more") == 20
    assert "and 11 more" in card
    assert not set(re.findall(r"<([a-z]+)", card)) & {"i", "u", "b", "a"}


def test_programs_that_are_nested_deep_have_short_names(manager: px.Manager) -> None:
    deep: Any = tasks.increment
    for _ in range(2000):
        deep = px.Farm(px.Pipeline(deep))
    results = manager.compute(deep, [1])
    assert re.fullmatch(r"<Results of (a program|Farm\(Pipeline\(.{60,}…): 1 task, not begun>", repr(results))
    assert list(results) == [2]
    wide = repr(manager.compute(px.Pipeline(*[tasks.increment] * 100), []))
    assert len(wide) < 150
    assert "…" in wide


@pytest.mark.parametrize("kind", [px.Manager, px.Space, px.manager.Results])
def test_what_was_never_made_can_be_shown(kind: Any) -> None:
    broken = kind.__new__(kind)
    assert kind.__name__ in repr(broken)
    assert kind.__name__ in html(broken)
