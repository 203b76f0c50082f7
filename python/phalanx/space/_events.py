"""``notify``: a stream of the matching tuples that are put (TSpaces, JavaSpaces; paper 002, section 2)."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple

from phalanx.errors import SpaceError
from phalanx.space._engine import Engine, Fields
from phalanx.space._timeout import timed_out
from phalanx.space._where import Query


class Event(NamedTuple):
    """A tuple that was put. ``notify(…, since=event.sequence)`` continues after it.

    Attributes
    ----------
    sequence : int
        The number of the event.
    fields : tuple
        All fields of the tuple.

    Examples
    --------
    >>> import phalanx as px
    >>> space = px.Space()
    >>> with space.notify("x", int) as events:
    ...     space.out("x", 1)
    ...     events.next(timeout=1.0).fields
    ('x', 1)
    """

    sequence: int
    fields: Fields


class Events:
    """The events of one ``notify``: an endless iterator, also for ``async for``, and a context manager.

    Each matching tuple comes at least once, even if it was taken at once. Tuples come in the order in which they were
    put. A slow reader misses nothing as long as the space remembers the events. After that SpaceError says how many are
    forgotten.

    Examples
    --------
    >>> import phalanx as px
    >>> space = px.Space()
    >>> with space.notify("job", str) as events:
    ...     space.out("job", "paint")
    ...     events.next(timeout=10).fields
    ('job', 'paint')
    """

    def __init__(self, engine: Engine, template: Fields, where: Query | None, since: int | None, space: str) -> None:
        self._engine = engine
        self._asked = space, template
        self._here: deque[Event] = deque()
        self._flag: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._closed = False
        self._watch = engine.watch(template, where, since, self._nudge)

    def next(self, timeout: float | None = None) -> Event:
        """The next event. Raises SpaceTimeoutError after ``timeout`` seconds, SpaceError if events were forgotten.

        Parameters
        ----------
        timeout : float, optional
            Seconds; by default there is no limit.

        Returns
        -------
        Event

        Raises
        ------
        SpaceTimeoutError
            No event came in time.
        SpaceError
            Events were forgotten, or the watch has ended.
        """
        while not self._here:
            if not self._collect(timeout):
                raise timed_out(*self._asked)
        return self._here.popleft()

    def _collect(self, timeout: float | None) -> bool:
        events = self._engine.events(self._watch, timeout)
        self._here.extend(Event(*event) for event in events)
        return bool(events)

    def __iter__(self) -> Events:
        return self

    def __next__(self) -> Event:
        try:
            return self.next()
        except SpaceError:
            if self._closed:
                raise StopIteration from None
            raise

    def __aiter__(self) -> Events:
        return self

    async def __anext__(self) -> Event:
        try:
            while not self._here:
                flag = asyncio.Event()
                self._flag = asyncio.get_running_loop(), flag
                if not self._collect(0):
                    await flag.wait()
        except SpaceError:
            if self._closed:
                raise StopAsyncIteration from None
            raise
        return self._here.popleft()

    def _nudge(self) -> None:
        if flagged := self._flag:
            loop, flag = flagged
            with suppress(RuntimeError):  # the loop is closed, so no task waits
                loop.call_soon_threadsafe(flag.set)

    def close(self) -> None:
        """Ends the watch, and the calls that wait for its events."""
        self._closed = True
        self._engine.unwatch(self._watch)

    def __enter__(self) -> Events:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
