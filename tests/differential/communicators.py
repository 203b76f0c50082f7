"""Communicators out of others. Everybody knows who is in which, so that all draw the same numbers."""

from __future__ import annotations

from random import Random
from typing import Any

from differential.step import Step
from mpi4py import MPI


class Communicators:
    """Of this rank, by number; those that it is not in are null."""

    def __init__(self) -> None:
        self.known: list[tuple[Any, list[int]]] = [(MPI.COMM_WORLD, list(range(MPI.COMM_WORLD.size)))]

    def choose(self, random: Random) -> tuple[Any, list[int]]:
        """One of them with its members, as ranks in the world, mostly all; all ranks choose the same."""
        return self.known[0] if random.random() < 0.4 else random.choice(self.known)

    def add(self, comm: MPI.Comm, members: list[int]) -> None:
        """A new one; an old one goes when there are many."""
        self.known.append((comm, members))
        if len(self.known) > 8:
            old, _ = self.known.pop(1)
            if old != MPI.COMM_NULL:
                old.Free()

    def free(self) -> None:
        """All but the world."""
        for comm, _ in self.known[1:]:
            if comm != MPI.COMM_NULL:
                comm.Free()


def make(known: Communicators, random: Random, parent: tuple[Any, list[int]]) -> str:
    """Make one of the parent, which this rank may not be in; what is to be said of it."""
    comm, members = parent
    how = random.choice(("dup", "split", "create", "create_group"))
    part = random.sample(range(len(members)), random.randint(1, len(members)))
    colors = [random.randrange(3) for _ in members]
    keys = [random.randrange(3) for _ in members]
    inside = comm != MPI.COMM_NULL
    made: Any = MPI.COMM_NULL
    if how == "dup":
        made = comm.Dup() if inside else made
        known.add(made, members)
    elif how == "split":  # the last color stands for none
        color = MPI.UNDEFINED if inside and colors[comm.rank] == 2 else colors[comm.rank] if inside else 0
        own = colors[comm.rank] if inside else None
        made = comm.Split(color, keys[comm.rank]) if inside else made
        for wanted in range(2):
            order = sorted((key, rank) for rank, key in enumerate(keys) if colors[rank] == wanted)
            if order:
                known.add(made if own == wanted else MPI.COMM_NULL, [members[rank] for _, rank in order])
    elif inside:
        group = comm.group.Incl(part)
        if how == "create":
            made = comm.Create(group)
        elif comm.rank in part:
            made = comm.Create_group(group, 7)
        group.Free()
    if how.startswith("create"):
        known.add(made, [members[rank] for rank in part])
    return f"{how} {_members(made)}"


def _members(comm: MPI.Comm) -> list[int]:
    if comm == MPI.COMM_NULL:
        return []
    return list(comm.group.Translate_ranks(list(range(comm.size)), MPI.COMM_WORLD.group))


def groups(step: Step) -> None:
    """Sets of ranks, and how they compare."""
    whole, random = step.comm.group, step.random
    one, other = (whole.Incl(random.sample(range(step.size), random.randint(0, step.size))) for _ in range(2))
    union, both = MPI.Group.Union(one, other), MPI.Group.Intersection(one, other)
    less, rest = MPI.Group.Difference(one, other), whole.Excl(random.sample(range(step.size), step.size // 2))
    span = whole.Range_incl([(0, step.size - 1, random.randint(1, 2))])
    found = [group.Translate_ranks(list(range(group.size)), whole) for group in (union, both, less, rest, span)]
    compared = [MPI.Group.Compare(one, other), MPI.Group.Compare(union, whole), MPI.Group.Compare(one, one)]
    # What libraries call the same, the similar and the different is a number of their own.
    step.say(found, [(MPI.IDENT, MPI.SIMILAR, MPI.UNEQUAL).index(answer) for answer in compared])


def across(step: Step) -> None:
    """Between two parts of a communicator."""
    if step.size < 2:
        return step.say("alone")
    border = step.random.randint(1, step.size - 1)
    low = step.rank < border
    half: Any = step.comm.Split(0 if low else 1, step.rank)
    between = half.Create_intercomm(0, step.comm, border if low else 0, step.tag)
    gathered = between.allgather(step.rank)
    total = between.allreduce(step.rank + 1)
    merged = between.Merge(not low if step.tag % 2 else low)
    step.say(between.rank, between.remote_size, gathered, total, merged.rank, merged.size)
    for comm in (merged, between, half):
        comm.Free()
    return None
