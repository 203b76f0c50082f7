"""Wakes an event loop of asyncio when threads of the native core have something for it."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable

from phalanx import _native

#: One for each event loop, as long as the loop exists.
_watches: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Watch] = weakref.WeakKeyDictionary()


class Watch:
    """What an event loop waits for: comms, listeners and diallings, by their numbers."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.bells = _native.Bells()
        self._loop = weakref.ref(loop)
        self._called: dict[int, weakref.WeakMethod[Callable[[], None]]] = {}
        loop.add_reader(self.bells.fileno(), self._hear)

    @classmethod
    def here(cls) -> Watch:
        """The one of the running loop."""
        loop = asyncio.get_running_loop()
        watch = _watches.get(loop)
        if watch is None:
            watch = _watches[loop] = cls(loop)
        return watch

    def call(self, number: int, method: Callable[[], None]) -> None:
        """Has the method of an object called when there is something, as long as the object exists."""
        self._called[number] = weakref.WeakMethod(method)

    def forget(self, number: int) -> None:
        """Calls nothing more. May be called by any thread, because Python may finalize a comm in any."""
        self._called.pop(number, None)
        loop = self._loop()
        if not self._called and loop is not None:
            try:
                loop.call_soon_threadsafe(self._rest)
            except RuntimeError:  # the loop is closed, and other libraries may keep it
                _watches.pop(loop, None)

    def _rest(self) -> None:
        """Ends, unless something was begun meanwhile. The next comm of the loop gets another one."""
        loop = self._loop()
        if not self._called and loop is not None and _watches.get(loop) is self:
            loop.remove_reader(self.bells.fileno())
            del _watches[loop]

    def _hear(self) -> None:
        for number in self.bells.take():
            found = self._called.get(number)
            method = found() if found is not None else None
            if method is not None:
                method()


class Signal:
    """Something that coroutines wait for."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    async def wait(self) -> None:
        """Waits until it is given the next time."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            await waiting
        finally:
            self._waiting.discard(waiting)

    def give(self) -> None:
        """Wakes all that wait."""
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
