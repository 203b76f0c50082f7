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
        #: Why it stops: the name of the signal, or the words of :meth:`ask`. Empty: it goes on.
        self.why = ""
        self._woken: SimpleQueue[None] = SimpleQueue()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._hear)

    @property
    def is_asked(self) -> bool:
        """Whether a signal has come, or :meth:`ask` was called."""
        return bool(self.why)

    def ask(self, why: str) -> None:
        """Asks for the end, from any thread. The first reason counts."""
        self.why = self.why or why
        self._woken.put(None)

    def wait(self, seconds: float) -> bool:
        """Waits for the end, for so many seconds at most. Returns whether it was asked for, now or earlier."""
        if not self.is_asked:
            with suppress(Empty):
                self._woken.get(timeout=seconds)
        return self.is_asked

    def _hear(self, number: int, _: object) -> None:
        self.ask(signal.Signals(number).name)
