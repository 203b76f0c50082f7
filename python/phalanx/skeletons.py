"""Skeletons: how a program is put together from plain functions (paper 000, section 2).

A program is a function, or a :class:`Farm` or :class:`Pipeline` of programs, nested to any depth. It becomes a graph
of instructions in macro data flow. Because every instruction may be fired at any interpreter, a farm adds nothing to
the graph: it says what the graph does anyway. A pipeline is a chain of instructions; by default the chain is *fused*
into one (the normal form of stream parallel skeletons), since a task's stages then run where its token already is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Union

from phalanx.errors import ProgramError
from phalanx.security import Marked, Marks, marks_of_chain, read_mark

Program = Union[Callable[[Any], Any], "Farm", "Pipeline"]
Functions = tuple[Callable[[Any], Any], ...]


class Farm:
    """Computes a program on many tasks at once.

    ``program``: a function of one argument, or a skeleton. ``secure``: ``"data"``, ``"code"`` or ``"both"`` mark all of
    it, as :func:`secure_data` and :func:`secure_code` mark a function.
    """

    def __init__(self, program: Program, *, secure: str | None = None) -> None:
        self.program = program
        self.marks = read_mark(secure)
        instructions(self)  # a program that is no skeleton is an error here and now

    def __repr__(self) -> str:
        return f"Farm({_name(self.program)})"


class Pipeline:
    """Computes stages one after the other, each on the result of the one before.

    ``stages``: at least one function or skeleton. With ``fuse=False`` every stage is an instruction of its own, which
    may be fired at another interpreter than the one before: of use when a stage needs what only some machines have time
    for, at the price of the token's way. ``secure``: as for :class:`Farm`.
    """

    def __init__(self, *stages: Program, fuse: bool = True, secure: str | None = None) -> None:
        if not stages:
            raise ProgramError("a pipeline needs at least one stage")
        self.stages = stages
        self.fuse = fuse
        self.marks = read_mark(secure)
        instructions(self)

    def __repr__(self) -> str:
        return f"Pipeline({', '.join(map(_name, self.stages))})"


class Fused:
    """Functions that are fired together as one instruction."""

    def __init__(self, functions: Functions) -> None:
        self.functions = functions

    def __repr__(self) -> str:
        return ", ".join(map(_name, self.functions))

    def __call__(self, token: Any) -> Any:
        """What the last function gives."""
        for function in self.functions:
            token = function(token)
        return token


def instructions(program: Program) -> list[Functions]:
    """The instructions of a program's graph in order, each as the functions that are fused in it.

    Raises ProgramError where something is neither a skeleton nor callable.
    """
    if isinstance(program, Farm):
        return _marked(instructions(program.program), program.marks)
    if isinstance(program, Pipeline):
        chain: list[Functions] = []
        for stage in program.stages:
            following = instructions(stage)
            if program.fuse and chain:
                chain[-1] += following[0]
                following = following[1:]
            chain += following
        return _marked(chain, program.marks)
    if not callable(program):
        raise ProgramError(f"{program!r} is no skeleton: write a function of one argument, px.Farm or px.Pipeline")
    return [(program,)]


def _marked(chain: list[Functions], marks: Marks) -> list[Functions]:
    return [tuple(Marked(one, marks) for one in functions) for functions in chain] if marks else chain


class Compiled(NamedTuple):
    """A program as the manager stages it."""

    #: One callable an instruction, in the order of the graph.
    functions: tuple[Callable[[Any], Any], ...]
    #: Whether the code is marked.
    marked_code: bool
    #: For each instruction, whether what it takes and what it gives is marked.
    marked_data: list[tuple[bool, bool]]


def compile_program(program: Program) -> Compiled:
    """The program as instructions, with their marks."""
    chain = instructions(program)
    functions = tuple(fused[0] if len(fused) == 1 else Fused(fused) for fused in chain)
    return Compiled(functions, *marks_of_chain(chain))


def _name(program: Program) -> str:
    return getattr(program, "__qualname__", None) or repr(program)
