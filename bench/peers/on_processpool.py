"""concurrent.futures.ProcessPoolExecutor: variant `1` (chunksize 1) or `best` (the best of 1 to 4096)."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from typing import Any

from bench.peers.interface import INTERPRETERS, Function
from bench.peers.work import CHUNKS, give_back


class ProcessPoolFarm:
    """One executor of two processes."""

    def __init__(self) -> None:
        self._executor = ProcessPoolExecutor(INTERPRETERS)
        self.chunk = 1

    def choose_chunk(self) -> None:
        """Choose by hand, as a user would: the chunksize that maps most null tasks per second."""
        self.chunk = max(CHUNKS, key=self._rate)

    def _rate(self, chunk: int) -> float:
        """Return null tasks mapped per second with a chunksize, the better of two runs."""
        count = min(2_000 * chunk, 400_000)
        times = []
        for _ in range(2):
            begin = time.perf_counter()
            deque(self._executor.map(give_back, range(count), chunksize=chunk), maxlen=0)
            times.append(time.perf_counter() - begin)
        return count / min(times)

    def stream(self, function: Function, tasks: Iterable[Any]) -> Iterator[Any]:
        """Map."""
        return self._executor.map(function, tasks)

    def two_stages(self, first: Function, second: Function, tasks: Iterable[Any]) -> Iterator[Any]:
        """Submit the second stage of a task when its first is done."""
        filtered: list[Future[Any]] = [self._executor.submit(first, task) for task in tasks]
        rendered = [self._executor.submit(second, future.result()) for future in as_completed(filtered)]
        return (future.result() for future in rendered)

    def one(self, function: Function, task: Any) -> Any:
        """Submit one task."""
        return self._executor.submit(function, task).result()

    def map(self, function: Function, tasks: Iterable[Any]) -> Iterable[Any]:
        """Map."""
        return self._executor.map(function, tasks, chunksize=self.chunk)

    def submit_all(self, function: Function, tasks: Iterable[Any]) -> Iterable[Any]:
        """Submit, then `as_completed`."""
        futures = [self._executor.submit(function, task) for task in tasks]
        return (future.result() for future in as_completed(futures))

    def stop(self) -> None:
        """Shut the executor down."""
        self._executor.shutdown()


def start(variant: str) -> ProcessPoolFarm:
    """Make the executor; it starts its processes at the first task."""
    farm = ProcessPoolFarm()
    if variant == "best":
        farm.choose_chunk()
    return farm
