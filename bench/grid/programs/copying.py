"""A copy to a member: `python copying.py FILE PLACE LEVEL`. Prints GB/s. The path to the member is known by then."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Literal

import phalanx as px

file, place = sys.argv[1:3]
level: Literal["clear", "private"] = "clear" if sys.argv[3] == "clear" else "private"
grid, size = px.Grid("lab", trusted=["0.0.0.0/0", "::/0"]), Path(file).stat().st_size
grid.copy(__file__, f"{place}.path", level=level)
begun = time.perf_counter()
report = grid.copy(file, place, level=level)
seconds = time.perf_counter() - begun
assert (report.bytes, str(report.level)) == (size, level), report
print("figures", size / seconds / 1e9, flush=True)
