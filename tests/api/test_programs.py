"""What a program can be: anything that can be called with one task, and skeletons of it, nested to any depth."""

from __future__ import annotations

import functools
import operator
import random
from collections.abc import Callable
from typing import Any

import phalanx as px
import pytest
from api import tasks


class Scale:
    """Its objects can be called, and so can its methods."""

    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __call__(self, number: int) -> int:
        return self.factor * number

    def method(self, number: int) -> int:
        return self.factor + number

    @classmethod
    def of_class(cls, number: int) -> int:
        return cls(3)(number)

    @staticmethod
    def static(number: int) -> int:
        return 5 * number


def closure(factor: int) -> Callable[[int], int]:
    def inner(number: int) -> int:
        return factor * number

    return inner


def local_class() -> Callable[[int], int]:
    class Local(Scale):
        def __call__(self, number: int) -> int:
            return super().__call__(number) + 1

    return Local(7)


def recursive() -> Callable[[int], int]:
    def factorial(number: int) -> int:
        return number * factorial(number - 1) if number > 1 else 1

    return factorial


CALLABLES: dict[str, Callable[[int], Any]] = {
    "function": tasks.double,
    "builtin": abs,
    "type": str,
    "lambda": lambda number: number - 1,
    "closure": closure(3),
    "recursive closure": recursive(),
    "callable object": Scale(4),
    "object of a local class": local_class(),
    "bound method": Scale(5).method,
    "class method": Scale.of_class,
    "static method": Scale.static,
    "bound method of a builtin": [0, 1, 2, 3, 4, 5, 6].index,
    "partial": functools.partial(operator.add, 10),
    "partial of a lambda": functools.partial(lambda a, b: a * b, 11),
    "operator": operator.methodcaller("bit_length"),
    "cached": tasks.remembered_square,
}


@pytest.mark.parametrize("name", CALLABLES)
def test_whatever_can_be_called_is_a_program(manager: px.Manager, name: str) -> None:
    function = CALLABLES[name]
    expected = [function(number) for number in range(7)]
    assert list(manager.compute(function, range(7))) == expected
    assert list(manager.compute(px.Farm(function), range(7))) == expected


def test_stages_are_computed_one_after_the_other(manager: px.Manager) -> None:
    program = px.Pipeline(tasks.increment, px.Farm(tasks.square), tasks.negate)
    assert list(manager.compute(program, range(5))) == [-1, -4, -9, -16, -25]


def test_stages_that_are_not_fused_give_the_same(manager: px.Manager) -> None:
    program = px.Pipeline(tasks.increment, px.Farm(tasks.square), tasks.negate, fuse=False)
    assert list(manager.compute(program, range(500))) == [-((n + 1) ** 2) for n in range(500)]


def test_the_types_on_the_way_are_the_stages_own_business(manager: px.Manager) -> None:
    program = px.Pipeline(str, len, range, list, tuple, lambda numbers: {"all": numbers}, fuse=False)
    assert list(manager.compute(program, [7, 1234])) == [{"all": (0,)}, {"all": (0, 1, 2, 3)}]


def test_a_stage_may_give_none(manager: px.Manager) -> None:
    nothing = px.Pipeline(lambda number: None, lambda token: token is None, fuse=False)
    assert list(manager.compute(nothing, range(3))) == [True, True, True]


@pytest.mark.parametrize("fuse", [True, False])
def test_deep_nesting(manager: px.Manager, fuse: bool) -> None:
    program: Any = tasks.increment
    for _ in range(30):
        program = px.Pipeline(px.Farm(px.Farm(program)), tasks.increment, fuse=fuse)
    assert list(manager.compute(program, range(20))) == [number + 31 for number in range(20)]


@pytest.mark.parametrize("fuse", [True, False])
def test_pipelines_and_farms_nest_to_any_depth(manager: px.Manager, fuse: bool) -> None:
    program: Any = tasks.increment
    for _ in range(2000):
        program = px.Pipeline(program, px.Farm(px.Farm(tasks.increment)), fuse=fuse)
    assert list(manager.compute(program, [0, 1])) == [2001, 2002]
    with_loop = px.Loop(program, while_=lambda number: number < 1)
    assert list(manager.compute(with_loop, [0, 1])) == [2001, 1]


@pytest.mark.parametrize(
    "around",
    [
        px.Map,
        lambda program: px.Loop(program, while_=bool),
        lambda program: px.Graph({"a": (program, "task")}, result="a"),
    ],
)
def test_what_nests_too_deep_is_an_error_that_says_what_to_do(manager: px.Manager, around: Any) -> None:
    program: Any = tasks.increment
    for _ in range(2000):
        program = around(program)
    with pytest.raises(px.ProgramError, match="nested more than 64 deep: write the inner ones as a function"):
        manager.compute(program, [1])


def random_program(dice: random.Random, depth: int) -> tuple[Any, Callable[[int], int]]:
    """Some program, and the function that it computes."""
    kind = dice.choice(["farm", "pipeline", "pipeline", "function"]) if depth else "function"
    if kind == "farm":
        program, meaning = random_program(dice, depth - 1)
        return px.Farm(program), meaning
    if kind == "function":
        function = dice.choice([tasks.double, tasks.increment, tasks.negate, closure(dice.randrange(9))])
        return function, function
    parts = [random_program(dice, depth - 1) for _ in range(dice.randrange(1, 4))]

    def composed(number: int) -> int:
        for _, meaning in parts:
            number = meaning(number)
        return number

    return px.Pipeline(*(program for program, _ in parts), fuse=dice.random() < 0.5), composed


@pytest.mark.parametrize("seed", range(15))
def test_any_nesting_computes_the_composition_of_its_functions(manager: px.Manager, seed: int) -> None:
    program, meaning = random_program(random.Random(seed), depth=4)
    assert list(manager.compute(program, range(40))) == [meaning(number) for number in range(40)]


def test_one_program_serves_many_computes(manager: px.Manager) -> None:
    program = px.Pipeline(tasks.double, px.Farm(tasks.increment))
    for length in (0, 1, 2, 100):
        assert list(manager.compute(program, range(length))) == [2 * number + 1 for number in range(length)]


def test_what_is_no_skeleton_is_an_error_at_once(manager: px.Manager) -> None:
    for wrong in (5, None, "double", [tasks.double], object()):
        with pytest.raises(px.ProgramError, match="no skeleton"):
            px.Farm(wrong)  # type: ignore[call-overload]
        with pytest.raises(px.ProgramError, match="no skeleton"):
            px.Pipeline(tasks.double, wrong)  # type: ignore[arg-type]
        with pytest.raises(px.ProgramError, match="no skeleton"):
            manager.compute(wrong, [1])  # type: ignore[call-overload]
    with pytest.raises(px.ProgramError, match="at least one stage"):
        px.Pipeline()


def test_a_program_error_is_a_type_error_too() -> None:
    assert issubclass(px.ProgramError, TypeError)
    assert issubclass(px.ProgramError, px.PhalanxError)


def test_skeletons_say_what_they_are() -> None:
    program = px.Pipeline(tasks.double, px.Farm(px.Pipeline(tasks.square, tasks.negate)))
    assert repr(program) == "Pipeline(double, Farm(Pipeline(square, negate)))"
