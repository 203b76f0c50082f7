"""What a type checker must refuse; mypy says so where one of these is accepted (its unused-ignore)."""

from __future__ import annotations

import phalanx as px


def parse(line: str) -> float:
    return float(line)


def divide(a: int, b: int) -> float:
    return a / b


def compute(manager: px.Manager) -> None:
    manager.compute(parse, [1, 2])  # type: ignore[arg-type]
    manager.compute(3, ["1"])  # type: ignore[call-overload]
    manager.compute(parse, ["1"], order=True)  # type: ignore[call-overload]
    px.Pipeline(3)  # type: ignore[arg-type]
    px.Farm(parse, setup=int)  # type: ignore[arg-type]
    px.Farm(divide)  # type: ignore[arg-type]
    px.per_interpreter(parse)  # type: ignore[arg-type]
    manager.compute(parse, ["1"], progress=3)  # type: ignore[call-overload]


def submit(manager: px.Manager) -> None:
    manager.submit(parse)  # type: ignore[call-arg]
    manager.submit(parse, 1)  # type: ignore[arg-type]
    manager.submit(parse, lines="1")  # type: ignore[call-arg]
    manager.submit(parse, "1").result().upper()  # type: ignore[attr-defined]
    manager.map(parse, [1])  # type: ignore[arg-type]
    manager.map(divide, ["2"], [3])  # type: ignore[arg-type]
    manager.map(parse, ["1"], buffer=3)  # type: ignore[call-overload]


def spaces(space: px.Space) -> None:
    space.out("a", 1).renew(2)  # type: ignore[attr-defined]
    space.out("a", 1, lease="2")  # type: ignore[call-overload]
    px.Transaction(space, isolation="serializable")  # type: ignore[arg-type]
    px.Space(3)  # type: ignore[arg-type]
    px.Space(order="any order")  # type: ignore[arg-type]
    px.Space(colour="red")  # type: ignore[call-arg]
    space.serve(users=["ada"])  # type: ignore[call-arg]
    px.space.move_tuples(["a/x"], placement="local", colour="red")  # type: ignore[call-arg]


def words(level: str) -> None:
    px.copy("a", "b:/c", level="secret")  # type: ignore[arg-type]
    px.copy("a", "b:/c", level=level)  # type: ignore[arg-type]
    px.copy("a", "b:/c", keep="owners")  # type: ignore[arg-type]
    px.sync("a", "b:/c", links="drop")  # type: ignore[arg-type]
    px.Files("lab", policy="some")  # type: ignore[arg-type]
    px.mpirun("ring.py", transport="tcp")  # type: ignore[arg-type]
    px.mpirun("ring.py", time_out=3)  # type: ignore[call-arg]
    px.Manager(output="loud")  # type: ignore[arg-type]
    px.Rules("rules.toml", policy="some")  # type: ignore[arg-type]


def grids(grid: px.Grid) -> None:
    px.Grid(policy="some")  # type: ignore[arg-type]
    grid.manager(contracts=2)  # type: ignore[call-arg]
    grid.copy("a", "b:/c", hosts="hosts.txt")  # type: ignore[call-arg]
    grid.space("jobs", order="some")  # type: ignore[arg-type]
    grid.mpirun("ring.py", policy="all")  # type: ignore[call-arg]


def names() -> None:
    px.Managr()  # type: ignore[attr-defined]
    px.errors.SpaceErr("why")  # type: ignore[attr-defined]
