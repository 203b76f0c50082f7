"""What a type checker makes of programs; mypy reads this file with all others and nothing runs it."""

from __future__ import annotations

import phalanx as px
from phalanx.words import Level
from typing_extensions import assert_type


def parse(line: str) -> float:
    return float(line)


def divide(a: int, b: int) -> float:
    return a / b


def total(*numbers: int) -> int:
    return sum(numbers)


def compute(manager: px.Manager) -> None:
    assert_type(list(manager.compute(parse, ["1", "2"])), list[float])
    assert_type(next(manager.compute(str.upper, ("a", "b"))), str)
    manager.compute(px.Pipeline(str.strip, px.Farm(lambda text: text + "!")), ["a"])
    manager.compute(px.Map(parse, split=str.split, join=sum), ["1 2 3"])
    manager.compute(px.Graph({"a": (parse, "task"), "b": (lambda x, y: x, "a", "a")}, result="b"), ["1"])


async def read(manager: px.Manager, space: px.Space) -> None:
    assert_type([each async for each in manager.compute(parse, ["1"], progress=True)], list[float])
    assert_type(await manager.submit(parse, "1"), float)
    await space.in_future("a")
    async with px.Manager(wait=3, packages=["./shop"]) as own:
        assert_type(own, px.Manager)


def state() -> None:
    load = px.per_interpreter(lambda: 3)
    assert_type(load(), int)
    px.Farm(divide, setup=load)


def submit(manager: px.Manager) -> None:
    assert_type(manager.submit(parse, "1"), px.manager.AwaitableFuture[float])
    assert_type(manager.submit(parse, line="1").result(), float)
    assert_type(list(manager.map(parse, ["1"])), list[float])
    assert_type(list(manager.map(divide, [2], [3], buffersize=4)), list[float])
    assert_type(list(manager.map(total, [1], [2], [3], [4])), list[int])


def spaces(space: px.Space) -> None:
    space.out("a", 1)
    assert_type(space.out("a", 1, lease=2.0), px.Lease)
    assert_type(space.count("a", int), int)
    space.out("a", 1, lease=2.0).renew(None)


async def spaces_beside(space: px.Space) -> None:
    assert_type(await space.aout("a", 1, lease=2.0), px.Lease)


def grids(level: Level) -> None:
    grid = px.Grid("hosts.txt", identity="user.pem", policy="marked", trusted="10.0.0.0/8")
    px.Grid(["ws7 = 10.0.0.7:7300"], policy=px.Rules("rules.toml", policy="all"))
    assert_type(grid.machines, dict[str, str])
    assert_type(grid.only("ws7", "ws8"), px.Grid)
    assert_type(grid.manager(contract=px.ParDegree(2), output="off"), px.Manager)
    assert_type(grid.space("jobs", placement="hash(0,1)", order="fifo", replicas=3), px.Space)
    assert_type(grid.copy("data", "ws7:/data", level=level, keep=["owner"], links="skip"), px.transfer.CopyReport)
    assert_type(grid.sync("data", "ws7:/data", delete=True), px.transfer.SyncReport)
    assert_type(grid.files("ws7", level="safe"), px.Files)
    assert_type(grid.mpirun("ring.py", n=2, timeout=3.0, delegate="spaces"), px.launching.LaunchResult)
    assert_type(grid.bsprun(["ring.py"], 2, checkpoint=1, env={"A": "b"}), px.launching.LaunchResult)


def short_forms(level: Level) -> None:
    px.copy("data", "ws7:/data", hosts=["ws7 = 10.0.0.7"], level=level, policy="all")
    px.mpirun("ring.py", hosts="one:7400,other:7400", transport="sockets", level="safe")
    px.bsprun("ring.py", restarts=1, cwd=".")
    px.Space("lab/jobs", order="lifo", secure=True, identity="user.pem", policy="marked")
    px.Space().serve(accept=["ada"], trusted=["10.0.0.0/8"])
    px.space.move_tuples(["a/x", "b/x"], placement="hash(1)", lease=2.0)


def names() -> None:
    assert_type(px.__version__, str)
    assert_type(px.errors.SpaceError("why"), px.SpaceError)
    px.space.Transaction(isolation="repeatable read")
    px.Transaction(isolation="repeatable read")
    assert_type(px.where() > 3, px.space.Query)
