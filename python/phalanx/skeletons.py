"""Skeletons: they put a program together from plain functions (paper 000, section 2).

A program is a function or a skeleton of programs, nested to any depth. It becomes a macro data flow graph of
instructions, and any interpreter may fire any of them (:mod:`phalanx._compile`). Results never depend on where or in
which order instructions are fired. The docstring of each skeleton gives its sequential meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Union, overload

from phalanx.errors import ProgramError
from phalanx.security import Marks, marks_of, read_mark
from phalanx.words import Mark

Function = Callable[..., Any]
Program = Union[Callable[[Any], Any], "Skeleton"]

#: The name of a graph's task among its nodes.
TASK = "task"
#: Stands for an argument that was not given.
MISSING: Any = object()


class Skeleton:
    """The base class of all skeletons.

    Parameters
    ----------
    secure : {"data", "code", "both"} or None
        Marks everything in the skeleton, as :func:`phalanx.secure_data` and :func:`phalanx.secure_code` mark a function
        (paper 000, section 4.4).
    """

    #: Whether it takes and gives what its only part takes and gives.
    is_transparent = False

    def __init__(self, secure: Mark | None) -> None:
        self.marks: Marks = read_mark(secure)


class Farm(Skeleton):
    """Computes a program on many tasks at once (paper 000, section 2).

    Its sequential meaning is ``program(task)``. A farm adds nothing to the graph, because any interpreter may fire any
    instruction anyway.

    Parameters
    ----------
    program
        A function of one argument, or a skeleton. With ``setup``, a function of two: the value and the task.
    setup : callable, optional
        A function without arguments. Each interpreter calls it once, before the first task that this farm has there,
        and gives its value to ``program`` with each task. :func:`phalanx.per_interpreter` says how long it stays.
    secure : {"data", "code", "both"}, optional
        What in it is protected, as for :class:`Skeleton`.

    Raises
    ------
    ProgramError
        ``program`` is neither a function nor a skeleton. Or there is a ``setup``, and one of both is no function.

    Examples
    --------
    >>> import phalanx as px
    >>> px.Farm(abs)
    Farm(abs)
    >>> px.Farm(pow, setup=lambda: 2)
    Farm(pow, setup=<lambda>)
    """

    is_transparent = True

    @overload
    def __init__(self, program: Program, *, secure: Mark | None = None) -> None: ...
    @overload
    def __init__(
        self, program: Callable[[Any, Any], Any], *, setup: Callable[[], Any], secure: Mark | None = None
    ) -> None: ...
    def __init__(
        self, program: Function | Skeleton, *, setup: Callable[[], Any] | None = None, secure: Mark | None = None
    ) -> None:
        super().__init__(secure)
        self.program: Program = _checked(program)
        self._shown = name_of(self.program)
        if setup is not None:
            if isinstance(program, Skeleton):
                raise ProgramError(
                    f"setup= is for a function of the value and a task, and {program!r} is a skeleton: give it to the "
                    "px.Farm(function, setup=…) inside of it"
                )
            from phalanx.setups import Prepared, per_interpreter  # most farms have none

            setup = per_interpreter(setup)
            self._shown += f", setup={name_of(setup)}"
            self.program = Prepared(program, setup)
            self.marks |= marks_of(setup)

    def __repr__(self) -> str:
        return f"Farm({self._shown})"


class Pipeline(Skeleton):
    """Computes stages one after the other, each on the result of the stage before (paper 000, section 2).

    Parameters
    ----------
    *stages
        At least one function or skeleton.
    fuse : bool
        Whether stages that follow each other become one instruction. With ``False`` each stage is an instruction of its
        own, and another interpreter may fire it. This helps when only some machines have time for a stage. The price
        is that the token travels between the stages.
    secure : {"data", "code", "both"}, optional
        What in it is protected, as for :class:`Skeleton`.

    Raises
    ------
    ProgramError
        There is no stage, or a stage is neither a function nor a skeleton.

    Examples
    --------
    >>> import phalanx as px
    >>> px.Pipeline(abs, str)
    Pipeline(abs, str)
    """

    def __init__(self, *stages: Program, fuse: bool = True, secure: Mark | None = None) -> None:
        if not stages:
            raise ProgramError("a pipeline needs at least one stage")
        super().__init__(secure)
        self.stages = tuple(map(_checked, stages))
        self.fuse = fuse

    def __repr__(self) -> str:
        return f"Pipeline({', '.join(map(name_of, self.stages))})"


class Map(Skeleton):
    """Computes a program on every part of a task: ``join([program(part) for part in split(task)])``.

    Parts are computed at all interpreters at once. The first part that raises makes its task raise. Parts of that task
    that were not begun are then dropped. A task with more than 1 048 576 parts, or more than 1 GiB of them, raises
    ValueError.

    Parameters
    ----------
    program
        A function of one argument, or a skeleton.
    split : callable, optional
        Returns an iterable of the parts of a task. Without it the task itself is that iterable.
    join : callable, optional
        Takes the list of results in the order of the parts. Without it that list is the result.
    secure : {"data", "code", "both"}, optional
        What in it is protected, as for :class:`Skeleton`.

    Raises
    ------
    ProgramError
        ``program``, ``split`` or ``join`` cannot be called.

    Examples
    --------
    >>> import phalanx as px
    >>> program = px.Map(abs, join=sum)
    >>> with px.Manager(contract=px.ParDegree(2)) as manager:
    ...     list(manager.compute(program, [[-1, -2], [3]]))
    [3, 3]
    """

    def __init__(
        self,
        program: Program,
        *,
        split: Function | None = None,
        join: Function | None = None,
        secure: Mark | None = None,
    ) -> None:
        super().__init__(secure)
        self.program = _checked(program)
        self.split = _function(split, "split")
        self.join = _function(join, "join")

    def __repr__(self) -> str:
        return f"Map({name_of(self.program)})"


class Reduce(Skeleton):
    """Folds the items of a task into one: ``functools.reduce(function, task)``, with ``initial`` before them if given.

    The items are folded in their order, but in any grouping, as a tree over the interpreters. A task without items
    raises TypeError unless there is an ``initial``. A task with more than 16 777 216 items raises ValueError.

    Parameters
    ----------
    function : callable
        Takes two items. It must be associative.
    initial : optional
        An item before the first one.
    secure : {"data", "code", "both"}, optional
        What in it is protected, as for :class:`Skeleton`.

    Raises
    ------
    ProgramError
        ``function`` is no function of two arguments.

    Examples
    --------
    >>> import operator
    >>> import phalanx as px
    >>> with px.Manager(contract=px.ParDegree(2)) as manager:
    ...     list(manager.compute(px.Reduce(operator.add), [[1, 2, 3]]))
    [6]
    """

    def __init__(
        self, function: Callable[[Any, Any], Any], *, initial: Any = MISSING, secure: Mark | None = None
    ) -> None:
        super().__init__(secure)
        self.function = _function_of_two(function, "Reduce")
        self.initial: tuple[Any, ...] = () if initial is MISSING else (initial,)

    def __repr__(self) -> str:
        return f"Reduce({name_of(self.function)})"


class Scan(Skeleton):
    """Folds every prefix of a task's items: ``list(itertools.accumulate(task, function))``.

    Chunks are folded in parallel, then their offsets are computed, then the chunks are scanned in parallel. A long scan
    therefore calls the function about twice for each item. A task with more than 16 777 216 items raises ValueError.

    Parameters
    ----------
    function : callable
        Takes two items. It must be associative.
    secure : {"data", "code", "both"}, optional
        What in it is protected, as for :class:`Skeleton`.

    Raises
    ------
    ProgramError
        ``function`` is no function of two arguments.

    Examples
    --------
    >>> import operator
    >>> import phalanx as px
    >>> with px.Manager(contract=px.ParDegree(2)) as manager:
    ...     list(manager.compute(px.Scan(operator.add), [[1, 2, 3]]))
    [[1, 3, 6]]
    """

    def __init__(self, function: Callable[[Any, Any], Any], *, secure: Mark | None = None) -> None:
        super().__init__(secure)
        self.function = _function_of_two(function, "Scan")

    def __repr__(self) -> str:
        return f"Scan({name_of(self.function)})"


class Loop(Skeleton):
    """Computes a program again and again: ``while while_(token): token = program(token)``.

    The condition is fired where the token is. If the program is fused, the whole loop is one instruction.

    Parameters
    ----------
    program
        A function of one argument, or a skeleton.
    while_ : callable
        The condition, a function of one argument.
    secure : {"data", "code", "both"}, optional
        What in it is protected, as for :class:`Skeleton`.

    Raises
    ------
    ProgramError
        ``program`` is neither a function nor a skeleton, or ``while_`` cannot be called.

    Examples
    --------
    >>> import phalanx as px
    >>> program = px.Loop(lambda n: 2 * n, while_=lambda n: n < 100)
    >>> with px.Manager(contract=px.ParDegree(1)) as manager:
    ...     list(manager.compute(program, [3, 200]))
    [192, 200]
    """

    def __init__(self, program: Program, *, while_: Callable[[Any], Any], secure: Mark | None = None) -> None:
        super().__init__(secure)
        if not callable(while_) or isinstance(while_, Skeleton):
            raise ProgramError(f"a loop's condition is a function of one argument, not {while_!r}")
        self.program = _checked(program)
        self.while_ = while_

    def __repr__(self) -> str:
        return f"Loop({name_of(self.program)}, while_={name_of(self.while_)})"


class Graph(Skeleton):
    """Any acyclic graph of programs: a macro data flow of your own (paper 000, section 2).

    A node is fired as soon as all its inputs are there. A node that the result does not need is not fired.

    Parameters
    ----------
    nodes : mapping of str to tuple
        For each node its program and the names of its inputs; ``"task"`` is the task itself. The inputs are the
        arguments of the function. A skeleton that begins with a function hands them to that function.
    result : str
        The node whose token is the result of the graph.
    secure : {"data", "code", "both"}, optional
        What in it is protected, as for :class:`Skeleton`.

    Raises
    ------
    ProgramError
        The graph has a cycle or an unknown name, or a function does not take as many arguments as it has inputs.

    Examples
    --------
    >>> import phalanx as px
    >>> nodes = {"low": (min, "task"), "high": (max, "task"), "both": (divmod, "high", "low")}
    >>> program = px.Graph(nodes, result="both")
    >>> with px.Manager(contract=px.ParDegree(1)) as manager:
    ...     list(manager.compute(program, [[2, 9]]))
    [(4, 1)]
    """

    def __init__(self, nodes: Mapping[str, tuple[Any, ...]], *, result: str, secure: Mark | None = None) -> None:
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
        """The nodes that the result needs, in topological order."""
        from graphlib import CycleError, TopologicalSorter  # imported here because it is slow to import, like inspect

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
    """The name of a program in messages."""
    return getattr(program, "__qualname__", None) or repr(program)


def check(program: Any) -> None:
    """Raises ProgramError if ``program`` is neither a skeleton nor a function."""
    if not isinstance(program, Skeleton) and not callable(program):
        raise ProgramError(f"{program!r} is no skeleton: write a function of one argument, or px.Farm, px.Map, …")


def _checked(program: Any) -> Any:
    check(program)
    return program


def _function(function: Any, what: str) -> Any:
    if function is None or (callable(function) and not isinstance(function, Skeleton)):
        return function
    raise ProgramError(f"{what} is a function of one argument, not {function!r}")


def _function_of_two(function: Any, what: str) -> Any:
    if not callable(function) or isinstance(function, Skeleton):
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
    while isinstance(first, Skeleton) and (first.is_transparent or isinstance(first, Pipeline)):
        first = first.stages[0] if isinstance(first, Pipeline) else first.program  # type: ignore[attr-defined]
    if isinstance(first, Map) and first.split is not None:
        first = first.split
    if isinstance(first, Skeleton):
        if inputs > 1:
            raise ProgramError(f"node {name!r} has {inputs} inputs, and {first!r} takes one")
    elif not _takes(first, inputs):
        raise ProgramError(f"node {name!r} has {inputs} inputs, and {name_of(first)} does not take so many arguments")


def _takes(function: Any, arguments: int) -> bool:
    """Whether a function can be called with this number of arguments; true if that cannot be known."""
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
