"""Requests for tuples without a waiting thread: futures (Blossom's prefetch; paper 002, section 2) and asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TypeAlias
from weakref import ref

from phalanx._asynchronous import AwaitableFuture
from phalanx.space._engine import Engine, Fields, Outcome
from phalanx.space._forgotten import end_later
from phalanx.space._select import Selector
from phalanx.space._timeout import timed_out
from phalanx.space._uninterrupted import Uninterrupted
from phalanx.space._where import Query

#: The arguments of :meth:`Engine.begin_wait` before ``done``.
Request: TypeAlias = tuple[Fields, bool, tuple[Selector, ...], Query | None, int | None, float | None]


class TupleFuture(AwaitableFuture[Fields]):
    """The future of a tuple. The tuple is taken for good when ``result()`` returns it.

    It can be awaited: ``await space.in_future("answer", int)``.

    A future that is cancelled, or garbage-collected before it was read, takes nothing and stops waiting. A future with
    a callback stays alive until it has called the callback."""

    # Dropped when there is nothing left to take, because a program that keeps the exception would keep the space alive.
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
        """As :meth:`concurrent.futures.Future.add_done_callback`. The callback is called even if the program has
        dropped the future."""
        if not self.done():
            self._ear.kept = self
        super().add_done_callback(fn)
        if self.done():
            self._ear.kept = None

    def cancel(self) -> bool:
        """Cancels the request. False if the tuple is here already or on its way."""
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
        """As :meth:`concurrent.futures.Future.result`, and takes the tuple for good."""
        found = super().result(timeout)
        if self._engine is not None and self._number is not None:
            with Uninterrupted():
                self._engine.settle(self._number, True)
                self._engine = None
                return found  # returned inside the block, because a Ctrl-C after the settling would lose the tuple
        return found

    def __del__(self) -> None:
        if self._engine is not None and self._number is not None:
            end_later(partial(_give_up, self._engine, self._number))


class _Ear:
    """The callback that an engine calls with the outcome of a future. It holds a strong reference to the future only if
    the future has callbacks of its own."""

    __slots__ = ("_future", "kept")

    def __init__(self, future: TupleFuture) -> None:
        self._future = ref(future)
        self.kept: TupleFuture | None = None

    def __call__(self, outcome: Outcome) -> None:
        with Uninterrupted():  # a Ctrl-C here would leave the future pending for ever
            future = self._future()
            self.kept = None
            if future is not None:  # otherwise its __del__ gives the tuple back
                future._settle(outcome)


def _give_up(engine: Engine, number: int) -> None:
    """Ends a request, or gives back the tuple that it took."""
    if not engine.cancel(number):
        engine.settle(number, False)


async def wait(engine: Engine, request: Request) -> Fields | None:
    """Waits for the tuple of a request; None after its timeout. A cancelled task takes nothing."""
    loop, here = asyncio.get_running_loop(), threading.get_ident()
    answer: asyncio.Future[Outcome] = loop.create_future()

    def resolve(outcome: Outcome) -> None:
        if not answer.done():
            answer.set_result(outcome)

    def done(outcome: Outcome) -> None:
        with Uninterrupted(), suppress(RuntimeError):  # the loop is closed, so the waiting task was cancelled
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
