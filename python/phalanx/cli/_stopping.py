"""Waits for SIGINT or SIGTERM."""

from __future__ import annotations

import signal
from contextlib import suppress
from queue import Empty, SimpleQueue


class Stop:
    """Handles SIGINT and SIGTERM from its creation on.

    A signal handler runs between two steps of the main thread. An event of :mod:`threading` would be set there while
    the main thread holds its lock, and both would wait for ever. A SimpleQueue may be used at any moment.
    """

    def __init__(self) -> None:
        self.is_asked = False
        self._woken: SimpleQueue[None] = SimpleQueue()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._ask)

    def wait(self, seconds: float) -> bool:
        """Waits for a signal, for so many seconds at most. Returns whether one has come, at this or an earlier call."""
        if not self.is_asked:
            with suppress(Empty):
                self._woken.get(timeout=seconds)
        return self.is_asked

    def _ask(self, *_: object) -> None:
        self.is_asked = True
        self._woken.put(None)
