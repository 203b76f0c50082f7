"""A farm that runs on until it is ended: `python farming.py FOLDER SECONDS`. Each firing of a task leaves the file
`TASK-PID-MACHINE` in the folder, whose time is that of the firing."""

from __future__ import annotations

import os
import socket
import sys
import time
from itertools import count
from pathlib import Path

import phalanx as px

folder, seconds = sys.argv[1], float(sys.argv[2])


def fire(task: int) -> int:
    """Leaves its file."""
    Path(folder, f"{task}-{os.getpid()}-{socket.gethostname()}").touch()
    time.sleep(seconds)
    return task


with px.Manager("lab") as manager:
    for result in manager.compute(fire, count()):
        print(result, flush=True)
