"""What tasks and results can be, and that no two of them share anything."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import fractions
import pathlib
import random
import uuid
from typing import Any

import phalanx as px
import pytest
from api import tasks


@dataclasses.dataclass(frozen=True)
class Study:
    name: str
    slices: tuple[int, ...]
    notes: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Node:
    children: list[Node]


class Recursive(list[Any]):
    """Equal to nothing but itself; contains itself."""


VALUES: dict[str, Any] = {
    "none": None,
    "numbers": [0, -1, 2**70, 0.1, float("inf"), 1j, True],
    "texts": ["", "ä€𝄞", "x" * 1_000_000, "\ud800"],
    "bytes": b"\x00\xff" * 500_000,
    "big tuple": tuple(range(100_000)),
    "big dictionary": {f"key {number}": (number, [number]) for number in range(20_000)},
    "sets": ({1, 2}, frozenset({3})),
    "dataclass": Study("CT", (1, 2, 3), {"by": ["a", "b"]}),
    "times": datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=datetime.timezone.utc),
    "exact numbers": (decimal.Decimal("0.1"), fractions.Fraction(1, 3)),
    "collections": (collections.OrderedDict(a=1), collections.Counter("abca"), collections.deque([1], 5)),
    "others": (uuid.UUID(int=5), pathlib.PurePath("a/b"), range(3), slice(1, 2), ..., int, len),
    "special texts": ["__main__", b"__main__"],
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_goes_and_comes_back(manager: px.Manager, name: str) -> None:
    value = VALUES[name]
    assert list(manager.compute(tasks.identity, [value, value])) == [value, value]
    assert manager.submit(tasks.identity, value).result() == value


def test_values_of_all_kinds_in_one_stream(manager: px.Manager) -> None:
    stream = [*VALUES.values(), *range(1000)] * 2
    assert list(manager.compute(tasks.identity, stream)) == stream


def test_random_values(manager: px.Manager) -> None:
    dice = random.Random(7)

    def value(depth: int) -> Any:
        plain = [None, dice.random(), dice.randrange(-(2**40), 2**40), "text" * dice.randrange(40), b"bytes", False]
        kind = dice.randrange(4) if depth else 3
        if kind == 3:
            return dice.choice(plain)
        items = [value(depth - 1) for _ in range(dice.randrange(5))]
        return [items, tuple(items), dict(enumerate(items))][kind]

    stream = [value(dice.randrange(4)) for _ in range(3000)]
    assert list(manager.compute(tasks.identity, stream)) == stream
    assert list(manager.compute(tasks.identity, iter(stream))) == stream


def test_objects_that_contain_themselves(manager: px.Manager) -> None:
    loop = Recursive()
    loop.append(loop)
    (result,) = manager.compute(tasks.identity, [loop])
    assert type(result) is Recursive
    assert result[0] is result


def test_what_is_nested_too_deeply_is_an_error(manager: px.Manager) -> None:
    chain = Node([])
    for _ in range(200_000):  # Python 3.13 pickles 5000
        chain = Node([chain])
    with pytest.raises(px.StagingError, match="cannot be pickled"):
        list(manager.compute(tasks.identity, [chain]))


def test_tasks_that_share_an_object_each_have_their_own(manager: px.Manager) -> None:
    shared: list[int] = []

    def grow(task: tuple[int, list[int]]) -> list[int]:
        number, numbers = task
        numbers.append(number)
        return numbers

    stream = [(number, shared) for number in range(3000)]
    assert list(manager.compute(grow, stream)) == [[number] for number in range(3000)]
    assert list(manager.map(grow, stream[:50])) == [[number] for number in range(50)]
    assert shared == []


def test_results_that_share_an_object_each_have_their_own(manager: px.Manager) -> None:
    kept: list[int] = [0]

    def reuse(number: int) -> list[int]:
        kept[0] = number
        return kept

    results = list(manager.compute(reuse, range(3000)))
    assert results == [[number] for number in range(3000)]
    results[0].append(1)
    assert results[1] == [1]


def test_the_state_of_a_program_is_each_interpreters_own(manager: px.Manager) -> None:
    seen: list[int] = []

    def remember(number: int) -> int:
        seen.append(number)
        return len(seen)

    counts = list(manager.compute(remember, range(200)))
    assert max(counts) <= 200
    assert seen == []
    assert next(manager.compute(remember, [1])) == 1  # a compute begins anew


def test_one_huge_result_among_many_small_ones(manager: px.Manager) -> None:
    results = manager.compute(lambda number: b"x" * (20 << 20 if number == 50 else 1), range(100))
    assert [len(result) for result in results] == [20 << 20 if number == 50 else 1 for number in range(100)]
