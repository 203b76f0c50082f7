"""A search that takes long leaves the space to others between its steps, and what is found and taken stays right."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import phalanx as px
import pytest
from phalanx.space import Query

MANY = 60_000


def dear(number: int) -> Query:
    """A query of 60 operations that only this number answers."""
    conditions = [px.where() >= number] * 15 + [px.where() <= number] * 16
    return functools.reduce(lambda one, other: one & other, conditions)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[px.Space, str]]:
    with px.Space() as owner:
        owner.out_many([("number", number) for number in range(MANY)])
        yield owner, owner.serve(f"unix:{tmp_path_factory.mktemp('s') / 's'}")


@pytest.fixture
def owner(served: tuple[px.Space, str]) -> px.Space:
    return served[0]


@pytest.fixture(params=["here", "served"])
def searcher(request: pytest.FixtureRequest, served: tuple[px.Space, str]) -> Iterator[px.Space]:
    owner, address = served
    if request.param == "here":
        yield owner
    else:
        with px.Space(address) as reached:
            yield reached


def during(search: Callable[[], Any], others: Callable[[int], None]) -> tuple[Any, int]:
    """What a search found that ran in a thread of its own, and how often others had the space meanwhile."""
    began, found, times = threading.Event(), [], 0

    def run() -> None:
        began.set()
        found.append(search())

    thread = threading.Thread(target=run)
    thread.start()
    began.wait()
    while thread.is_alive():
        others(times)
        times += 1
    return found[0], times


def test_others_are_served_during_a_search(owner: px.Space, searcher: px.Space) -> None:
    def others(_: int) -> None:
        owner.out("other")
        assert owner.inp("other") == ("other",)

    for search, answer in [
        (lambda: searcher.rdp("number", dear(-1)), None),
        (lambda: searcher.inp("number", dear(MANY + 7)), None),
        (lambda: searcher.count("number", dear(MANY - 1)), 1),
        (lambda: searcher.rdp("number", dear(MANY - 1)), ("number", MANY - 1)),
        (lambda: list(searcher.rd_all("number", dear(MANY - 1))), [("number", MANY - 1)]),
    ]:
        found, times = during(search, others)
        assert found == answer
        assert times > 3


def test_who_waits_gets_what_comes_during_its_search(owner: px.Space, searcher: px.Space) -> None:
    def others(time: int) -> None:
        if time == 0:
            owner.out("number", MANY + 1)

    found, _ = during(lambda: searcher.in_("number", dear(MANY + 1), timeout=30), others)
    assert found == ("number", MANY + 1)
    future = searcher.in_future("number", dear(MANY + 2))
    owner.out("number", MANY + 2)
    assert future.result(timeout=30) == ("number", MANY + 2)
    later = searcher.in_future("number", dear(MANY + 3))
    assert later.cancel()
    owner.out("number", MANY + 3)
    assert owner.count("number", dear(MANY + 3)) == 1
    assert searcher.in_future("number", dear(MANY + 3)).result(timeout=30) == ("number", MANY + 3)


def test_what_several_look_for_one_of_them_takes(owner: px.Space, searcher: px.Space) -> None:
    owner.out("number", MANY + 4)
    taken: list[Any] = []
    spaces = [owner, searcher, owner, searcher]
    threads = [
        threading.Thread(target=lambda space=space: taken.append(space.inp("number", dear(MANY + 4))))
        for space in spaces
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken, key=str) == [("number", MANY + 4), None, None, None]


def test_an_out_among_dear_waiters_serves_them_all() -> None:
    with px.Space() as space:
        waiting = [space.rd_future(dear(-1 - number)) for number in range(1000)]
        wanted = space.in_future(dear(5))
        space.out_many([(number,) for number in range(300)])
        assert wanted.result(timeout=60) == (5,)
        assert all(future.cancel() for future in waiting)
        assert space.count(int) == 299
