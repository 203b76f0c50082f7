"""Rates from counts that grow: how much a second, over the last readings."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping

#: Seconds over which a rate is measured: long enough for slow tasks, short enough to show a loss.
WINDOW = 10.0
#: Most readings that are kept.
_MOST = 32


class Rates:
    """The last readings of some counts, each by its key.

    Examples
    --------
    >>> rates = Rates()
    >>> rates.add(0.0, {"tasks": 10})
    >>> rates.add(2.0, {"tasks": 30})
    >>> rates.of("tasks"), rates.of("others")
    (10.0, None)
    """

    def __init__(self) -> None:
        self._readings: deque[tuple[float, Mapping[Hashable, float]]] = deque(maxlen=_MOST)

    def add(self, now: float, counts: Mapping[Hashable, float]) -> None:
        """Adds a reading. Those before the window are forgotten, but for the last one."""
        self._readings.append((now, dict(counts)))
        while len(self._readings) > 2 and self._readings[1][0] <= now - WINDOW:
            self._readings.popleft()

    def of(self, key: Hashable) -> float | None:
        """Growth a second. None: it is known since one reading only."""
        known = [(at, counts[key]) for at, counts in self._readings if key in counts]
        if len(known) < 2 or known[-1][0] <= known[0][0]:
            return None
        return max(0.0, (known[-1][1] - known[0][1]) / (known[-1][0] - known[0][0]))
