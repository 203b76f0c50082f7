"""Collective operations that move data, with random datatypes on both sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from differential.layouts import Bytes, Layout, memory, random_layout
from differential.step import Step
from mpi4py import MPI


class Blocks:
    """Blocks of a datatype in one memory, in any order, with gaps between them."""

    def __init__(self, step: Step, layout: Layout, counts: list[int]) -> None:
        self.layout, self.counts = layout, counts
        order, at = step.random.sample(range(len(counts)), len(counts)), 0
        self.displacements = [0] * len(counts)
        for block in order:
            at += step.random.randint(0, 2)
            self.displacements[block] = at
            at += counts[block] + 1  # what a resized datatype lacks at its end
        self.reach = at

    def memory(self, content: np.random.Generator | None = None) -> Bytes:
        """For all of them."""
        return memory(self.layout, self.reach, content)

    def spec(self, place: Bytes) -> list[Any]:
        """As mpi4py wants it."""
        return [place, self.counts, self.displacements, self.layout.datatype]


def _counts(step: Step, number: int) -> list[int]:
    most = 2000 if step.random.random() < 0.1 else 20
    return [step.random.choice((0, 1, step.random.randint(0, most))) for _ in range(number)]


def _do(step: Step, blocking: Callable[..., Any], other: Callable[..., Any], *arguments: Any) -> None:
    if step.random.random() < 0.5:
        blocking(*arguments)
    else:
        other(*arguments).Wait()


def _other_side(step: Step, layout: Layout, count: int) -> tuple[Layout, int]:
    """The same elements one behind the other, or as they are."""
    if layout.element is None or step.random.random() < 0.5:
        return layout, count
    return Layout(layout.element, layout.element, 1), count * layout.elements


def bcast(step: Step) -> None:
    """One's data to all, who may lay it out differently."""
    layout, count, root = random_layout(step.random), step.count(), step.random.randrange(step.size)
    other, other_count = _other_side(step, layout, count)
    here, here_count = (layout, count) if step.rank == root else (other, other_count)
    place = memory(here, here_count, step.content() if step.rank == root else None)
    _do(step, step.comm.Bcast, step.comm.Ibcast, [place, here_count, here.datatype], root)
    step.say(place)
    layout.free()


def barrier(step: Step) -> None:
    """Nothing but time."""
    _do(step, step.comm.Barrier, step.comm.Ibarrier)
    step.say()


def gather(step: Step) -> None:
    """Blocks of one length to one."""
    layout, count, root = random_layout(step.random), step.count(), step.random.randrange(step.size)
    into, into_count = _other_side(step, layout, count)
    sent, received = memory(layout, count, step.content()), memory(into, into_count * step.size)
    out, place = [sent, count, layout.datatype], [received, into_count, into.datatype]
    _do(step, step.comm.Gather, step.comm.Igather, out, place if step.rank == root else None, root)
    step.say(received)
    layout.free()


def scatter(step: Step) -> None:
    """Blocks of one length from one."""
    layout, count, root = random_layout(step.random), step.count(), step.random.randrange(step.size)
    into, into_count = _other_side(step, layout, count)
    sent, received = memory(layout, count * step.size, step.content()), memory(into, into_count)
    out, place = [sent, count, layout.datatype], [received, into_count, into.datatype]
    _do(step, step.comm.Scatter, step.comm.Iscatter, out if step.rank == root else None, place, root)
    step.say(received)
    layout.free()


def allgather(step: Step) -> None:
    """Blocks of one length to all, at times one's own is in its place."""
    layout, count = random_layout(step.random), step.count()
    into, into_count = _other_side(step, layout, count)
    in_place = step.random.random() < 0.3
    sent = memory(layout, count, step.content())
    received = memory(into, into_count * step.size, step.content() if in_place else None)
    out = MPI.IN_PLACE if in_place else [sent, count, layout.datatype]
    _do(step, step.comm.Allgather, step.comm.Iallgather, out, [received, into_count, into.datatype])
    step.say(received)
    layout.free()


def alltoall(step: Step) -> None:
    """A block of one length to each."""
    layout, count = random_layout(step.random), step.count()
    into, into_count = _other_side(step, layout, count)
    in_place = step.random.random() < 0.3
    sent = memory(layout, count * step.size, step.content())
    received = memory(into, into_count * step.size, step.content() if in_place else None)
    out = MPI.IN_PLACE if in_place else [sent, count, layout.datatype]
    _do(step, step.comm.Alltoall, step.comm.Ialltoall, out, [received, into_count, into.datatype])
    step.say(received)
    layout.free()


def gatherv(step: Step) -> None:
    """Blocks of any length to one."""
    layout, root = random_layout(step.random), step.random.randrange(step.size)
    blocks = Blocks(step, layout, _counts(step, step.size))
    count = blocks.counts[step.rank]
    sent, received = memory(layout, count, step.content()), blocks.memory()
    place = blocks.spec(received) if step.rank == root else None
    _do(step, step.comm.Gatherv, step.comm.Igatherv, [sent, count, layout.datatype], place, root)
    step.say(received)
    layout.free()


def scatterv(step: Step) -> None:
    """Blocks of any length from one."""
    layout, root = random_layout(step.random), step.random.randrange(step.size)
    blocks = Blocks(step, layout, _counts(step, step.size))
    count = blocks.counts[step.rank]
    sent, received = blocks.memory(step.content()), memory(layout, count)
    out = blocks.spec(sent) if step.rank == root else None
    _do(step, step.comm.Scatterv, step.comm.Iscatterv, out, [received, count, layout.datatype], root)
    step.say(received)
    layout.free()


