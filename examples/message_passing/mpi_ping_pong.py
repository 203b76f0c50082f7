"""Measures the time of a message from one process to another, by its size (paper 001, section 5).

phalanx mpirun -n 2 examples/message_passing/mpi_ping_pong.py
"""

from __future__ import annotations

import sys
import time
from statistics import median

from mpi4py import MPI

SIZES = [4**power for power in range(11)]
#: The time for round trips of one size, in seconds, and their smallest number.
SECONDS, FEWEST = 0.2, 20

world = MPI.COMM_WORLD


def round_trip(data: bytearray) -> float:
    """Returns the round trip in seconds."""
    begun = time.perf_counter()
    world.Send(data, 1)
    world.Recv(data, 1)
    return time.perf_counter() - begun


def ask(data: bytearray, seconds: float) -> float:
    """Returns the median time of one way, in seconds."""
    world.send(len(data), 1)
    end = time.perf_counter() + seconds
    taken: list[float] = []
    while len(taken) < FEWEST or time.perf_counter() < end:
        world.send(True, 1)
        taken.append(round_trip(data))
    world.send(False, 1)
    return median(taken) / 2


def answer() -> None:
    """Answers, in the other process, until the size is None."""
    while (size := world.recv(source=0)) is not None:
        data = bytearray(size)
        while world.recv(source=0):
            world.Recv(data, 0)
            world.Send(data, 0)


def main(seconds: float) -> None:
    """Prints a line for each size."""
    if world.Get_rank() == 1:
        answer()
    elif world.Get_rank() == 0:
        for size in SIZES:
            print(f"{size} bytes: {ask(bytearray(size), seconds) * 1e6:.2f} µs", flush=True)
        world.send(None, 1)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS)
