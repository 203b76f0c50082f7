"""The one interface through which every peer is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

Function = Callable[[Any], Any]

INTERPRETERS = 2


class Farm(Protocol):
    """A farm of two interpreters that has started: what `start(variant)` of each `on_*.py` returns."""

    def stream(self, function: Function, tasks: Iterable[Any]) -> Iterator[Any]:
        """Yield the result of each task, in any order, as a user of this peer would write it."""
        ...

    def two_stages(self, first: Function, second: Function, tasks: Iterable[Any]) -> Iterator[Any]:
        """Yield `second(first(task))` of each task, the two stages given to the peer separately."""
        ...

    def one(self, function: Function, task: Any) -> Any:
        """Return the result of a single task: one round trip."""
        ...

    def stop(self) -> None:
        """Stop everything that was started."""
        ...


class Caller(Farm, Protocol):
    """A farm that has what the standard library calls `map` and `submit`."""

    def map(self, function: Function, tasks: Iterable[Any]) -> Iterable[Any]:
        """Return the results in the order of the tasks, by what users of this peer call map."""
        ...

    def submit_all(self, function: Function, tasks: Iterable[Any]) -> Iterable[Any]:
        """Submit each task by a call of its own, then yield the results as they are completed."""
        ...
