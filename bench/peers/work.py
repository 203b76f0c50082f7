"""What the interpreters of every peer compute: plain functions of a module, so that all can name them."""

from __future__ import annotations

import os
import time
from itertools import repeat
from typing import Any


def give_back(task: Any) -> Any:
    """Return the task: the null function, all that is left is what the farm itself costs."""
    return task


def spin(iterations: int) -> int:
    """Burn a fixed amount of CPU: iterations and not seconds, so that sharing a core costs time.

    The loop makes no object: with `range` it would cost up to a third more in a process whose heap happens to
    have no room for one more number.
    """
    for _ in repeat(None, iterations):
        pass
    return iterations


def filter_image(task: tuple[int, int]) -> tuple[int, int]:
    """Stand for a filter: spin the first number of the task, pass the task on."""
    spin(task[0])
    return task


def render_image(task: tuple[int, int]) -> tuple[int, int]:
    """Stand for a render: spin the second number of the task, pass the task on."""
    spin(task[1])
    return task


def filter_and_render(task: tuple[int, int]) -> tuple[int, int]:
    """Do both stages in one call, as the silent processes do, and as a user may write by hand."""
    return render_image(filter_image(task))


def who(_: int) -> int:
    """Return the process id of the interpreter, slowly enough that every interpreter gets its turn."""
    time.sleep(0.01)
    return os.getpid()


def iterations_per_millisecond() -> int:
    """Return how many iterations of `spin` take one millisecond of CPU here: the best of many short trials.

    CPU time and not wall time, so that a core shared with somebody else does not make the loops shorter.
    """
    trial = 100_000
    best = float("inf")
    for _ in range(500):
        begin = time.process_time()
        spin(trial)
        best = min(best, time.process_time() - begin)
    return round(trial / best / 1000)
