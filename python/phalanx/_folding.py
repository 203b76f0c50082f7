"""How :class:`phalanx.Reduce` and :class:`phalanx.Scan` cut a task's items into chunks, fold and scan them.

Nobody tunes a chunk size: the function is timed where it is called, and a chunk is about 2 ms of work. What is less
than that altogether is done where the task is, and never travels. A coarse function's chunks are pairs, so that a
reduction is a tree of the least depth; a scan's chunks are at least so long that folding their offsets, which is
sequential, is no more work than a chunk.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import accumulate, chain, islice
from math import isqrt
from time import perf_counter
from typing import Any

from phalanx._instructions import Branch

Operation = Callable[[Any, Any], Any]

#: Seconds of work that are not worth another interpreter.
BATCH = 0.002
#: Maximum number of items of a task.
MOST_ITEMS = 1 << 24
#: Maximum number of chunks of a task.
MOST_CHUNKS = 1 << 16


class Grain:
    """The time that a call of a function takes, as this interpreter has measured it."""

    def __init__(self) -> None:
        self._seconds: float | None = None

    def __reduce__(self) -> tuple[type[Grain], tuple[()]]:
        return Grain, ()  # not pickled with its measurements, because another machine must measure again

    def measure(self, calls: int, seconds: float) -> None:
        """Records how long a number of calls took."""
        if calls > 0:
            sample = seconds / calls
            self._seconds = sample if self._seconds is None else (self._seconds + sample) / 2

    def chunk(self) -> int | None:
        """The number of items in a batch of work; none before the first call."""
        return None if self._seconds is None else max(2, int(BATCH / max(self._seconds, 1e-9)))


class _OfGrain:
    """A step that calls the user's function and times it."""

    def __init__(self, function: Operation, grain: Grain) -> None:
        self.function = function
        self.grain = grain

    def __repr__(self) -> str:
        return getattr(self.function, "__qualname__", None) or repr(self.function)


class Fold(_OfGrain):
    """Folds a chunk."""

    def __call__(self, chunk: list[Any]) -> Any:
        """One item that stands for all items of the chunk."""
        began = perf_counter()
        folded = reduce(self.function, chunk)
        self.grain.measure(len(chunk) - 1, perf_counter() - began)
        return folded


class FoldOrSpread(_OfGrain, Branch):
    """Folds a small task here and lets the result leave. Cuts a larger task into chunks."""

    def __init__(self, function: Operation, grain: Grain, initial: tuple[Any, ...] = ()) -> None:
        super().__init__(function, grain)
        self.initial = initial

    def decide(self, token: Any) -> tuple[bool, Any]:
        """The folded item, or the chunks."""
        items = [*self.initial, *items_of(token)]
        if not items:
            raise TypeError(f"Reduce({self!r}) of an empty task: give it an initial value")
        if self.grain.chunk() is None:
            items = self._fold_some(items)
        size = self.grain.chunk() or 2
        if len(items) > size:
            return True, chunks(items, size)
        return False, Fold(self.function, self.grain)(items)

    def _fold_some(self, items: list[Any]) -> list[Any]:
        """Folds the first items for the time of a batch, to measure how long a call takes."""
        began, folded, calls = perf_counter(), items[0], 0
        for item in items[1:]:
            folded = self.function(folded, item)
            calls += 1
            if perf_counter() - began > BATCH:
                break
        self.grain.measure(calls, perf_counter() - began)
        return [folded, *items[calls + 1 :]]


class ScanOrSpread(_OfGrain, Branch):
    """Scans a small task here and lets the result leave. Cuts a larger task into chunks."""

    def decide(self, token: Any) -> tuple[bool, Any]:
        """The scanned items, or the chunks."""
        items = items_of(token)
        size = self.grain.chunk()
        if len(items) < 3 or (size is not None and len(items) <= size):
            return False, ScanChunk(self.function, self.grain)((items,))
        return True, chunks(items, max(size or 2, isqrt(len(items) // 2)))


class Offsets(_OfGrain):
    """Computes the offset of each chunk but the first from the sums of all chunks."""

    def __call__(self, sums: list[Any]) -> list[Any]:
        """The offsets, one fewer than there are chunks."""
        return list(accumulate(sums[:-1], self.function))


class ScanChunk(_OfGrain):
    """Scans a chunk, starting from its offset if it has one."""

    def __call__(self, chunk: tuple[Any, ...]) -> list[Any]:
        """The scanned items, as many as there are in the chunk."""
        items, *offset = chunk
        began = perf_counter()
        scanned = list(accumulate(chain(offset, items), self.function))[len(offset) :]
        self.grain.measure(len(items) - 1 + len(offset), perf_counter() - began)
        return scanned


def with_offsets(cut: list[Any], offsets: list[Any]) -> list[tuple[Any, ...]]:
    """Each chunk with its offset."""
    return [(cut[0],), *zip(cut[1:], offsets, strict=True)]


def joined(scanned: list[list[Any]]) -> list[Any]:
    """The items of all chunks."""
    return list(chain.from_iterable(scanned))


def items_of(task: Any) -> list[Any]:
    """The items of a task. Raises ValueError if there are too many, or if they do not end."""
    items = list(islice(task, MOST_ITEMS + 1))
    if len(items) > MOST_ITEMS:
        raise ValueError(f"a task of more than {MOST_ITEMS} items: cut it into several tasks")
    return items


def chunks(items: list[Any], size: int) -> list[list[Any]]:
    """The items in chunks of this size, or of a larger size if there would be too many chunks."""
    size = max(size, -(-len(items) // MOST_CHUNKS))
    return [items[start : start + size] for start in range(0, len(items), size)]
