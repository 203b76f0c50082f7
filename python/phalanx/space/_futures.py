"""Waiting for a tuple without a thread that waits: futures (Blossom's prefetch; paper 002, section 2) and asyncio."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeAlias

from phalanx.errors import SpaceTimeoutError
from phalanx.space._engine import Engine, Fields, Outcome
from phalanx.space._select import Selector
from phalanx.space._where import Query

#: What :meth:`Engine.begin_wait` takes before ``done``.
Request: TypeAlias = tuple[Fields, bool, tuple[Selector, ...], Query | None, int | None, float | None]


class TupleFuture(Future[Fields]):
    """A tuple that is waited for. It is taken when ``result()`` returns it: a future that is cancelled, or thrown away
    without being read, has taken nothing."""

    def __init__(self, engine: Engine, request: Request) -> None:
        super().__init__()
        # Not held when nothing is taken any more: an exception that somebody keeps would keep the space.
        self._engine: Engine | None = engine
        self._number: int | None = None
        self._number = engine.begin_wait(*request, self._settle)

    def _settle(self, outcome: Outcome) -> None:
        if isinstance(outcome, tuple):
            self.set_result(outcome)
        else:
            self._engine = None
            self.set_exception(outcome or SpaceTimeoutError("no matching tuple came in time"))

    def cancel(self) -> bool:
        """Takes nothing any more; False if the tuple is here, or on its way."""
        if self.cancelled():
            return True
        engine = self._engine
        if engine is None or self._number is None or self.done() or not engine.cancel(self._number):
            return False
        super().cancel()
        return not self.set_running_or_notify_cancel()

    def result(self, timeout: float | None = None) -> Fields:
        """The tuple, as :meth:`concurrent.futures.Future.result`."""
        found = super().result(timeout)
        if self._engine is not None and self._number is not None:
            self._engine.settle(self._number, True)
            self._engine = None
        return found

    def __del__(self) -> None:
        if self._engine is not None and self._number is not None and self.done() and not self.cancelled():
            with suppress(Exception):  # the space may have been closed
                self._engine.settle(self._number, False)


async def wait(engine: Engine, request: Request) -> Fields | None:
    """The tuple that a request waits for, None when its time passed. Cancelled, it has taken nothing."""
    loop, here = asyncio.get_running_loop(), threading.get_ident()
    answer: asyncio.Future[Outcome] = loop.create_future()

    def resolve(outcome: Outcome) -> None:
        if not answer.done():
            answer.set_result(outcome)

    def done(outcome: Outcome) -> None:
        if threading.get_ident() == here:
            resolve(outcome)
        else:
            with suppress(RuntimeError):  # the loop is closed: who waited was cancelled
                loop.call_soon_threadsafe(resolve, outcome)

    number = engine.begin_wait(*request, done)
    try:
        outcome = await answer
    except BaseException:
        if not engine.cancel(number):
            engine.settle(number, False)
        raise
    if isinstance(outcome, BaseException):
        raise outcome
    if outcome is not None:
        engine.settle(number, True)
    return outcome
