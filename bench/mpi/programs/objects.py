"""objects.py SECONDS THING...: things to and fro between two ranks of mpi4py. Prints for each half of a round trip
in µs, and at the end the bytes that were sent.

A thing is `object` (eight bytes, pickled), `array-BYTES` (a numpy array, pickled) or `buffer-BYTES` (the same, as it
is).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from statistics import median

import numpy as np
from mpi4py import MPI

BATCHES, WARM_UP = 15, 20
world = MPI.COMM_WORLD
rank, other = world.rank, 1 - world.rank


def exchange(thing: str) -> tuple[Callable[[], object], Callable[[], object], int]:
    """What sends it, what receives it, and its bytes."""
    kind, _, size = thing.partition("-")
    data = np.ones(int(size or 8), np.uint8)
    if kind == "buffer":
        place = np.zeros_like(data)
        return lambda: world.Send(data, other), lambda: world.Recv(place, other), data.nbytes
    sent = b"12345678" if kind == "object" else data
    return lambda: world.send(sent, other), lambda: world.recv(source=other), data.nbytes


def batch(send: Callable[[], object], receive: Callable[[], object], count: int) -> float:
    """Seconds of half a round trip."""
    world.Barrier()
    begin = MPI.Wtime()
    for _ in range(count):
        if rank == 0:
            send()
            receive()
        else:
            receive()
            send()
    return (MPI.Wtime() - begin) / count / 2


def main() -> None:
    """All things one after the other."""
    seconds, total = float(sys.argv[1]), 0
    for thing in sys.argv[2:]:
        send, receive, size = exchange(thing)
        batch(send, receive, WARM_UP)
        count = max(1, int(seconds / BATCHES / batch(send, receive, WARM_UP) / 2))
        count = world.bcast(count)
        time = median(batch(send, receive, count) for _ in range(BATCHES)) * 1e6
        total += size * 2 * (count * BATCHES + 2 * WARM_UP)
        if rank == 0:
            print(thing, time, flush=True)
    if rank == 0:
        print("bytes", total, flush=True)


main()
