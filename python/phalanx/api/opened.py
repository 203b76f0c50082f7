"""Spaces that are open for users, and tuples that are taken for a while."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from phalanx.api.acting import FRESH, Acting, Engine
from phalanx.api.refusals import Refused

#: Most spaces that are open for a user, and for all users.
MOST_OF_USER, MOST = 32, 256
#: Most tuples that a user has taken for a while.
MOST_TAKEN = 500
#: Seconds after which a space is closed that nobody uses.
_IDLE = 30.0
#: Seconds between two looks at what has ended.
_LOOK = 0.25
#: Seconds that the end waits for the thread, which may wait for a server that does not answer.
_END = 5.0


class Opened:
    """An open space.

    Parameters
    ----------
    engine
        Its engine.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.uses = 0
        self.since = self.last = time.monotonic()

    def is_fresh(self) -> bool:
        """Whether requests may use it: it has not ended, and its user's identity is not old."""
        engine = self.engine
        has_ended = getattr(engine, "ended", False)
        return not has_ended and time.monotonic() - self.since < FRESH


class Taken(NamedTuple):
    """A tuple that a user has taken for a while, in a transaction."""

    user: str
    opened: Opened
    transaction: int
    until: float


class Spaces:
    """The spaces that are open for users. A thread closes those that nobody uses.

    Parameters
    ----------
    acting
        What opens them.
    """

    def __init__(self, acting: Acting) -> None:
        self._acting = acting
        self._lock = threading.Lock()
        self._open: dict[tuple[str, str, str], Opened] = {}
        self._left: list[Opened] = []
        self._taken: dict[str, Taken] = {}
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._look_after, name="phalanx-spaces", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Closes all spaces. What is taken for a while is back in its space."""
        self._ends.set()
        with self._lock:
            opened = [*self._open.values(), *self._left]
            self._open, self._left = {}, []
        for it in opened:  # first, because this ends what the thread waits for
            _close(it)
        self._thread.join(_END)

    @contextmanager
    def using(self, user: str, machine: str, name: str) -> Iterator[Opened]:
        """A space of this name for a user, which stays open meanwhile.

        Parameters
        ----------
        user, machine, name
            As for :meth:`~phalanx.api.acting.Acting.open`.

        Yields
        ------
        Opened
        """
        opened = self._found(user, machine, name)
        try:
            yield opened
        finally:
            self._leave(opened)

    def take(self, user: str, opened: Opened, transaction: int, seconds: float) -> str:
        """Notes a tuple that is taken for a while.

        Parameters
        ----------
        user
            Who has it.
        opened
            The space.
        transaction
            The transaction in which it was taken.
        seconds
            When it goes back.

        Returns
        -------
        str
            A name for :meth:`end`.
        """
        id_ = secrets.token_hex(16)
        with self._lock:
            opened.uses += 1
            self._taken[id_] = Taken(user, opened, transaction, time.monotonic() + seconds)
        return id_

    def check_room(self, user: str) -> None:
        """Raises Refused if a user has taken as many tuples as may be."""
        with self._lock:
            count = sum(it.user == user for it in self._taken.values())
        if count >= MOST_TAKEN:
            raise Refused(429, f"lease: you have {count} tuples for a while: keep them, or give them back")

    def end(self, user: str, id_: str, *, keeps: bool) -> None:
        """Keeps a tuple for good, or gives it back.

        Parameters
        ----------
        user
            Who has taken it.
        id_
            Its name.
        keeps
            Whether it is kept.

        Raises
        ------
        Refused
            There is none: its time is over, so that it is back in its space (404).
        """
        with self._lock:
            taken = self._taken.get(id_)
            if taken is None or taken.user != user:
                raise Refused(404, "you have taken no such tuple; after its lease it is back in its space")
            del self._taken[id_]
        try:
            if keeps:
                taken.opened.engine.commit(taken.transaction)
            else:
                taken.opened.engine.abort(taken.transaction)
        finally:
            self._leave(taken.opened)

    def _found(self, user: str, machine: str, name: str) -> Opened:
        key = user, machine, name
        if (opened := self._use(key)) is not None:
            return opened
        with self._lock:
            if len(self._open) >= MOST or sum(it[0] == user for it in self._open) >= MOST_OF_USER:
                words = f"too many spaces are open: try again after {_IDLE:.0f} s"
                raise Refused(429, words, {"Retry-After": f"{_IDLE:.0f}"})
        new = Opened(self._acting.open(user, machine, name))
        if (opened := self._use(key)) is not None:
            _close(new)  # another request was faster
            return opened
        with self._lock:
            has_ended = self._ends.is_set()
            if not has_ended:
                if (old := self._open.pop(key, None)) is not None:
                    self._left.append(old)
                self._open[key] = new
                new.uses += 1
        if has_ended:
            _close(new)
            raise Refused(503, "the hub ends now: try again later")
        return new

    def _use(self, key: tuple[str, str, str]) -> Opened | None:
        with self._lock:
            opened = self._open.get(key)
            if opened is None or not opened.is_fresh():
                return None
            opened.uses += 1
            return opened

    def _leave(self, opened: Opened) -> None:
        with self._lock:
            opened.uses -= 1
            opened.last = time.monotonic()

    def _look_after(self) -> None:
        while not self._ends.wait(_LOOK):
            now = time.monotonic()
            with self._lock:
                late = [(id_, it.user) for id_, it in self._taken.items() if it.until <= now]
            for id_, user in late:
                if self._ends.is_set():
                    return
                # It was kept meanwhile, or its server is gone and aborts by itself. Whatever else it is, it must not
                # end this thread, which all users need.
                with suppress(Exception):
                    self.end(user, id_, keeps=False)
            for opened in self._unused(now):
                _close(opened)

    def _unused(self, now: float) -> list[Opened]:
        with self._lock:
            over = [
                key for key, it in self._open.items() if not it.uses and (now - it.last > _IDLE or not it.is_fresh())
            ]
            found = [self._open.pop(key) for key in over]
            found += [it for it in self._left if not it.uses]
            self._left = [it for it in self._left if it.uses]
        return found


def _close(opened: Opened) -> None:
    with suppress(Exception):  # its server may be gone in any way, and the other spaces must be closed too
        opened.engine.close()
