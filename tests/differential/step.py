"""One step of a random program: what all ranks know of it, and what a rank says of its result."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from random import Random
from typing import Any, TextIO

import numpy as np
from mpi4py import MPI

MOST = 1 << 18


@dataclass
class Step:
    """`random` draws the same numbers at all ranks, `content` others at each."""

    name: str
    number: tuple[int, int]
    comm: MPI.Intracomm
    out: TextIO

    def __post_init__(self) -> None:
        self.random = Random(f"{self.number}")
        self.rank, self.size = self.comm.rank, self.comm.size
        self.tag = self.random.randrange(1000)

    def content(self, rank: int | None = None) -> np.random.Generator:
        """What a rank of the communicator sends."""
        return np.random.default_rng((*self.number, self.rank if rank is None else rank))

    def count(self, most: int = 40) -> int:
        """How many of a datatype: mostly few, at times none or so many that they do not go at once."""
        chance = self.random.random()
        if chance < 0.08:
            return 0
        return self.random.randint(1, most) if chance < 0.85 else self.random.randint(1000, 6000)

    def say(self, *results: Any) -> None:
        """Write what this rank has: numbers as they are, arrays by a digest of all their bytes."""
        words = [_digest(result) if isinstance(result, np.ndarray) else str(result) for result in results]
        print(*self.number, self.name, *words, file=self.out, flush=True)


def _digest(array: np.ndarray[Any, Any]) -> str:
    if array.nbytes <= 16:
        return array.tobytes().hex() or "empty"
    return f"{array.nbytes}:{hashlib.sha256(array.tobytes()).hexdigest()[:20]}"
