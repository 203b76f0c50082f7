"""What can be seen of a machine's use. Each system has its own way to ask; the rest knows only :class:`Sensors`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Protocol


class Sensors(Protocol):
    """Looks at a machine. Every question is answered within a second, or with None. They are asked from one thread."""

    def idle(self) -> float | None:
        """Seconds since the last key or movement of the mouse. None: nothing tells."""

    def load(self, own: Callable[[], float]) -> float | None:
        """The cores that programs of others use, averaged over a second or longer. None: nothing tells yet.

        ``own`` tells the processor time, in seconds, that the executor and all that it has started have used so far.
        """

    def on_battery(self) -> bool:
        """Whether the machine runs on battery."""

    def is_metered(self) -> bool:
        """Whether its network is metered."""

    def lacks(self) -> str | None:
        """What is to be installed before :meth:`idle` can tell, for people. None: nothing."""


def sensors_here() -> Sensors:
    """The sensors of this system. Raises NotImplementedError where there are none yet."""
    if sys.platform != "linux":
        raise NotImplementedError(f"nothing tells yet on {sys.platform} whether somebody uses the machine")
    from phalanx._voluntary.linux import LinuxSensors  # with the libraries that ask the desktop

    return LinuxSensors()
