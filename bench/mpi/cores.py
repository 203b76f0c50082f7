"""How far a machine's two cores are from each other: in a virtual machine that changes while it runs.

Its host may run both on the two threads of one core now, and on two cores a few seconds later. Short messages take
up to three times as long then, whatever the library, so libraries that take turns are compared only at one distance.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

_PROGRAM = Path(__file__).parent / "programs" / "distance.c"
#: Distances that differ by no more than this factor are one.
_LIKE = 1.4
#: Measurements that tell the usual distance, and the seconds between them.
_SAMPLES, _PAUSE = 9, 0.2
#: Seconds after which cores that stay at another distance are used as they are.
_PATIENCE = 20
#: Runs of one program before the last one counts in any case.
_TRIES = 6


class Cores:
    """The distance of the two cores; unless it is ``measured``, and on machines with more cores, every run counts."""

    def __init__(self, folder: Path, *, measured: bool = True) -> None:
        self._measure = folder / "distance"
        #: Runs that count although the cores were at another distance.
        self.unlike = 0
        self.usual = 0.0
        if measured and len(os.sched_getaffinity(0)) == 2:
            subprocess.run(["cc", "-O2", "-pthread", str(_PROGRAM), "-o", str(self._measure)], check=True)
            self.usual = median(self._distance(pause=_PAUSE) for _ in range(_SAMPLES))

    def at_one_distance(self, run: Callable[[], dict[str, float]]) -> dict[str, float]:
        """Return what a run returns before and after which the cores are at the usual distance."""
        if not self.usual:
            return run()
        for _ in range(_TRIES):
            deadline = time.monotonic() + _PATIENCE
            while not self._is_usual() and time.monotonic() < deadline:
                time.sleep(_PAUSE)
            figures = run()
            if self._is_usual():
                return figures
        self.unlike += 1
        return figures

    def __str__(self) -> str:
        if not self.usual:
            return ""
        unlike = f", but for {self.unlike} runs" if self.unlike else ""
        return f"cores {self.usual:.0f} ns from each other and back{unlike}"

    def _is_usual(self) -> bool:
        return max(distance := self._distance(), self.usual) < _LIKE * min(distance, self.usual)

    def _distance(self, pause: float = 0) -> float:
        time.sleep(pause)
        done = subprocess.run([str(self._measure)], check=True, capture_output=True, text=True)
        return float(done.stdout.split()[1])
