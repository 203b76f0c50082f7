"""The sensors of Linux."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from phalanx._voluntary import desktop

_POWER = Path("/sys/class/power_supply")
_STAT = Path("/proc/stat")
#: Polling interval of power and network, in seconds. They change seldom.
_SELDOM = 2.0
#: Shortest period over which load is measured, in seconds, because the kernel counts in steps of 10 ms.
_LEAST = 1.0
#: Tolerance for times in the future, in seconds. Later times are from before the clock was set.
_CLOCKS = 60.0


class LinuxSensors:
    """The desktop, terminals, the kernel's counters, and power supplies."""

    def __init__(self) -> None:
        self._desktop = desktop.Desktop()
        self._load = Load()
        self._terminals = Terminals()
        self._looked, self._on_battery, self._is_metered = -_SELDOM, False, False

    def idle(self) -> float | None:
        """Seconds since the last input at the desktop or at a terminal."""
        at_desktop = self._desktop.idle()
        if at_desktop is None and desktop.is_there():
            return None
        found = [it for it in (at_desktop, self._terminals.idle()) if it is not None]
        return min(found, default=None)

    def load(self, own: Callable[[], float]) -> float | None:
        """The cores that programs of others use."""
        return self._load.look(own)

    def on_battery(self) -> bool:
        """Whether a battery of the machine discharges, and no mains is connected."""
        self._look_seldom()
        return self._on_battery

    def is_metered(self) -> bool:
        """Whether NetworkManager reports the network as metered."""
        self._look_seldom()
        return self._is_metered

    def lacks(self) -> str | None:
        """The optional packages that are missing to observe the desktop."""
        return desktop.lacks()

    def _look_seldom(self) -> None:
        if time.monotonic() - self._looked < _SELDOM:
            return
        self._looked = time.monotonic()
        self._on_battery, self._is_metered = runs_on_battery(), self._desktop.is_metered()


class Terminals:
    """The use of terminals. It remembers the latest input, because a terminal that is closed is gone, and would
    otherwise take the time of its last use with it.

    The kernel sets the access time of a terminal when a program reads input from it, in steps of eight seconds.
    """

    def __init__(self) -> None:
        self._latest: float | None = None

    def idle(self) -> float | None:
        """Seconds since the last input at a terminal that was seen. None: no terminal was seen yet."""
        now = time.time()
        times = [found for found in times_of_terminals() if found <= now + _CLOCKS]
        if self._latest is not None and self._latest <= now + _CLOCKS:
            times.append(self._latest)
        self._latest = max(times, default=None)
        return None if self._latest is None else max(0.0, now - self._latest)


def times_of_terminals() -> list[float]:
    """When each terminal had its last input, in seconds since 1970."""
    times = []
    for file in [*Path("/dev").glob("tty[0-9]*"), *Path("/dev/pts").glob("[0-9]*")]:
        try:
            times.append(file.stat().st_atime)
        except OSError:  # the terminal was closed
            continue
    return times


class Load:
    """The load of others: their processor time, from the counters of the kernel."""

    def __init__(self) -> None:
        self._before: tuple[float, float] | None = None
        self._found: float | None = None

    def look(self, own: Callable[[], float]) -> float | None:
        """The cores that others have used between the last two measurements. None: there was only one."""
        now = time.monotonic()
        if self._before is not None and now - self._before[0] < _LEAST:
            return self._found
        others = busy_seconds() - own()
        if self._before is not None:
            self._found = max(0.0, others - self._before[1]) / (now - self._before[0])
        self._before = now, others
        return self._found


def busy_seconds() -> float:
    """The processor time of all processes and of the kernel since the start of the machine (proc(5), ``stat``)."""
    fields = _STAT.read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, irq, soft, *_ = map(int, fields)
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")


def runs_on_battery(folder: Path = _POWER) -> bool:
    """Whether a battery of the machine discharges, and no mains is connected. Batteries of devices like a mouse do not
    count."""
    if not folder.is_dir():
        return False
    supplies = [*folder.iterdir()]
    if any(_word(it, "type") != "Battery" and _word(it, "online") == "1" for it in supplies):
        return False
    return any(
        (_word(it, "type"), _word(it, "status")) == ("Battery", "Discharging") and _word(it, "scope") != "Device"
        for it in supplies
    )


def _word(supply: Path, name: str) -> str:
    try:
        return (supply / name).read_text(encoding="ascii", errors="replace").strip()
    except OSError:  # most supplies have only some of the files
        return ""
