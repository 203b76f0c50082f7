"""Collective operations that combine: on integers, and on floats that are small integers, whose sums and products are
exact in every order, so that libraries that add in different orders must agree."""

from __future__ import annotations

from typing import Any

import numpy as np
from differential.step import Step
from mpi4py import MPI
from numpy.typing import NDArray

Numbers = NDArray[Any]
INTEGERS = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")
FLOATS = ("f4", "f8", "c16")
ARITHMETIC = (MPI.SUM, MPI.PROD, MPI.MAX, MPI.MIN)
BITS_AND_TRUTHS = (MPI.BAND, MPI.BOR, MPI.BXOR, MPI.LAND, MPI.LOR, MPI.LXOR)


def _times(left: Any, right: Any, _: MPI.Datatype) -> None:
    """Matrices of two by two numbers, whose product depends on the order of the factors."""
    first = np.frombuffer(left, "u4").reshape(-1, 2, 2)
    second = np.frombuffer(right, "u4").reshape(-1, 2, 2)
    second[:] = first @ second


class Combination:
    """Operands of a random type, and an operation on them."""

    def __init__(self, step: Step) -> None:
        random, self.count = step.random, step.count()
        self.own = random.random() < 0.15
        kind = random.choice(INTEGERS + FLOATS)
        self.dtype = np.dtype("u4" if self.own else kind)
        operations: tuple[MPI.Op, ...] = ARITHMETIC if kind in FLOATS else ARITHMETIC + BITS_AND_TRUTHS
        operations = (MPI.SUM, MPI.PROD) if kind == "c16" else operations
        self.op = MPI.Op.Create(_times, commute=False) if self.own else random.choice(operations)
        self.unit = 1
        self.datatype = MPI.Datatype.fromcode(self.dtype.char)
        if self.own:  # whole matrices only
            self.unit, self.datatype = 4, self.datatype.Create_contiguous(4).Commit()

    def operands(self, step: Step, blocks: int = 1) -> Numbers:
        """Of this rank. Truths and products need no large numbers."""
        numbers = step.content().integers(0, 3, self.count * blocks * self.unit)
        if self.op not in (MPI.PROD,) and not self.own:
            numbers = step.content().integers(0, 20, self.count * blocks * self.unit)
        return numbers.astype(self.dtype)

    def results(self) -> Numbers:
        """Where they go."""
        return np.full(self.count * self.unit, 99, self.dtype)

    def spec(self, numbers: Numbers) -> list[Any]:
        """As mpi4py wants it."""
        return [numbers, self.count, self.datatype]

    def free(self) -> None:
        """Give back what was made."""
        if self.own:
            self.op.Free()
            self.datatype.Free()


def _waits(step: Step, blocking: Any, other: Any, *arguments: Any) -> None:
    """Calls one or the other."""
    if step.random.random() < 0.5:
        blocking(*arguments)
    else:
        other(*arguments).Wait()


def reduce(step: Step) -> None:
    """To one."""
    combination, root = Combination(step), step.random.randrange(step.size)
    own, result = combination.operands(step), combination.results()
    in_place = step.random.random() < 0.3 and step.rank == root
    if in_place:
        result[:] = own
    send = MPI.IN_PLACE if in_place else combination.spec(own)
    _waits(step, step.comm.Reduce, step.comm.Ireduce, send, combination.spec(result), combination.op, root)
    step.say(combination.dtype, result, own)
    combination.free()


def allreduce(step: Step) -> None:
    """To all."""
    combination = Combination(step)
    own, result = combination.operands(step), combination.results()
    in_place = step.random.random() < 0.3
    if in_place:
        result[:] = own
    send = MPI.IN_PLACE if in_place else combination.spec(own)
    _waits(step, step.comm.Allreduce, step.comm.Iallreduce, send, combination.spec(result), combination.op)
    step.say(combination.dtype, result, own)
    combination.free()


def scan(step: Step) -> None:
    """Of those before, with or without one's own. Without, rank 0's result is undefined."""
    combination, inclusive = Combination(step), step.random.random() < 0.5
    own, result = combination.operands(step), combination.results()
    blocking, other = (step.comm.Scan, step.comm.Iscan) if inclusive else (step.comm.Exscan, step.comm.Iexscan)
    _waits(step, blocking, other, combination.spec(own), combination.spec(result), combination.op)
    step.say(combination.dtype, own, *([result] if inclusive or step.rank > 0 else []))
    combination.free()


def reduce_scatter_block(step: Step) -> None:
    """A part to each, all as long."""
    combination = Combination(step)
    own, result = combination.operands(step, step.size), combination.results()
    send, place = combination.spec(own), combination.spec(result)
    _waits(step, step.comm.Reduce_scatter_block, step.comm.Ireduce_scatter_block, send, place, combination.op)
    step.say(combination.dtype, result)
    combination.free()


def reduce_scatter(step: Step) -> None:
    """A part to each."""
    combination = Combination(step)
    counts = [step.random.randint(0, 30) for _ in range(step.size)]
    combination.count = sum(counts)
    own = combination.operands(step)
    combination.count = counts[step.rank]
    result = combination.results()
    send = [own, sum(counts), combination.datatype]
    place = combination.spec(result)
    _waits(step, step.comm.Reduce_scatter, step.comm.Ireduce_scatter, send, place, counts, combination.op)
    step.say(combination.dtype, result)
    combination.free()


def places(step: Step) -> None:
    """The largest or the smallest, and where it is: equal ones are told apart by their index."""
    count, op = step.random.randint(1, 40), step.random.choice((MPI.MAXLOC, MPI.MINLOC))
    pairs = np.zeros((count, 2), "i4")
    pairs[:, 0], pairs[:, 1] = step.content().integers(0, 3, count), step.rank
    result = np.zeros_like(pairs)
    step.comm.Allreduce([pairs, count, MPI.TWOINT], [result, count, MPI.TWOINT], op)
    step.say(result)


def local(step: Step) -> None:
    """Without any message."""
    combination = Combination(step)
    own, result = combination.operands(step), combination.operands(step)
    combination.op.Reduce_local(combination.spec(own), combination.spec(result))
    step.say(combination.dtype, result)
    combination.free()
