"""Heat in a square plate, computed by Jacobi's method: a program that survives the loss of machines.

phalanx mpirun -n 4 --survive examples/message_passing/mpi_heat.py
phalanx mpirun -n 4 --grid lab --survive examples/message_passing/mpi_heat.py --size 2000 --steps 100000

Each process has some rows of the plate. Every 50 steps it saves them. After a loss, all processes begin again with the
rows that they have saved. The result is the same, bit for bit.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import time
from pathlib import Path

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

Rows = NDArray[np.float64]

world = MPI.COMM_WORLD
UP = world.rank - 1 if world.rank > 0 else MPI.PROC_NULL
DOWN = world.rank + 1 if world.rank + 1 < world.size else MPI.PROC_NULL


def first_rows(size: int) -> Rows:
    """This process's rows of a cold plate with a hot edge, between the neighbours' last rows."""
    first, last = (size * rank // world.size for rank in (world.rank, world.rank + 1))
    rows = np.zeros((last - first + 2, size))
    if world.rank == 0:
        rows[0] = np.linspace(1, 100, size)
    return rows


def step(rows: Rows) -> Rows:
    """The rows one step later: inside the plate, each value is the mean of its four neighbours."""
    world.Sendrecv(rows[1], UP, recvbuf=rows[-1], source=DOWN)
    world.Sendrecv(rows[-2], DOWN, recvbuf=rows[0], source=UP)
    new: Rows = rows.copy()
    new[1:-1, 1:-1] = (rows[:-2, 1:-1] + rows[2:, 1:-1] + rows[1:-1, :-2] + rows[1:-1, 2:]) / 4
    return new


def save(number: int, rows: Rows) -> None:
    """Saves the rows. The file gets its name when it is complete, because phalanx takes each file with such a name."""
    if folder := os.environ.get("PHALANX_SURVIVE"):
        unfinished = Path(folder, "unfinished.npy")
        np.save(unfinished, rows)
        unfinished.rename(Path(folder, f"step-{number}.npy"))


def saved(size: int) -> tuple[int, Rows]:
    """The step to go on from, and the rows after it: those that were saved, or the first."""
    if number := os.environ.get("PHALANX_STEP"):
        return int(number), np.load(Path(os.environ["PHALANX_SURVIVE"], f"step-{number}.npy"))
    return 0, first_rows(size)


def main() -> None:
    """Computes, and prints the checksum of the plate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=200, help="rows and columns of the plate")
    parser.add_argument("--steps", type=int, default=400, help="steps to compute")
    parser.add_argument("--every", type=int, default=50, help="steps between two that are saved; 0: none is")
    parser.add_argument("--nap", type=float, default=0.0, help="seconds to sleep in each step, to watch it")
    options = parser.parse_args()
    begun, rows = saved(options.size)
    if world.rank == 0:
        print(f"restart {os.environ.get('PHALANX_RESTARTED', 0)}: begins at step {begun}", flush=True)
    for number in range(begun + 1, options.steps + 1):
        rows = step(rows)
        time.sleep(options.nap)
        if options.every and number % options.every == 0:
            save(number, rows)
    inner = world.gather(rows[1:-1].tobytes())
    if inner is not None:
        print(f"after step {options.steps}: {hashlib.sha256(b''.join(inner)).hexdigest()[:16]}", flush=True)


if __name__ == "__main__":
    main()
