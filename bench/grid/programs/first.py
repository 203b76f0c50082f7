"""A program whose first result counts. Prints when it has come, in seconds since 1970."""

from __future__ import annotations

import time

import phalanx as px

with px.Manager("lab") as manager:
    assert list(manager.map(abs, [-1])) == [1]
    print("figures", time.time(), flush=True)
