"""Null calls to one interpreter of a member, one by one: `python calling.py CALLS`. Prints the median in µs."""

from __future__ import annotations

import sys
import time
from statistics import median

import phalanx as px

calls, taken = int(sys.argv[1]), list[float]()
with px.Manager("lab", contract=px.ParDegree(1)) as manager:
    for number in range(calls):
        begun = time.perf_counter()
        assert manager.submit(abs, -number).result() == number
        taken.append(time.perf_counter() - begun)
print("figures", median(taken[calls // 5 :]) * 1e6, flush=True)
