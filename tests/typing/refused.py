"""What a type checker must refuse; mypy says so where one of these is accepted (its unused-ignore)."""

from __future__ import annotations

import phalanx as px


def parse(line: str) -> float:
    return float(line)


def compute(manager: px.Manager) -> None:
    manager.compute(parse, [1, 2])  # type: ignore[arg-type]
    manager.compute(3, ["1"])  # type: ignore[call-overload]
    manager.compute(parse, ["1"], order=True)  # type: ignore[call-overload]
    px.Pipeline(3)  # type: ignore[arg-type]


def submit(manager: px.Manager) -> None:
    manager.submit(parse)  # type: ignore[call-arg]
    manager.submit(parse, 1)  # type: ignore[arg-type]
    manager.submit(parse, lines="1")  # type: ignore[call-arg]
    manager.submit(parse, "1").result().upper()  # type: ignore[attr-defined]


def spaces(space: px.Space) -> None:
    space.out("a", 1).renew(2)  # type: ignore[attr-defined]
    space.out("a", 1, lease="2")  # type: ignore[call-overload]
    px.Transaction(space, isolation="serializable")  # type: ignore[arg-type]
    px.Space(3)  # type: ignore[arg-type]
