"""What the interpreters compute: instructions of a given length, which give back the data that they got.

The functions travel by value, so a machine needs numpy and phalanx to take part, and nothing of this folder.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TypeAlias

import cloudpickle
import numpy as np
from numpy.typing import NDArray

Data: TypeAlias = "NDArray[np.uint8]"
#: Seconds that the instruction takes (Tw in the paper), and the data that goes to and fro with it.
Task: TypeAlias = tuple[float, Data]
Work: TypeAlias = Callable[[Task], Data]

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def busy(task: Task) -> Data:
    """Compute for so many seconds of this thread's CPU time."""
    end = time.thread_time() + task[0]
    while time.thread_time() < end:
        pass
    return task[1]


def asleep(task: Task) -> Data:
    """Stand for a computation on a core that this machine does not have: sleep so many seconds."""
    time.sleep(task[0])
    return task[1]


def size(data: Data) -> int:
    """Take the data and give back only its size."""
    return len(data)


def give_back(data: Any) -> Any:
    """Return what came."""
    return data


def random_data(count: int) -> Data:
    """So many bytes that nothing can compress."""
    return np.random.default_rng(0).integers(0, 256, count, dtype=np.uint8)


WORKS: dict[str, Work] = {"busy": busy, "asleep": asleep}
#: Spent on measuring the sequential execution of one instruction, in seconds.
_ALONE = 0.2


def sequential_seconds(work: Work, seconds: float) -> float:
    """What one instruction takes in sequential execution without any communication, the paper's base of speedups.

    On a processor of its own, as in the paper: what computes is measured by its CPU time, and of what sleeps the
    shortest time counts. So strangers on this machine never make the base longer, and the speedups greater.
    """
    task = (seconds, random_data(8))
    clock = time.thread_time if work is busy else time.perf_counter
    taken = []
    for _ in range(max(2, round(_ALONE / seconds))):
        begin = clock()
        work(task)
        taken.append(clock() - begin)
    return min(taken)
