"""Null tasks for a while: `python nulls.py LABEL SECONDS`. Prints how many come back in a second."""

from __future__ import annotations

import sys
import time
from itertools import count

import phalanx as px

label, seconds = sys.argv[1], float(sys.argv[2])


def nothing(task: int) -> None:
    """Does nothing."""


with px.Manager("lab", needs=px.needs(label=label)) as manager:
    results = manager.compute(nothing, count())
    until = time.monotonic() + seconds / 2
    while time.monotonic() < until:  # to stage the code, and to find the window
        next(results)
    done, begun = 0, time.monotonic()
    while time.monotonic() < begun + seconds:
        next(results)
        done += 1
print("figures", done / (time.monotonic() - begun), flush=True)
