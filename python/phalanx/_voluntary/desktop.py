"""Idle time of a desktop's keyboard and mouse: from X11, from GNOME's Mutter on Wayland, or from systemd-logind."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from phalanx._voluntary.bus import HAS_JEEPNEY, Bus

try:
    from Xlib.display import Display
    from Xlib.ext import screensaver

    HAS_XLIB = True
except ImportError:  # the optional packages phalanx-grid[desktop]
    HAS_XLIB = False

_LOGIND = "org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager"
_MUTTER = "org.gnome.Mutter.IdleMonitor", "/org/gnome/Mutter/IdleMonitor/Core", "org.gnome.Mutter.IdleMonitor"
#: Pause before the retry of an absent X server, in seconds.
_REST = 10.0


class X11:
    """The X server of $DISPLAY. It reports the idle time in milliseconds, also to programs that poll.

    A stopped X server blocks the thread that asks. The native core then closes the machine, because its sensors have
    reported nothing for ten seconds.
    """

    def __init__(self) -> None:
        self._display: Any = None
        self._again = 0.0

    def idle(self) -> float | None:
        """Seconds since the last input. None: there is no X server, or it gives no answer."""
        # Xwayland sees only input to X11 windows.
        if not HAS_XLIB or not os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
            return None
        try:
            if self._display is None:
                if time.monotonic() < self._again:
                    return None
                self._display = Display()
            found = screensaver.query_info(self._display.screen().root)
            return float(found.idle) / 1000
        except Exception:  # python-xlib passes on errors of sockets and of its parser
            self._close()
            return None

    def _close(self) -> None:
        display, self._display, self._again = self._display, None, time.monotonic() + _REST
        try:
            if display is not None:
                display.close()
        except Exception:
            return


class Desktop:
    """The desktop of this account, and those of other accounts through logind."""

    def __init__(self) -> None:
        self._x11, self._system, self._session = X11(), Bus("SYSTEM"), Bus("SESSION")
        #: logind's IdleSinceHint, read once for each idle period.
        self._since: float | None = None

    def idle(self) -> float | None:
        """Seconds since the last input. None: no source reports it."""
        found = self._x11.idle()
        if found is None and os.environ.get("DBUS_SESSION_BUS_ADDRESS"):
            milliseconds = self._session.call(*_MUTTER, "GetIdletime")
            found = milliseconds / 1000 if isinstance(milliseconds, int) else None
        return self._by_logind() if found is None else found

    def is_metered(self) -> bool:
        """Whether NetworkManager reports the network as metered, or guesses it."""
        at = "org.freedesktop.NetworkManager", "/org/freedesktop/NetworkManager", "org.freedesktop.NetworkManager"
        return self._system.get(*at, "Metered") in (1, 3)

    def _by_logind(self) -> float | None:
        """The time for which all sessions have been idle. A desktop marks its session as idle some minutes after the
        last key."""
        is_idle = self._system.get(*_LOGIND, "IdleHint")
        if is_idle is not True:
            self._since = None
            return 0.0 if is_idle is False else None
        if self._since is None:
            since = self._system.get(*_LOGIND, "IdleSinceHintMonotonic")
            self._since = since / 1e6 if isinstance(since, int) else None
        now = time.clock_gettime(time.CLOCK_MONOTONIC)
        return None if self._since is None else max(0.0, now - self._since)


def is_there() -> bool:
    """Whether this machine has a graphical display. If so, terminals alone do not show whether it is in use."""
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        return True
    return any(Path("/tmp/.X11-unix").glob("X*")) or any(Path("/run/user").glob("*/wayland-*"))


def lacks() -> str | None:
    """The packages that are missing to observe a desktop, in words for people. None: no package is missing."""
    if not is_there() or (HAS_JEEPNEY and HAS_XLIB):
        return None
    return "this machine has a desktop, which is observed with: pip install 'phalanx-grid[desktop]'"
