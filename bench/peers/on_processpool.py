"""concurrent.futures.ProcessPoolExecutor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from typing import Any

from bench.peers.interface import INTERPRETERS, Function


class ProcessPoolFarm:
    """One executor of two processes."""

    def __init__(self) -> None:
        self._executor = ProcessPoolExecutor(INTERPRETERS)

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

    def stop(self) -> None:
        """Shut the executor down."""
        self._executor.shutdown()


def start(variant: str) -> ProcessPoolFarm:
    """Make the executor; it starts its processes at the first task."""
    return ProcessPoolFarm()
