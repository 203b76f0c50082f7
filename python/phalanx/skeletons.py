"""Skeletons: how a program is put together from plain functions (paper 000, section 2).

A program is a function or a skeleton of programs, nested to any depth. It becomes a graph of instructions in macro data
flow, of which any interpreter may fire any (:mod:`phalanx._compile`). What the results are never depends on where or
in which order that happens: every skeleton has a sequential meaning, which its docstring gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Union

from phalanx.errors import ProgramError
from phalanx.security import Marks, read_mark

Function = Callable[..., Any]
Program = Union[Callable[[Any], Any], "Skeleton"]

#: The name of a graph's task among its nodes.
TASK = "task"
#: Stands for an argument that was not given.
MISSING: Any = object()


class Skeleton:
    """What all skeletons are. ``secure``: ``"data"``, ``"code"`` or ``"both"`` mark everything in one, as
    :func:`phalanx.secure_data` and :func:`phalanx.secure_code` mark a function."""

    def __init__(self, secure: str | None) -> None:
        self.marks: Marks = read_mark(secure)


class Farm(Skeleton):
    """Computes a program on many tasks at once.

    ``program``: a function of one argument, or a skeleton. Because every instruction may be fired at any interpreter, a
    farm adds nothing to the graph: it says what the graph does anyway.
    """

    def __init__(self, program: Program, *, secure: str | None = None) -> None:
        super().__init__(secure)
        self.program = _checked(program)

    def __repr__(self) -> str:
        return f"Farm({name_of(self.program)})"


class Pipeline(Skeleton):
    """Computes stages one after the other, each on the result of the one before.

    ``stages``: at least one function or skeleton. With ``fuse=False`` every stage is an instruction of its own, which
    may be fired at another interpreter than the one before: of use when a stage needs what only some machines have time
    for, at the price of the token's way.
    """

    def __init__(self, *stages: Program, fuse: bool = True, secure: str | None = None) -> None:
        if not stages:
            raise ProgramError("a pipeline needs at least one stage")
        super().__init__(secure)
        self.stages = tuple(map(_checked, stages))
        self.fuse = fuse

    def __repr__(self) -> str:
        return f"Pipeline({', '.join(map(name_of, self.stages))})"


class Map(Skeleton):
    """Computes a program on every part of a task: ``join([program(part) for part in split(task)])``.

    ``split`` gives an iterable of parts; without it the task is one. ``join`` takes the list of results in the order of
    the parts; without it that list is the result. Parts are computed at all interpreters at once. The first part that
    raises makes its task raise; parts of it that were not begun are dropped. More than 1 048 576 parts of one task, or
    more than 1 GiB of them, are a ValueError of that task.
    """

    def __init__(
        self,
        program: Program,
        *,
        split: Function | None = None,
        join: Function | None = None,
        secure: str | None = None,
    ) -> None:
        super().__init__(secure)
        self.program = _checked(program)
        self.split = _function(split, "split")
        self.join = _function(join, "join")

    def __repr__(self) -> str:
        return f"Map({name_of(self.program)})"


class Reduce(Skeleton):
    """Folds the items of a task into one: ``functools.reduce(function, task)``, with ``initial`` before them if given.

    ``function`` takes two items and must be associative: the items are folded in their order, but in any grouping, as a
    tree over the interpreters. A task without items raises TypeError unless there is an ``initial``. More than
    16 777 216 items are a ValueError of that task.
    """

    def __init__(
        self, function: Callable[[Any, Any], Any], *, initial: Any = MISSING, secure: str | None = None
    ) -> None:
        super().__init__(secure)
        self.function = _function_of_two(function, "Reduce")
        self.initial: tuple[Any, ...] = () if initial is MISSING else (initial,)

    def __repr__(self) -> str:
        return f"Reduce({name_of(self.function)})"


class Scan(Skeleton):
    """The list of all prefixes of a task's items, folded: ``list(itertools.accumulate(task, function))``.

    ``function`` takes two items and must be associative. Chunks are folded side by side, then their offsets, then the
    chunks are scanned side by side; so a long scan calls the function about twice for each item. More than
    16 777 216 items are a ValueError of that task.
    """

    def __init__(self, function: Callable[[Any, Any], Any], *, secure: str | None = None) -> None:
        super().__init__(secure)
        self.function = _function_of_two(function, "Scan")

    def __repr__(self) -> str:
        return f"Scan({name_of(self.function)})"


class Loop(Skeleton):
    """Computes a program again and again: ``while while_(token): token = program(token)``.

    The condition is fired where the token is. If the program is fused, the whole loop is one instruction.
    """

    def __init__(self, program: Program, *, while_: Callable[[Any], Any], secure: str | None = None) -> None:
        super().__init__(secure)
        if not callable(while_):
            raise ProgramError(f"a loop's condition is a function of one argument, not {while_!r}")
        self.program = _checked(program)
        self.while_ = while_

    def __repr__(self) -> str:
        return f"Loop({name_of(self.program)}, while_={name_of(self.while_)})"


class Graph(Skeleton):
    """Any acyclic graph of programs: a macro data flow of your own.

    ``nodes``: for each name what is computed there and the names of its inputs, ``"task"`` for the task itself. The
    inputs are a function's arguments; a skeleton that begins with a function hands them to that one. ``result``: the
    node whose token is the graph's. A node is fired as soon as all its inputs are there; a node that the result does
    not need is not fired.

    Raises ProgramError for cycles, unknown names, and functions that do not take so many arguments.
    """

    def __init__(self, nodes: Mapping[str, tuple[Any, ...]], *, result: str, secure: str | None = None) -> None:
        super().__init__(secure)
        if not isinstance(nodes, Mapping):
            raise ProgramError(f"a graph's nodes are a dict of (function or skeleton, 'input', ...), not {nodes!r}")
        self.nodes = {name: _node(name, node) for name, node in nodes.items()}
        self.result = result
        if TASK in self.nodes:
            raise ProgramError(f"{TASK!r} is the name of the task, and of no node")
        if result not in self.nodes:
            raise ProgramError(f"the result {result!r} is none of the nodes {_names(self.nodes)}")
        for name, (program, inputs) in self.nodes.items():
            for source in inputs:
                if source != TASK and source not in self.nodes:
                    raise ProgramError(f"node {name!r} has an input {source!r}, which is none of {_names(self.nodes)}")
            _check_arity(name, program, len(inputs))
        self.order = self._needed_in_order()

    def __repr__(self) -> str:
        return f"Graph({', '.join(self.nodes)})"

    def _needed_in_order(self) -> list[str]:
        """The nodes that the result needs, each after its inputs."""
        from graphlib import CycleError, TopologicalSorter  # slow to import, as inspect is

        try:
            order = list(TopologicalSorter({name: inputs for name, (_, inputs) in self.nodes.items()}).static_order())
        except CycleError as error:
            raise ProgramError(f"the graph has a cycle: {' → '.join(error.args[1])}") from None
        needed = {self.result}
        for name in reversed(order):
            if name in needed and name != TASK:
                needed.update(self.nodes[name][1])
        return [name for name in order if name in needed and name != TASK]


def name_of(program: Any) -> str:
    """What messages call a program."""
    return getattr(program, "__qualname__", None) or repr(program)


def check(program: Any) -> None:
    """Raises ProgramError where something is neither a skeleton nor a function."""
    if not isinstance(program, Skeleton) and not callable(program):
        raise ProgramError(f"{program!r} is no skeleton: write a function of one argument, or px.Farm, px.Map, …")


def _checked(program: Any) -> Any:
    check(program)
    return program


def _function(function: Any, what: str) -> Any:
    if function is None or callable(function):
        return function
    raise ProgramError(f"{what} is a function of one argument, not {function!r}")


def _function_of_two(function: Any, what: str) -> Any:
    if not callable(function):
        raise ProgramError(f"{what} takes a function of two arguments, not {function!r}")
    if not _takes(function, 2):
        raise ProgramError(f"{what} takes a function of two arguments, which {name_of(function)} is not")
    return function


def _node(name: Any, node: Any) -> tuple[Any, tuple[str, ...]]:
    if not isinstance(name, str):
        raise ProgramError(f"a node's name is a string, not {name!r}")
    if not isinstance(node, tuple) or len(node) < 2 or not all(isinstance(source, str) for source in node[1:]):
        raise ProgramError(f"node {name!r} is to be (function or skeleton, 'input', ...), not {node!r}")
    return _checked(node[0]), node[1:]


def _check_arity(name: str, program: Program, inputs: int) -> None:
    first: Any = program
    while isinstance(first, (Farm, Pipeline)):
        first = first.program if isinstance(first, Farm) else first.stages[0]
    if isinstance(first, Map) and first.split is not None:
        first = first.split
    if isinstance(first, Skeleton):
        if inputs > 1:
            raise ProgramError(f"node {name!r} has {inputs} inputs, and {first!r} takes one")
    elif not _takes(first, inputs):
        raise ProgramError(f"node {name!r} has {inputs} inputs, and {name_of(first)} does not take so many arguments")


def _takes(function: Any, arguments: int) -> bool:
    """Whether a function can be called with so many arguments; true where that cannot be known."""
    import inspect

    try:
        inspect.signature(function).bind(*range(arguments))
    except ValueError:  # a builtin without a signature
        return True
    except TypeError:
        return False
    return True


def _names(nodes: Iterable[str]) -> str:
    return ", ".join(map(repr, nodes)) or "(none)"
