"""Requests that wait for a tuple of a space in Redis."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any

from phalanx.space._deadline import deadline, left
from phalanx.space._engine import Fields
from phalanx.space._uninterrupted import Uninterrupted

from phalanx_redis._server import Store

#: Seconds after which a waiting client asks again, and milliseconds without a question after which it counts as dead.
_PATIENCE, _ALIVE = 5.0, 15_000


class Request:
    """A waiting request. ``found`` is its tuple. ``take`` is a word for the script: ``b"0"`` reads, ``b"1"`` takes, and
    ``b"back"`` takes a tuple that may be given back. ``wanted``: the arguments of the script for the template."""

    def __init__(
        self,
        store: Store,
        decode: Callable[[Sequence[bytes]], Fields],
        take: bytes,
        wanted: Sequence[Any],
        timeout: float | None,
    ) -> None:
        self._store, self._decode = store, decode
        self._take, self._wanted = take, wanted
        self._until = deadline(timeout)
        self._waiter = 0
        self._lock = threading.Lock()
        self.cancelled = False
        self.found: Fields | None = None
        self._taken: Sequence[bytes] = ()

    def result(self) -> Fields | None:
        """The tuple, or None after the timeout or a cancellation."""
        with Uninterrupted() as ctrl_c:
            return self._result(ctrl_c)

    def _result(self, ctrl_c: Uninterrupted) -> Fields | None:
        try:
            while True:
                with self._lock:
                    if self.cancelled:
                        return None
                    self._ask()
                    if self.found is not None:
                        return self.found
                rest = left(self._until)
                if rest == 0:
                    return None
                if ctrl_c.let(self._is_sent, _PATIENCE if rest is None else min(_PATIENCE, rest)):
                    return self.found
        finally:
            if self._waiter and self.found is None and not self._store.closed:
                self._store.call(b"leave", self._waiter)

    def cancel(self) -> bool:
        """Cancels the request. True if it has no tuple and will get none."""
        with self._lock:
            if self.found is not None or self.cancelled:
                return False
            self.cancelled = True
        if self._waiter:
            self._store.wake(self._waiter)
        return True

    def _ask(self) -> None:
        """Takes a tuple now, or registers as a waiter."""
        answer = self._store.call(b"wait", self._take, self._waiter, _ALIVE, *self._wanted)
        if isinstance(answer, int):
            self._waiter = answer
            return
        if self._take == b"back":
            self._taken = answer
            answer = answer[1:]
        self.found = self._decode(answer)

    def give_back(self) -> None:
        """Puts the tuple back to its place, with its key, label, priority and lease."""
        if self._taken:
            token, *fields = self._taken
            self._store.call(b"back", token, len(fields), *fields)

    def _is_sent(self, patience: float) -> bool:
        """Waits for a message. True if it was a tuple, as for readers. Otherwise the request must ask again."""
        sent = self._store.sent(self._waiter, patience)
        if not sent:
            return False
        with self._lock:
            if not self.cancelled:
                self.found = self._decode(_split(sent))
        return self.found is not None


def _split(joined: bytes) -> list[bytes]:
    """Splits fields that the script joined, each after its length."""
    parts, at = [], 0
    while at < len(joined):
        (length,) = struct.unpack_from("<I", joined, at)
        parts.append(joined[at + 4 : at + 4 + length])
        at += 4 + length
    return parts
