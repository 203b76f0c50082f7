"""Random datatypes, and memory for them."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
PREDEFINED = (
    MPI.BYTE,
    MPI.CHAR,
    MPI.SHORT,
    MPI.INT,
    MPI.INT64_T,
    MPI.UINT16_T,
    MPI.FLOAT,
    MPI.DOUBLE,
    MPI.C_DOUBLE_COMPLEX,
)


@dataclass
class Layout:
    """A datatype of so many elements, all of them `element`; None where they are of several kinds."""

    datatype: MPI.Datatype
    element: MPI.Datatype | None
    elements: int

    def bytes(self, count: int) -> int:
        """Of memory that so many of them reach over."""
        _, extent = self.datatype.Get_extent()
        begin, true_extent = self.datatype.Get_true_extent()
        return max(0, count - 1) * extent + begin + true_extent if count else 0

    def free(self) -> None:
        """Give the datatype back."""
        if not self.datatype.is_predefined:
            self.datatype.Free()


def random_layout(random: Random, depth: int = 2) -> Layout:
    """A predefined datatype, or one made of another one."""
    if depth == 0 or random.random() < 0.3:
        datatype = random.choice(PREDEFINED)
        return Layout(datatype, datatype, 1)
    inner = random_layout(random, depth - 1)
    if random.random() < 0.2:
        made = _struct(random, inner)
    else:
        made = random.choice((_contiguous, _vector, _indexed, _hindexed, _block, _subarray, _resized))(random, inner)
    inner.free()
    made.datatype.Commit()
    return made


def _contiguous(random: Random, inner: Layout) -> Layout:
    count = random.randint(1, 4)
    return Layout(inner.datatype.Create_contiguous(count), inner.element, inner.elements * count)


def _vector(random: Random, inner: Layout) -> Layout:
    count, block = random.randint(1, 4), random.randint(1, 3)
    stride = block + random.randint(0, 3)
    if random.random() < 0.5:
        datatype = inner.datatype.Create_vector(count, block, stride)
    else:
        datatype = inner.datatype.Create_hvector(count, block, stride * inner.datatype.Get_extent()[1])
    return Layout(datatype, inner.element, inner.elements * count * block)


def _places(random: Random) -> tuple[list[int], list[int]]:
    """Lengths of blocks, some of them 0, and where they begin: one behind the other, in any order."""
    lengths = [random.randint(0, 3) for _ in range(random.randint(1, 4))] + [1]
    starts, at = [], 0
    for length in lengths:
        at += random.randint(0, 2)
        starts.append(at)
        at += length
    order = random.sample(range(len(lengths)), len(lengths))
    return [lengths[number] for number in order], [starts[number] for number in order]


def _indexed(random: Random, inner: Layout) -> Layout:
    lengths, starts = _places(random)
    return Layout(inner.datatype.Create_indexed(lengths, starts), inner.element, inner.elements * sum(lengths))


def _hindexed(random: Random, inner: Layout) -> Layout:
    lengths, starts = _places(random)
    extent = inner.datatype.Get_extent()[1]
    datatype = inner.datatype.Create_hindexed(lengths, [start * extent for start in starts])
    return Layout(datatype, inner.element, inner.elements * sum(lengths))


def _block(random: Random, inner: Layout) -> Layout:
    length, count = random.randint(1, 3), random.randint(1, 4)
    starts = [number * (length + 1) for number in random.sample(range(6), count)]
    return Layout(inner.datatype.Create_indexed_block(length, starts), inner.element, inner.elements * length * count)


def _subarray(random: Random, inner: Layout) -> Layout:
    sizes = [random.randint(1, 4) for _ in range(random.randint(1, 3))]
    parts = [random.randint(1, size) for size in sizes]
    starts = [random.randint(0, size - part) for size, part in zip(sizes, parts, strict=True)]
    order = random.choice((MPI.ORDER_C, MPI.ORDER_FORTRAN))
    datatype = inner.datatype.Create_subarray(sizes, parts, starts, order=order)
    return Layout(datatype, inner.element, inner.elements * int(np.prod(parts)))


def _resized(random: Random, inner: Layout) -> Layout:
    bound, extent = inner.datatype.Get_extent()
    datatype = inner.datatype.Create_resized(bound, extent + random.randint(0, 3) * 16)
    return Layout(datatype, inner.element, inner.elements)


def _struct(random: Random, inner: Layout) -> Layout:
    other = random.choice(PREDEFINED)
    begin = inner.bytes(2) + random.randint(0, 9)
    begin += -begin % 16
    datatype = MPI.Datatype.Create_struct([2, 3], [0, begin], [inner.datatype, other])
    # The end that was set for a part is that of the whole; but elements must not overlap where they are received.
    resized = datatype.Create_resized(0, begin + 3 * other.Get_size())
    datatype.Free()
    return Layout(resized, None, inner.elements * 2 + 3)


def memory(layout: Layout, count: int, content: np.random.Generator | None = None) -> Bytes:
    """Bytes for so many of them and a margin: random ones, or all the same."""
    size = layout.bytes(count) + 64
    return np.full(size, 0xA5, np.uint8) if content is None else content.integers(0, 256, size, np.uint8)


def spec(place: Any, count: int, layout: Layout) -> list[Any]:
    """As mpi4py wants it."""
    return [place, count, layout.datatype]
