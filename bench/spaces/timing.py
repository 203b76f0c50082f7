"""The time of one operation, and a space with many tuples in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median

import phalanx as px

#: Tuples that are put at once.
_AT_ONCE = 2000


def key(number: int) -> str:
    """Sixteen characters, which tell one tuple from all others."""
    return f"{number * 0x9E3779B97F4A7C15 % (1 << 64):016x}"


def fill(space: px.Space, count: int, first: int = 0) -> None:
    """Tuples ("entry", key, number)."""
    for start in range(first, count, _AT_ONCE):
        space.out_many([("entry", key(number), number) for number in range(start, min(count, start + _AT_ONCE))])


def microseconds(operation: Callable[[int], object], seconds: float, numbers: Iterator[int] | None = None) -> float:
    """The median of as many operations as fit into that time, each of another number."""
    numbers = numbers or iter(range(1 << 60))
    clock, times = time.perf_counter, list[float]()
    end = clock() + seconds
    while (begin := clock()) < end:
        operation(next(numbers))
        times.append(clock() - begin)
    return median(times) * 1e6


def batch_microseconds(operation: Callable[[int], object], numbers: Sequence[int], size: int = 100) -> float:
    """The median over batches of the mean in a batch, for what is so short that to ask for the time would count too.

    A batch is shorter than what the kernel gives a process at once, so who interrupts us spoils few of them.
    """
    means = []
    for start in range(0, len(numbers), size):
        batch = numbers[start : start + size]
        begin = time.perf_counter()
        for number in batch:
            operation(number)
        means.append((time.perf_counter() - begin) / len(batch) * 1e6)
    return median(means)
