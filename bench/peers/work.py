"""What the interpreters of every peer compute: plain functions of a module, so that all can name them."""

from __future__ import annotations

import os
import time
from typing import Any

#: Chunksizes of which the best is taken where a peer is measured at its best.
CHUNKS = (1, 4, 16, 64, 256, 1024, 4096)


def give_back(task: Any) -> Any:
    """Return the task: the null function, all that is left is what the farm itself costs."""
    return task


def spin(milliseconds: float) -> float:
    """Burn so much CPU of this thread, and return the number.

    By the thread's own clock: sharing a core costs time, as it must, and a process in which the same
    iterations happen to take longer (up to 40 %, by where its memory lies) is no slower for that.
    """
    end = time.thread_time_ns() + milliseconds * 1e6
    while time.thread_time_ns() < end:
        pass
    return milliseconds


def take(seconds: float) -> float:
    """Take so much time and return it: asleep from a millisecond on, which needs no core; else burning CPU."""
    if seconds >= 0.001:
        time.sleep(seconds)
    else:
        spin(seconds * 1000)
    return seconds


def weigh_for(task: tuple[Any, float]) -> int:
    """Return the bytes of an array after so many seconds."""
    array, seconds = task
    time.sleep(seconds)
    return int(array.nbytes)


def filter_image(task: tuple[float, float]) -> tuple[float, float]:
    """Stand for a filter: spin the first number of the task, pass the task on."""
    spin(task[0])
    return task


def render_image(task: tuple[float, float]) -> tuple[float, float]:
    """Stand for a render: spin the second number of the task, pass the task on."""
    spin(task[1])
    return task


def filter_and_render(task: tuple[float, float]) -> tuple[float, float]:
    """Do both stages in one call, as the silent processes do, and as a user may write by hand."""
    return render_image(filter_image(task))


def who(_: int) -> int:
    """Return the process id of the interpreter, slowly enough that every interpreter gets its turn."""
    time.sleep(0.01)
    return os.getpid()
