"""How soon the machines of a grid fire their first instructions: `python eight.py MACHINES`.

Prints the milliseconds from asking for a manager to the first instruction of the first machine, and of the last one.
"""

from __future__ import annotations

import socket
import sys
import time

import phalanx as px


def fire(task: int) -> tuple[str, float]:
    """The machine, and when it has fired."""
    now = time.time()
    time.sleep(0.02)
    return socket.gethostname(), now


machines = int(sys.argv[1])
begun, first = time.time(), dict[str, float]()
with px.Manager("lab") as manager:
    for machine, when in manager.compute(fire, range(machines * 40)):
        first.setdefault(machine, when)
assert len(first) == machines, first
print("figures", (min(first.values()) - begun) * 1e3, (max(first.values()) - begun) * 1e3, flush=True)
