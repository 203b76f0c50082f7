"""What programs mean, computed here and now, one step after the other; and programs made at random."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable
from typing import Any

import phalanx as px

#: Numbers stay below this, whatever is computed.
MODULUS = 1009


def meaning(program: Any, task: Any) -> Any:
    """What the program gives for the task."""
    if isinstance(program, px.Farm):
        return meaning(program.program, task)
    if isinstance(program, px.Pipeline):
        return functools.reduce(lambda token, stage: meaning(stage, token), program.stages, task)
    if isinstance(program, px.Map):
        parts = [meaning(program.program, part) for part in (program.split(task) if program.split else task)]
        return program.join(parts) if program.join else parts
    if isinstance(program, px.Reduce):
        return functools.reduce(program.function, task, *program.initial)
    if isinstance(program, px.Scan):
        return list(itertools.accumulate(task, program.function))
    if isinstance(program, px.Loop):
        while program.while_(task):
            task = meaning(program.program, task)
        return task
    if isinstance(program, px.Graph):
        return _meaning_of_graph(program, task)
    return program(task)


def _meaning_of_graph(graph: px.Graph, task: Any) -> Any:
    tokens = {"task": task}
    for name in graph.order:
        program, inputs = graph.nodes[name]
        values = [tokens[source] for source in inputs]
        tokens[name] = meaning(program, values[0]) if len(values) == 1 else program(*values)
    return tokens[graph.result]


def more(number: int) -> int:
    return (number + 1) % MODULUS


def times(number: int) -> int:
    return number * 7 % MODULUS


def some(number: int) -> list[int]:
    """Up to six numbers, sometimes none."""
    return [(number * part + part) % MODULUS for part in range(number % 7)]


def at_least_one(number: int) -> list[int]:
    return [number, *some(number)]


def in_order(numbers: list[int]) -> int:
    """Another number for another order."""
    return functools.reduce(lambda all_, number: (all_ * 31 + number + 1) % MODULUS, numbers, len(numbers))


def affine(first: tuple[int, int], second: tuple[int, int]) -> tuple[int, int]:
    """Associative, and not commutative: one affine function behind another."""
    return first[0] * second[0] % MODULUS, (first[1] * second[0] + second[1]) % MODULUS


def functions(number: int) -> list[tuple[int, int]]:
    return [(value % 5, value) for value in at_least_one(number)]


def total(pairs: list[tuple[int, int]]) -> int:
    return in_order([value for pair in pairs for value in pair])


def mixed(first: int, second: int) -> int:
    return (first * 3 + second * 5 + 1) % MODULUS


def first_of(pair: tuple[int, int]) -> int:
    return pair[0]


def fuel_of(pair: tuple[int, int]) -> int:
    return pair[1] - 1


def pair_of(number: int, fuel: int) -> tuple[int, int]:
    return number, fuel


def fuelled(number: int) -> tuple[int, int]:
    return number, number % 5


def goes_on(pair: tuple[int, int]) -> bool:
    return pair[1] > 0 and pair[0] % 4 != 0


def _loop(body: Any) -> Any:
    """A loop that ends: with every turn there is less fuel."""
    nodes = {
        "number": (first_of, "task"),
        "next": (body, "number"),
        "fuel": (fuel_of, "task"),
        "pair": (pair_of, "next", "fuel"),
    }
    return px.Pipeline(fuelled, px.Loop(px.Graph(nodes, result="pair"), while_=goes_on), first_of)


def _graph(a: Any, b: Any) -> Any:
    nodes = {"left": (a, "task"), "right": (b, "task"), "not needed": (more, "left"), "both": (mixed, "right", "left")}
    return px.Graph({**nodes, "all": (mixed, "task", "both")}, result="all")


def random_program(dice: random.Random, depth: int) -> Any:
    """A program from numbers to numbers, nested up to this depth."""
    if depth == 0:
        return dice.choice([more, times])

    def inner() -> Any:
        return random_program(dice, depth - 1)

    kinds: list[Callable[[], Any]] = [
        lambda: px.Farm(inner()),
        lambda: px.Pipeline(inner(), inner(), fuse=dice.random() < 0.5),
        lambda: px.Map(inner(), split=some, join=in_order),
        lambda: px.Pipeline(some, px.Map(inner()), in_order, fuse=dice.random() < 0.5),
        lambda: px.Pipeline(inner(), functions, px.Reduce(affine), mixed_of),
        lambda: px.Pipeline(inner(), functions, px.Scan(affine), total),
        lambda: px.Loop(px.Pipeline(times, halved, halved), while_=bool),
        lambda: _loop(inner()),
        lambda: _graph(inner(), inner()),
    ]
    return dice.choice(kinds)()


def mixed_of(pair: tuple[int, int]) -> int:
    return mixed(*pair)


def halved(number: int) -> int:
    """Less with every call, also after `times`."""
    return number // 4
