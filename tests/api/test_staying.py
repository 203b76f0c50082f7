"""Heavy tokens between two instructions stay at the interpreter that made them."""

from __future__ import annotations

import os
import signal
import types
import weakref
from pathlib import Path
from typing import Any, cast

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


def _holders() -> dict[str, Any]:
    """Functions that keep what they give, each in another way, and say what is in it."""
    kept: list[Any] = []

    def array(number: int) -> np.ndarray:
        kept.append(zeros(0))
        return cast(np.ndarray, kept[-1])

    def view_of_kept(number: int) -> np.ndarray:
        kept.append(zeros(0))
        return cast(np.ndarray, kept[-1])[:]

    def view_is_kept(number: int) -> np.ndarray:
        whole = zeros(0)
        kept.append(whole[:])
        return whole

    def memory_is_kept(number: int) -> np.ndarray:
        whole = zeros(0)
        kept.append(np.asarray(whole.data))
        return whole

    def weakly(number: int) -> np.ndarray:
        whole = zeros(0)
        weak = weakref.ref(whole)
        kept.append(whole)
        del whole
        found = weak()
        kept[-1] = zeros(0)
        assert found is not None
        WEAK.append(weakref.ref(found))
        return found

    def dict_of_kept(number: int) -> dict[str, Any]:
        kept.append(zeros(0))
        return {"array": kept[-1], "number": number}

    def kept_dict(number: int) -> dict[str, Any]:
        whole = {"array": zeros(0)}
        kept.append(whole)
        return whole

    def twice(number: int) -> tuple[np.ndarray, np.ndarray]:
        whole = zeros(0)
        return whole, whole

    functions = [array, view_of_kept, view_is_kept, memory_is_kept, weakly, dict_of_kept, kept_dict, twice]
    seen = [lambda: all(not (it["array"] if isinstance(it, dict) else it).any() for it in kept)]
    return {function.__name__: (function, seen[0]) for function in functions}


WEAK: list[Any] = []


@pytest.mark.parametrize("name", sorted(_holders()))
def test_what_anything_else_holds_is_not_written(own_manager: px.Manager, name: str) -> None:
    give, is_clean = _holders()[name]

    def write(token: Any) -> int:
        arrays = token.values() if isinstance(token, dict) else token if isinstance(token, tuple) else [token]
        for array in arrays:
            if isinstance(array, np.ndarray):
                array += 1
        if not is_clean() or any(it() is not None and it().any() for it in WEAK):
            return -1
        return int(sum(array.sum() for array in arrays if isinstance(array, np.ndarray)))

    # As if it had travelled: one array that is in a token twice still is one array there.
    expected = HEAVY // 8 * (4 if name == "twice" else 1)
    assert list(own_manager.compute(px.Pipeline(give, write, fuse=False), range(3))) == [expected] * 3


def address(array: np.ndarray) -> tuple[int, np.ndarray]:
    return array.ctypes.data, array


@pytest.mark.parametrize("wrap", [lambda it: it, lambda it: [it], lambda it: {"a": (it, 1)}, types.SimpleNamespace])
def test_what_nothing_else_holds_is_not_copied(own_manager: px.Manager, wrap: Any) -> None:
    def unwrap(token: Any) -> np.ndarray:
        if isinstance(token, types.SimpleNamespace):
            return cast(np.ndarray, token.a)
        found = token["a"][0] if isinstance(token, dict) else token[0] if isinstance(token, list) else token
        return cast(np.ndarray, found)

    def give(number: int) -> Any:
        array = zeros(number)
        given = types.SimpleNamespace(a=array) if wrap is types.SimpleNamespace else wrap(array)
        WEAK[:] = [array.ctypes.data]
        return given

    def compare(token: Any) -> bool:
        array = unwrap(token)
        array += 1
        return array.ctypes.data == WEAK[0] and array.flags.writeable and bool((array == array[0]).all())

    program = px.Pipeline(give, lambda token: token, compare, fuse=False)
    assert all(own_manager.compute(program, range(6)))


def test_what_only_reads_gets_arrays_that_cannot_be_written(own_manager: px.Manager) -> None:
    @px.read_only
    def is_writeable(token: Any) -> bool:
        array = token["a"] if isinstance(token, dict) else token
        return bool(array.flags.writeable)

    for give in (zeros, lambda number: {"a": zeros(number)}):
        assert not any(own_manager.compute(px.Pipeline(give, is_writeable, fuse=False), range(4)))


def test_many_are_answered_together(own_manager: px.Manager) -> None:
    program = px.Pipeline(lambda number: bytes(100_000 + number), len, fuse=False)
    assert list(own_manager.compute(program, range(2000))) == [100_000 + number for number in range(2000)]
    answers = own_manager.summary()
    assert stayed(own_manager) >= 2000 * 100_000
    assert sum(it.tasks for it in answers.interpreters) == 2000


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
