"""Matrix multiplication with MPI, as in paper 001, section 5.

Process 0 sends each other process some rows of A and the whole of B, to all at the same time. Each computes its rows of
the product as soon as it has its data, and sends them back. Process 0 receives them in the order in which they come. If
process 0 is alone, it computes the product itself.

    phalanx mpirun -n 3 examples/message_passing/mpi_matrices.py 1500
"""

from __future__ import annotations

import argparse
import os
import time

# A process of the program has one core, not all of them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from mpi4py import MPI
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()


def rows_of(rank: int, order: int) -> slice:
    """The rows that a process computes."""
    computing = size - 1
    return slice((rank - 1) * order // computing, rank * order // computing)


def coordinate(a: Matrix, b: Matrix, nap: float) -> Matrix:
    """Returns the product, which the other processes compute."""
    if size == 1:
        return a @ b
    product = np.empty_like(a)
    sending: list[MPI.Request] = []
    for other in range(1, size):
        sending += [world.Isend(a[rows_of(other, len(a))], other), world.Isend(b, other)]
    for _ in range(1, size):
        done = MPI.Status()
        if nap:
            while not world.Iprobe(status=done):
                time.sleep(nap)
        else:
            world.Probe(status=done)
        world.Recv(product[rows_of(done.source, len(a))], done.source)
    MPI.Request.Waitall(sending)
    return product


def compute(order: int) -> None:
    """Computes this process's rows of the product and sends them to process 0."""
    own = rows_of(rank, order)
    rows, b = np.empty((own.stop - own.start, order)), np.empty((order, order))
    world.Recv(rows, 0)
    world.Recv(b, 0)
    world.Send(rows @ b, 0)


def check(a: Matrix, b: Matrix, product: Matrix) -> None:
    """Checks the product with a vector: sums of whole numbers are exact, so a wrong product almost surely differs."""
    vector = np.random.default_rng(1).integers(-1000, 1000, len(a)).astype(np.float64)
    assert np.array_equal(product @ vector, a @ (b @ vector)), "the product is wrong"


def main() -> None:
    """Multiplies ``--times`` times, and prints the time of each multiplication."""
    parser = argparse.ArgumentParser()
    parser.add_argument("order", type=int, nargs="?", default=300)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--nap", type=float, default=0, help="process 0 looks for results only every so many seconds")
    options = parser.parse_args()
    if rank > 0:
        for _ in range(options.times):
            compute(options.order)
        return
    a, b = np.random.default_rng(0).integers(-1000, 1000, (2, options.order, options.order)).astype(np.float64)
    for _ in range(options.times):
        begun = time.perf_counter()
        product = coordinate(a, b, options.nap)
        seconds = time.perf_counter() - begun
        check(a, b, product)
        print(f"{options.order} x {options.order} on {size} processes: {seconds:.4f} s", flush=True)


if __name__ == "__main__":
    main()
