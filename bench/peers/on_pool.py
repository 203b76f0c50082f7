"""multiprocessing.Pool, `imap_unordered`: variant `1` (chunksize 1) or `best` (the best of 1 to 4096)."""

from __future__ import annotations

import multiprocessing
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from bench.peers.interface import INTERPRETERS, Function
from bench.peers.work import CHUNKS, give_back


class PoolFarm:
    """One pool of two processes."""

    def __init__(self) -> None:
        self._pool = multiprocessing.Pool(INTERPRETERS)
        self.chunk = 1

    def choose_chunk(self) -> None:
        """Choose by hand, as a user would: the chunksize that gives most null tasks per second."""
        self.chunk = max(CHUNKS, key=self._rate)

    def _rate(self, chunk: int) -> float:
        """Return null tasks per second with a chunksize, the better of two runs."""
        count = min(8_000 * chunk, 400_000)
        rates = []
        for _ in range(2):
            begin = time.perf_counter()
            deque(self._pool.imap_unordered(give_back, range(count), chunk), maxlen=0)
            rates.append(count / (time.perf_counter() - begin))
        return max(rates)

    def stream(self, function: Function, tasks: Iterable[Any]) -> Iterator[Any]:
        """Use the iterator that starts to deliver first."""
        return self._pool.imap_unordered(function, tasks, self.chunk)

    def two_stages(self, first: Function, second: Function, tasks: Iterable[Any]) -> Iterator[Any]:
        """Feed the results of one iterator to the next, the same pool computing both."""
        return self.stream(second, self.stream(first, tasks))

    def one(self, function: Function, task: Any) -> Any:
        """Apply the function to one task."""
        return self._pool.apply(function, (task,))

    def stop(self) -> None:
        """Close the pool and wait for its processes."""
        self._pool.close()
        self._pool.join()


def start(variant: str) -> PoolFarm:
    """Start two processes."""
    farm = PoolFarm()
    if variant == "best":
        farm.choose_chunk()
    return farm
