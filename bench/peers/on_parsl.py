"""Parsl with its HighThroughputExecutor on this machine."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from typing import Any

import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.providers import LocalProvider

from bench.peers.interface import INTERPRETERS, Function


class ParslFarm:
    """One block of two processes."""

    def __init__(self) -> None:
        executor = HighThroughputExecutor(
            address="127.0.0.1",
            max_workers_per_node=INTERPRETERS,
            provider=LocalProvider(init_blocks=1, min_blocks=1, max_blocks=1),
        )
        self._apps: dict[Function, Any] = {}
        parsl.load(Config(executors=[executor], run_dir=tempfile.mkdtemp(prefix="bench-parsl-"), strategy="none"))

    def _app(self, function: Function) -> Any:
        """Return the function as an app, made once."""
        if function not in self._apps:
            self._apps[function] = parsl.python_app(function)
        return self._apps[function]

    def stream(self, function: Function, tasks: Iterable[Any]) -> Iterator[Any]:
        """Call the app for each task, then wait for the futures."""
        app = self._app(function)
        return (future.result() for future in [app(task) for task in tasks])

    def two_stages(self, first: Function, second: Function, tasks: Iterable[Any]) -> Iterator[Any]:
        """Call the second app with the future of the first."""
        filtered, rendered = self._app(first), self._app(second)
        return (future.result() for future in [rendered(filtered(task)) for task in tasks])

    def one(self, function: Function, task: Any) -> Any:
        """Call the app for one task."""
        return self._app(function)(task).result()

    def stop(self) -> None:
        """End the block and the data flow kernel."""
        parsl.dfk().cleanup()
        parsl.clear()


def start(variant: str) -> ParslFarm:
    """Start the block."""
    return ParslFarm()