def allgatherv(step: Step) -> None:
    """Blocks of any length to all."""
    layout = random_layout(step.random)
    blocks = Blocks(step, layout, _counts(step, step.size))
    count = blocks.counts[step.rank]
    sent, received = memory(layout, count, step.content()), blocks.memory()
    out = [sent, count, layout.datatype]
    _do(step, step.comm.Allgatherv, step.comm.Iallgatherv, out, blocks.spec(received))
    step.say(received)
    layout.free()


def _tables(step: Step, layout: Layout) -> tuple[Blocks, Blocks]:
    """What this rank sends to each, and what it gets of each; all ranks draw the same numbers."""
    table = [_counts(step, step.size) for _ in range(step.size)]
    out = [Blocks(step, layout, table[rank]) for rank in range(step.size)]
    into = [Blocks(step, layout, [table[other][rank] for other in range(step.size)]) for rank in range(step.size)]
    return out[step.rank], into[step.rank]


def alltoallv(step: Step) -> None:
    """A block of any length to each."""
    layout = random_layout(step.random)
    out, into = _tables(step, layout)
    sent, received = out.memory(step.content()), into.memory()
    _do(step, step.comm.Alltoallv, step.comm.Ialltoallv, out.spec(sent), into.spec(received))
    step.say(received)
    layout.free()


def alltoallw(step: Step) -> None:
    """The same, where each pair has a datatype of its own."""
    layouts = [random_layout(step.random, 1) for _ in range(step.size)]  # by who receives
    counts = [_counts(step, step.size) for _ in range(step.size)]  # by who sends, and who receives

    def laid(blocks: list[tuple[Layout, int]]) -> tuple[list[int], int]:
        starts, at = [], 0
        for layout, count in blocks:
            starts.append(at)
            at += layout.bytes(count) + 16
            at += -at % 16
        return starts, at

    leaving = [(layouts[other], counts[step.rank][other]) for other in range(step.size)]
    coming = [(layouts[step.rank], counts[other][step.rank]) for other in range(step.size)]
    (starts, size), (places, room) = laid(leaving), laid(coming)
    sent, received = step.content().integers(0, 256, size, np.uint8), np.full(room, 0xA5, np.uint8)

    def spec(place: Bytes, at: list[int], blocks: list[tuple[Layout, int]]) -> list[Any]:
        return [place, ([count for _, count in blocks], at), [layout.datatype for layout, _ in blocks]]

    out, into = spec(sent, starts, leaving), spec(received, places, coming)
    _do(step, step.comm.Alltoallw, step.comm.Ialltoallw, out, into)
    step.say(received)
    for layout in layouts:
        layout.free()


def neighbours(step: Step) -> None:
    """On a grid with or without edges, and on a random graph."""
    grid = step.random.random() < 0.5
    if grid:
        dims = MPI.Compute_dims(step.size, step.random.randint(1, 2))
        made: Any = step.comm.Create_cart(dims, [step.random.random() < 0.5 for _ in dims])
        degree_in = degree_out = 2 * len(dims)
        shifts = [made.Shift(axis, 1) for axis in range(len(dims))]
        step.say(made.coords, *("nobody" if rank == MPI.PROC_NULL else rank for shift in shifts for rank in shift))
    else:
        edges = [(one, other) for one in range(step.size) for other in range(step.size) if step.random.random() < 0.5]
        sources = [one for one, other in edges if other == step.rank]
        goals = [other for one, other in edges if one == step.rank]
        made = step.comm.Create_dist_graph_adjacent(sources, goals)
        degree_in, degree_out = len(sources), len(goals)
    layout, count = random_layout(step.random), step.random.randint(1, 20)
    sent, received = memory(layout, count, step.content()), memory(layout, count * degree_in)
    place = [received, count, layout.datatype]
    _do(step, made.Neighbor_allgather, made.Ineighbor_allgather, [sent, count, layout.datatype], place)
    step.say(received)
    sent, received = memory(layout, count * degree_out, step.content()), memory(layout, count * degree_in)
    place = [received, count, layout.datatype]
    # Where both neighbours are the same rank, Open MPI 5.0.11 mixes up the two blocks of the non-blocking call.
    sends = [sent, count, layout.datatype]
    if grid:
        made.Neighbor_alltoall(sends, place)
    else:
        _do(step, made.Neighbor_alltoall, made.Ineighbor_alltoall, sends, place)
    step.say(received)
    made.Free()
    layout.free()


def window(step: Step) -> None:
    """Put, get and accumulate between fences, where no two of them meet in one place."""
    place = np.arange(step.size * 8, dtype="i8") + 1000 * step.rank
    shift, count = step.random.randrange(step.size), step.random.randint(1, 4)
    target = (step.rank + shift) % step.size
    data, got = step.content().integers(0, 100, count), np.zeros(count, "i8")
    opened = MPI.Win.Create(place, 8, comm=step.comm)
    opened.Fence()
    opened.Put([data, count, MPI.INT64_T], target, step.rank * 8)
    opened.Fence()
    opened.Accumulate([data, count, MPI.INT64_T], target, step.rank * 8 + 2, MPI.SUM)
    opened.Fence()
    opened.Get([got, count, MPI.INT64_T], target, (step.rank + 1) % step.size * 8)
    opened.Fence()
    opened.Free()
    step.say(place, got)
