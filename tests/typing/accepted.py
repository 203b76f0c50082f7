"""What a type checker makes of programs; mypy reads this file with all others and nothing runs it."""

from __future__ import annotations

from concurrent.futures import Future

import phalanx as px
from typing_extensions import assert_type


def parse(line: str) -> float:
    return float(line)


def compute(manager: px.Manager) -> None:
    assert_type(list(manager.compute(parse, ["1", "2"])), list[float])
    assert_type(next(manager.compute(str.upper, ("a", "b"))), str)
    manager.compute(px.Pipeline(str.strip, px.Farm(lambda text: text + "!")), ["a"])
    manager.compute(px.Map(parse, split=str.split, join=sum), ["1 2 3"])
    manager.compute(px.Graph({"a": (parse, "task"), "b": (lambda x, y: x, "a", "a")}, result="b"), ["1"])


def submit(manager: px.Manager) -> None:
    assert_type(manager.submit(parse, "1"), Future[float])
    assert_type(manager.submit(parse, line="1").result(), float)
    assert_type(list(manager.map(parse, ["1"])), list[float])


def spaces(space: px.Space) -> None:
    space.out("a", 1)
    assert_type(space.out("a", 1, lease=2.0), px.Lease)
    assert_type(space.count("a", int), int)
    space.out("a", 1, lease=2.0).renew(None)


async def spaces_beside(space: px.Space) -> None:
    assert_type(await space.aout("a", 1, lease=2.0), px.Lease)


def names() -> None:
    assert_type(px.__version__, str)
    assert_type(px.errors.SpaceError("why"), px.SpaceError)
    px.Transaction(isolation="repeatable read")
