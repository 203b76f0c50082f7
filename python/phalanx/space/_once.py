"""Request numbers that make a repeated request idempotent: the space does it once, however often it is sent."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition

#: The client, the number of the request, and the number of the oldest open request.
Numbered = tuple[int, int, int]

#: Maximum distance of a request from the oldest open request, because a space remembers no more outcomes.
MOST_OPEN = 256


class Numbers:
    """Counts the requests of one client. A space knows the client by a random number."""

    def __init__(self) -> None:
        self.client = secrets.randbits(128)
        self._next = 1
        self._open: set[int] = set()
        self._changed = Condition()

    @contextmanager
    def number(self) -> Iterator[int]:
        """The number of a new request, which is open until the end of the block. Waits while the oldest open request is
        ``MOST_OPEN`` numbers behind."""
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
        """The numbers that the space is told with this request."""
        with self._changed:
            return self.client, number, min(self._open)
