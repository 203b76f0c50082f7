"""A farm of tasks that only compute, which runs on until it is ended: `python burning.py SECONDS`."""

from __future__ import annotations

import sys
import time
from itertools import count

import phalanx as px

seconds = float(sys.argv[1])


def burn(task: int) -> int:
    """Computes."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
    return task


with px.Manager("lab") as manager:
    for result in manager.compute(burn, count()):
        print(result, flush=True)
