"""Heavy tokens between two instructions stay at the interpreter that made them."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import phalanx as px
import pytest

HEAVY = 1 << 20


@pytest.fixture
def own_manager() -> Any:
    with px.Manager(contract=px.ParDegree(2)) as manager:
        yield manager


def zeros(number: int) -> np.ndarray:
    return np.full(HEAVY // 8, number, dtype=np.int64)


def add_one(array: np.ndarray) -> np.ndarray:
    array += 1  # arrives as anything does that travels: writable, and nobody else's
    return array


def total(array: np.ndarray) -> int:
    return int(array.sum())


def stayed(manager: px.Manager) -> int:
    return sum(it.bytes_stayed for it in manager.summary().interpreters)


def travelled(manager: px.Manager) -> int:
    return sum(it.bytes_in + it.bytes_out for it in manager.summary().interpreters)


@pytest.mark.parametrize(
    "body",
    [
        px.Pipeline(zeros, add_one, total, fuse=False),
        px.Pipeline(zeros, px.Pipeline(add_one, px.Farm(total), fuse=False), fuse=False),
        px.Map(px.Pipeline(zeros, add_one, total, fuse=False), split=lambda number: [number], join=sum),
        px.Graph({"a": (zeros, "task"), "b": (px.Pipeline(add_one, total, fuse=False), "a")}, result="b"),
    ],
    ids=["chain", "nested", "map", "graph"],
)
def test_they_do_not_travel(own_manager: px.Manager, body: Any) -> None:
    assert list(own_manager.compute(body, range(20))) == [(number + 1) * HEAVY // 8 for number in range(20)]
    assert travelled(own_manager) < HEAVY
    assert stayed(own_manager) >= 20 * HEAVY


def test_light_ones_travel_together(own_manager: px.Manager) -> None:
    program = px.Pipeline(str, len, fuse=False)
    assert list(own_manager.compute(program, range(1000))) == [len(str(number)) for number in range(1000)]
    assert stayed(own_manager) == 0


def test_light_and_heavy_ones_keep_their_order(own_manager: px.Manager) -> None:
    def text(number: int) -> str:
        return "x" * (number if number % 3 else 100_000 + number)

    program = px.Pipeline(text, px.Farm(len), fuse=False)
    assert list(own_manager.compute(program, range(300))) == [len(text(number)) for number in range(300)]
    assert stayed(own_manager) > 0


def test_nobody_sees_whether_they_travelled(own_manager: px.Manager) -> None:
    kept = np.zeros(HEAVY // 8, dtype=np.int64)

    def of_mine(number: int) -> np.ndarray:
        assert not kept.any(), "somebody else wrote into it"
        return kept

    program = px.Pipeline(of_mine, add_one, total, fuse=False)
    assert list(own_manager.compute(program, range(10))) == [HEAVY // 8] * 10


def test_what_branches_or_splits_takes_them_too(own_manager: px.Manager) -> None:
    halves = px.Map(total, split=lambda array: np.array_split(array, 2), join=sum)
    program = px.Pipeline(zeros, halves, fuse=False)
    assert list(own_manager.compute(program, range(6))) == [number * HEAVY // 8 for number in range(6)]
    grown = px.Loop(
        px.Map(add_one, split=lambda array: [array], join=lambda parts: parts[0]), while_=lambda a: a[0] < 3
    )
    assert list(own_manager.compute(px.Pipeline(zeros, grown, total, fuse=False), [0, 5])) == [
        3 * HEAVY // 8,
        5 * HEAVY // 8,
    ]


def test_an_exception_behind_one_names_its_task(own_manager: px.Manager) -> None:
    def odd(array: np.ndarray) -> int:
        if array[0] == 3:
            raise ValueError("three")
        return int(array[0])

    results = own_manager.compute(px.Pipeline(zeros, odd, fuse=False), range(6))
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="three"):
        next(results)


def test_what_is_lost_with_its_interpreter_is_made_again(own_manager: px.Manager, tmp_path: Path) -> None:
    once = str(tmp_path / "once")

    def fatal(array: np.ndarray) -> int:
        if array[0] == 4 and not Path(once).exists():
            Path(once).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return int(array[0])

    program = px.Pipeline(zeros, fatal, fuse=False)
    assert list(own_manager.compute(program, range(12))) == list(range(12))
