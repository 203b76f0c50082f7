"""The sensors of Windows."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from typing import Any

#: Shortest period over which load is measured, in seconds, because the system counts in steps of 16 ms.
_LEAST = 1.0
#: Units of 100 ns in a second.
_UNITS = 10_000_000
#: `GetSystemPowerStatus`: no mains, and a battery that is there.
_NO_MAINS, _NO_BATTERY = 0, 128


class _LastInput(ctypes.Structure):
    _fields_ = (("size", ctypes.c_uint), ("ticks", ctypes.c_uint32))


class _Power(ctypes.Structure):
    _fields_ = (
        ("mains", ctypes.c_ubyte),
        ("battery", ctypes.c_ubyte),
        ("percent", ctypes.c_ubyte),
        ("saver", ctypes.c_ubyte),
        ("left", ctypes.c_uint32),
        ("full", ctypes.c_uint32),
    )


class WindowsSensors:
    """The last input of the session, the processor time of the system, and its power.

    The system tells the input of the session in which the executor runs. An executor that runs as a service is in a
    session of its own, without keyboard and mouse.
    """

    def __init__(self, system: Any = None) -> None:
        self._system = system or _System()
        self._before: tuple[float, float] | None = None
        self._found: float | None = None

    def idle(self) -> float | None:
        """Seconds since the last input of this session. None: the system does not tell."""
        found: float | None = self._system.idle()
        return found

    def load(self, own: Callable[[], float]) -> float | None:
        """The cores that programs of others have used between the last two measurements. None: there was only one."""
        now = time.monotonic()
        if self._before is not None and now - self._before[0] < _LEAST:
            return self._found
        others = self._system.busy() - own()
        if self._before is not None:
            self._found = max(0.0, others - self._before[1]) / (now - self._before[0])
        self._before = now, others
        return self._found

    def on_battery(self) -> bool:
        """Whether the machine has a battery and no mains."""
        return bool(self._system.on_battery())

    def is_metered(self) -> bool:
        """Never: the system tells it to programs of its own store only."""
        return False

    def lacks(self) -> str | None:
        """Nothing: all of it comes with the system."""
        return None


class _System:
    """The calls of Windows."""

    def __init__(self) -> None:
        libraries: Any = vars(ctypes)["windll"]
        self._user, self._kernel = libraries.user32, libraries.kernel32

    def idle(self) -> float | None:
        """Seconds since the last input (`GetLastInputInfo`). Both counters begin again after 49.7 days."""
        found = _LastInput(size=ctypes.sizeof(_LastInput))
        if not self._user.GetLastInputInfo(ctypes.byref(found)):
            return None
        return float((self._kernel.GetTickCount() - found.ticks) & 0xFFFF_FFFF) / 1000

    def busy(self) -> float:
        """The processor time of all processes and of the system, in seconds (`GetSystemTimes`)."""
        idle, kernel, user = (ctypes.c_uint64() for _ in range(3))
        if not self._kernel.GetSystemTimes(*map(ctypes.byref, (idle, kernel, user))):
            raise OSError("Windows does not tell")
        return (kernel.value + user.value - idle.value) / _UNITS  # the kernel's time has the idle time in it

    def on_battery(self) -> bool:
        """Whether there is no mains, and a battery (`GetSystemPowerStatus`)."""
        found = _Power()
        if not self._kernel.GetSystemPowerStatus(ctypes.byref(found)):
            raise OSError("Windows does not tell")
        return found.mains == _NO_MAINS and not found.battery & _NO_BATTERY
