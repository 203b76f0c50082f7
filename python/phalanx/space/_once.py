"""Requests that happen once, however often they are sent: their numbers."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition

#: The client, the number of the request, and that of the oldest one which is open.
Numbered = tuple[int, int, int]

#: How far a request may be ahead of the oldest one that is open: a space remembers no more.
MOST_OPEN = 256


class Numbers:
    """Counts the requests of one client, which a space knows by a number drawn by chance."""

    def __init__(self) -> None:
        self.client = secrets.randbits(128)
        self._next = 1
        self._open: set[int] = set()
        self._changed = Condition()

    @contextmanager
    def number(self) -> Iterator[int]:
        """For one request; it is open until the end of the block. Waits while others are open for too long."""
        with self._changed:
            self._changed.wait_for(lambda: self._next - min(self._open, default=self._next) < MOST_OPEN)
            number = self._next
            self._next += 1
            self._open.add(number)
        try:
            yield number
        finally:
            with self._changed:
                self._open.discard(number)
                self._changed.notify_all()

    def told(self, number: int) -> Numbered:
        """As the space is told, now."""
        with self._changed:
            return self.client, number, min(self._open)
