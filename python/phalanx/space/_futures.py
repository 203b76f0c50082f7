"""Waiting for a tuple without a thread that waits: futures (Blossom's prefetch; paper 002, section 2) and asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TypeAlias
from weakref import ref

from phalanx.space._engine import Engine, Fields, Outcome
from phalanx.space._forgotten import end_later
from phalanx.space._select import Selector
from phalanx.space._timeout import timed_out
from phalanx.space._uninterrupted import Uninterrupted
from phalanx.space._where import Query

#: What :meth:`Engine.begin_wait` takes before ``done``.
Request: TypeAlias = tuple[Fields, bool, tuple[Selector, ...], Query | None, int | None, float | None]


class TupleFuture(Future[Fields]):
    """A tuple that is waited for. It is taken when ``result()`` returns it: a future that is cancelled, or thrown away
    without being read, has taken nothing, and waits no longer. One that is to call somebody stays until it has."""

    # Not held when nothing is taken any more: an exception that somebody keeps would keep the space.
    _engine: Engine | None = None
    _number: int | None = None

    def __init__(self, engine: Engine, request: Request, space: str) -> None:
        super().__init__()
        self._engine = engine
        self._asked = space, request[0]
        self._ear = _Ear(self)
        with Uninterrupted():
            self._number = engine.begin_wait(*request, self._ear)

    def _settle(self, outcome: Outcome) -> None:
        if isinstance(outcome, tuple):
            self.set_result(outcome)
        else:
            self._engine = None
            self.set_exception(outcome or timed_out(*self._asked))

    def add_done_callback(self, fn: Callable[[Future[Fields]], object]) -> None:
        """As :meth:`concurrent.futures.Future.add_done_callback`; also where nobody has the future any more."""
        if not self.done():
            self._ear.kept = self
        super().add_done_callback(fn)
        if self.done():
            self._ear.kept = None

    def cancel(self) -> bool:
        """Takes nothing any more; False if the tuple is here, or on its way."""
        if self.cancelled():
            return True
        engine = self._engine
        with Uninterrupted():
            if engine is None or self._number is None or self.done() or not engine.cancel(self._number):
                return False
            self._engine = self._ear.kept = None
            super().cancel()
            return not self.set_running_or_notify_cancel()

    def result(self, timeout: float | None = None) -> Fields:
        """The tuple, as :meth:`concurrent.futures.Future.result`."""
        found = super().result(timeout)
        if self._engine is not None and self._number is not None:
            with Uninterrupted():
                self._engine.settle(self._number, True)
                self._engine = None
                return found  # from in here: it is nobody else's any more
        return found

    def __del__(self) -> None:
        if self._engine is not None and self._number is not None:
            end_later(partial(_give_up, self._engine, self._number))


class _Ear:
    """What an engine calls with a future's outcome. It does not keep the future, unless somebody is to be told."""

    __slots__ = ("_future", "kept")

    def __init__(self, future: TupleFuture) -> None:
        self._future = ref(future)
        self.kept: TupleFuture | None = None

    def __call__(self, outcome: Outcome) -> None:
        with Uninterrupted():  # by which the future would never be done
            future = self._future()
            self.kept = None
            if future is not None:  # else its end gives back what came
                future._settle(outcome)


def _give_up(engine: Engine, number: int) -> None:
    """Ends a request, or gives back what it took."""
    if not engine.cancel(number):
        engine.settle(number, False)


async def wait(engine: Engine, request: Request) -> Fields | None:
    """The tuple that a request waits for, None when its time passed. Cancelled, it has taken nothing."""
    loop, here = asyncio.get_running_loop(), threading.get_ident()
    answer: asyncio.Future[Outcome] = loop.create_future()

    def resolve(outcome: Outcome) -> None:
        if not answer.done():
            answer.set_result(outcome)

    def done(outcome: Outcome) -> None:
        with Uninterrupted(), suppress(RuntimeError):  # the loop is closed: who waited was cancelled
            if threading.get_ident() == here:
                resolve(outcome)
            else:
                loop.call_soon_threadsafe(resolve, outcome)

    number = engine.begin_wait(*request, done)
    try:
        outcome = await answer
    except BaseException:
        _give_up(engine, number)
        raise
    if isinstance(outcome, BaseException):
        raise outcome
    if outcome is not None:
        engine.settle(number, True)
    return outcome
