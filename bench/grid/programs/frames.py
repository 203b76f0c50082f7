"""What the owner of a desktop notices: `python frames.py SECONDS WORK` draws 60 frames a second, and computes for WORK
seconds in each. It prints how many percent of them came too late."""

from __future__ import annotations

import sys
import time

RATE = 60
seconds, work = float(sys.argv[1]), float(sys.argv[2])
frames = int(seconds * RATE)
begun, number, lost = time.perf_counter(), 0, 0
while number < frames:
    due = begun + number / RATE
    time.sleep(max(0.0, due - time.perf_counter()))
    until = time.thread_time() + work
    while time.thread_time() < until:
        pass
    # A frame that is late makes the next ones late, which are left out then.
    late = int((time.perf_counter() - due) * RATE)
    lost += min(late, frames - number)
    number += 1 + late
print("figures", 100 * lost / frames, flush=True)
