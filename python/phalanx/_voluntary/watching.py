"""The thread of an executor that looks at its machine, at the owner's pause, and writes the books."""

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

#: Seconds between two looks of an open machine with rules: a key is noticed within this time.
_LOOK = 0.2
#: The same of a machine that is closed, or has no rules.
_SELDOM = 0.5
#: Seconds between two bookings.
_BOOK = 60.0
#: Seconds to wait for the thread, which may wait for the system.
_PATIENCE = 2.0


class Watching:
    """Watches for an executor until it is closed. ``told``: what the owner is told about it beside what it runs."""

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
        """Looks once. Whether the machine has opened or closed, or is closed for another reason."""
        is_paused, rules, now = paused() is not None, self._rules, datetime.now()
        sensors = None if is_paused else self._sensors  # a desktop that hangs must not delay a pause
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
        """The processor time of this process and of all that it has started."""
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
    """The books; None where this account has no folder to write in, as in some containers."""
    try:
        return Books()
    except (OSError, IdentityError) as error:
        _log.warning("phalanx here will not show this executor: %s", error)
        return None
