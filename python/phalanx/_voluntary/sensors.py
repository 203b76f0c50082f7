"""Sensors of a machine's use. Each system has its own class, behind the protocol :class:`Sensors`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Protocol


class Sensors(Protocol):
    """Observes a machine. Sensors should answer within a second, or return None. One thread calls them."""

    def idle(self) -> float | None:
        """Seconds since the last keyboard or mouse input. None: no source reports it."""

    def load(self, own: Callable[[], float]) -> float | None:
        """The cores that programs of others use, averaged over a second or longer. None: there is no measurement yet.

        ``own`` returns the processor time, in seconds, of the executor and all its descendants so far.
        """

    def on_battery(self) -> bool:
        """Whether the machine runs on battery."""

    def is_metered(self) -> bool:
        """Whether the machine's network is metered."""

    def lacks(self) -> str | None:
        """The packages that :meth:`idle` needs and that are missing, in words for people. None: no package is
        missing."""


def sensors_here() -> Sensors:
    """The sensors of this system. Raises NotImplementedError if it has none yet."""
    if sys.platform == "win32":
        from phalanx._voluntary.windows import WindowsSensors

        return WindowsSensors()
    if sys.platform != "linux":
        raise NotImplementedError(f"nothing tells yet on {sys.platform} whether somebody uses the machine")
    from phalanx._voluntary.linux import LinuxSensors  # imports the libraries for the desktop

    return LinuxSensors()
