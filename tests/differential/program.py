"""A random program of mpi4py for each seed: `python -m differential.program FOLDER STEPS SEED...` under an mpirun.

Each rank writes what it got into a file of its own. Two libraries are right only if these files are equal, byte for
byte.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TextIO

from differential import combining, communicators, moving, spreading
from differential.communicators import Communicators
from differential.step import Step
from mpi4py import MPI

OPERATIONS: tuple[Callable[[Step], None], ...] = (
    moving.permutation,
    moving.permutation,
    moving.replaced,
    moving.many,
    moving.probed,
    moving.packed,
    combining.reduce,
    combining.allreduce,
    combining.scan,
    combining.reduce_scatter_block,
    combining.reduce_scatter,
    combining.places,
    combining.local,
    spreading.bcast,
    spreading.barrier,
    spreading.gather,
    spreading.scatter,
    spreading.allgather,
    spreading.alltoall,
    spreading.gatherv,
    spreading.scatterv,
    spreading.allgatherv,
    spreading.alltoallv,
    spreading.alltoallw,
    spreading.neighbours,
    spreading.window,
    communicators.groups,
    communicators.across,
)


def run(seed: int, steps: int, out: TextIO) -> None:
    """All steps of one program."""
    known = Communicators()
    for number in range(steps):
        random = Random(f"{seed} {number}")
        comm, members = known.choose(random)
        if random.random() < 0.15:
            told = communicators.make(known, random, (comm, members))
            print(seed, number, told, file=out, flush=True)
            continue
        operation = random.choice(OPERATIONS)
        if comm != MPI.COMM_NULL:
            operation(Step(operation.__name__, (seed, number), comm, out))
    known.free()


def main() -> None:
    """The seeds one after the other."""
    folder, steps, *seeds = sys.argv[1:]
    with (Path(folder) / f"{MPI.COMM_WORLD.rank}.txt").open("w") as out:
        for seed in seeds:
            run(int(seed), int(steps), out)


if __name__ == "__main__":
    main()
