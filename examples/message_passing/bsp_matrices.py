"""Matrix multiplication in supersteps, as in paper 001, section 5.

Process 0 gives each other process the whole of B and some rows of A, and all processes synchronize. Each computes its
rows of the product and puts them back, and all synchronize again. Process 0 computes only if it is alone.

    phalanx bsprun -n 3 examples/message_passing/bsp_matrices.py 1500
"""

from __future__ import annotations

import argparse
import os

# A process of the program has one core, not all of them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from phalanx import bsp

Matrix = NDArray[np.float64]


def rows_of(pid: int, size: int) -> slice:
    """The rows that a process computes."""
    computing = max(bsp.nprocs() - 1, 1)
    place = pid - 1 if bsp.nprocs() > 1 else 0
    if place < 0:
        return slice(0, 0)
    return slice(place * size // computing, (place + 1) * size // computing)


def multiply(a: Matrix | None, b: Matrix | None, size: int) -> Matrix | None:
    """Returns, at process 0, the product of two square matrices that process 0 has."""
    first, own = bsp.pid() == 0, rows_of(bsp.pid(), size)
    part = a if first and a is not None else np.empty((own.stop - own.start, size))
    whole = b if first and b is not None else np.empty((size, size))
    product = np.empty((size if first else 0, size))
    for array in (part, whole, product):
        bsp.push_reg(array)
    bsp.sync()
    if first:
        for pid in range(1, bsp.nprocs()):
            bsp.hpput(pid, part[rows_of(pid, size)], part)
            bsp.hpput(pid, whole, whole)
    bsp.sync()
    done = part[: own.stop - own.start] @ whole
    bsp.hpput(0, done, product, own.start * size)
    for array in (part, whole, product):
        bsp.pop_reg(array)
    bsp.sync()
    return product if first else None


def check(a: Matrix, b: Matrix, product: Matrix) -> None:
    """Checks the product with a vector: sums of whole numbers are exact, so a wrong product almost surely differs."""
    vector = np.random.default_rng(1).integers(-1000, 1000, len(a)).astype(np.float64)
    assert np.array_equal(product @ vector, a @ (b @ vector)), "the product is wrong"


def main() -> None:
    """Multiplies ``--times`` times, and prints the time of each multiplication."""
    parser = argparse.ArgumentParser()
    parser.add_argument("order", type=int, nargs="?", default=300)
    parser.add_argument("--times", type=int, default=1)
    options = parser.parse_args()
    with bsp.begin():
        a = b = None
        if bsp.pid() == 0:
            a, b = np.random.default_rng(0).integers(-1000, 1000, (2, options.order, options.order)).astype(np.float64)
        for _ in range(options.times):
            begun = bsp.time()
            product = multiply(a, b, options.order)
            seconds = bsp.time() - begun
            if a is not None and b is not None and product is not None:
                check(a, b, product)
                print(f"{options.order} x {options.order} on {bsp.nprocs()} processes: {seconds:.4f} s", flush=True)


if __name__ == "__main__":
    main()
