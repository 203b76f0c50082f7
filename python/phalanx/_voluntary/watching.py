"""The watch of an executor: a thread that polls sensors and the owner's pause, and writes the books."""

from __future__ import annotations

import logging
import os
import threading
import time
from datetime import datetime
from typing import Any

from phalanx import _native
from phalanx._voluntary.books import Books
from phalanx._voluntary.pausing import paused
from phalanx._voluntary.rules import Rules, to_json
from phalanx._voluntary.sensors import Sensors
from phalanx.errors import IdentityError

_log = logging.getLogger("phalanx")

#: Polling interval of an open machine with rules, in seconds. It bounds the reaction to a key.
_LOOK = 0.2
#: Polling interval of a machine that is closed, or needs no sensors, in seconds.
_SELDOM = 0.5
#: Interval of bookings, in seconds.
_BOOK = 60.0
#: Timeout for the end of the thread, in seconds, because a call of the system may block it.
_PATIENCE = 2.0


class Watching:
    """Watches over an executor's machine until it is closed. ``told``: further facts for the owner's books."""

    def __init__(
        self, service: _native.Executor, rules: Rules, sensors: Sensors | None, told: dict[str, Any] | None = None
    ) -> None:
        self._service, self._rules, self._sensors = service, rules, sensors
        self._told = {**(told or {}), "name": service.name, "address": service.address, "rules": to_json(rules)}
        self._stop = threading.Event()
        self._closed, self._since = service.closed, time.time()
        self._books = _books()
        self._booked = 0.0
        self._look()
        self._book()
        self._thread = threading.Thread(target=self._run, name="phalanx-owner", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread, and closes the books."""
        self._stop.set()
        self._thread.join(_PATIENCE)
        if self._books is not None and not self._thread.is_alive():
            self._book()
            self._books.close()

    def _run(self) -> None:
        while not self._stop.wait(self._pause()):
            changed = self._look()
            is_asked = self._books is not None and self._books.is_asked()
            if changed or is_asked or time.monotonic() - self._booked >= _BOOK:
                self._book()

    def _pause(self) -> float:
        return _SELDOM if self._closed is not None or self._sensors is None else _LOOK

    def _look(self) -> bool:
        """Observes once. Returns whether the machine has opened, closed, or changed its reason."""
        is_paused, rules, now = paused() is not None, self._rules, datetime.now()
        sensors = None if is_paused else self._sensors  # because a desktop that hangs must not delay a pause
        idle = None if sensors is None or rules.idle_after is None else sensors.idle()
        counts_load = rules.most_load is not None or (rules.idle_after is not None and idle is None)
        seen = {
            "idle": idle,
            "load": sensors.load(self._own_time) if sensors is not None and counts_load else None,
            "minute": now.hour * 60 + now.minute,
            "on_battery": sensors is not None and not rules.on_battery and sensors.on_battery(),
            "is_metered": sensors is not None and not rules.on_metered and sensors.is_metered(),
            "is_paused": is_paused,
        }
        self._service.observe(seen)
        before, self._closed = self._closed, self._service.closed
        if before != self._closed:
            if (before is None) != (self._closed is None):
                self._since = time.time()
            return True
        return False

    def _own_time(self) -> float:
        """The processor time of this process and all its descendants."""
        times = os.times()
        return times.user + times.system + self._service.used()[1]

    def _book(self) -> None:
        self._booked = time.monotonic()
        if self._books is None:
            return
        rows, everything = self._service.used()
        users, used = [], {}
        for user, processor, places, started, memory, live in rows:
            used[user] = {"processor": processor, "places": places, "started": float(started)}
            running = [{"what": what, "count": count, "seconds": lasts} for what, count, lasts in live]
            users.append({"user": user, **used[user], "memory": memory, "running": running})
        told = {"closed": self._closed, "since": self._since, "users": users, "processor": everything}
        self._books.write({**self._told, **told}, used)


def _books() -> Books | None:
    """The books. None: this account has no folder to write in, as in some containers."""
    try:
        return Books()
    except (OSError, IdentityError) as error:
        _log.warning("phalanx here will not show this executor: %s", error)
        return None
