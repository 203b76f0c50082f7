"""phalanx itself, nothing tuned: variant `links` (clear on one machine) or `all` (every link private)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import as_completed
from typing import Any, Literal

import phalanx as px

from bench.peers.interface import INTERPRETERS, Function


class PhalanxFarm:
    """One manager that recruited two interpreters here."""

    def __init__(self, policy: Literal["links", "all"]) -> None:
        self._manager = px.Manager(contract=px.ParDegree(INTERPRETERS), policy=policy)
        self._programs: dict[tuple[Function, ...], Any] = {}

    def stream(self, function: Function, tasks: Iterable[Any]) -> Iterator[Any]:
        """Compute a farm of the function."""
        program = self._programs.setdefault((function,), px.Farm(function))
        return iter(self._manager.compute(program, tasks))

    def two_stages(self, first: Function, second: Function, tasks: Iterable[Any]) -> Iterator[Any]:
        """Compute the sample program of paper 000: a filter, then a farmed render."""
        program = self._programs.setdefault((first, second), px.Pipeline(first, px.Farm(second)))
        return iter(self._manager.compute(program, tasks))

    def one(self, function: Function, task: Any) -> Any:
        """Submit one task as to any `concurrent.futures.Executor`."""
        return self._manager.submit(function, task).result()

    def map(self, function: Function, tasks: Iterable[Any]) -> Iterable[Any]:
        """Map, without a word about chunks."""
        return self._manager.map(function, tasks)

    def submit_all(self, function: Function, tasks: Iterable[Any]) -> Iterable[Any]:
        """Submit, then `as_completed`."""
        futures = [self._manager.submit(function, task) for task in tasks]
        return (future.result() for future in as_completed(futures))

    def stop(self) -> None:
        """Dismiss the interpreters."""
        self._manager.shutdown()


def start(variant: str) -> PhalanxFarm:
    """Recruit two interpreters."""
    return PhalanxFarm("all" if variant == "all" else "links")
