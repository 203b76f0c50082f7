"""Futures of our own: cheaper to make than the standard library's, and the same in every other way."""

from __future__ import annotations

import _thread
import sys
import threading
from concurrent.futures import Future
from concurrent.futures._base import CANCELLED, FINISHED, LOGGER, PENDING, RUNNING
from typing import Any, Protocol

from phalanx._atomic import at_once

if sys.version_info >= (3, 11):
    from operator import call as _call
else:

    def _call(function: Any, argument: Any) -> Any:
        return function(argument)


class Gate(_thread.RLock):  # type: ignore[misc]  # final for the type checker only
    """A condition that is its own lock.

    :class:`threading.Condition` takes ten times as long to make, and its ``with`` is Python. A future needs the lock
    several times and hardly ever somebody to wait, so the waiting part is made when it is first needed.
    """

    _waiting: threading.Condition | None = None

    def wait(self, timeout: float | None = None) -> bool:
        """As :meth:`threading.Condition.wait`."""
        if self._waiting is None:
            self._waiting = threading.Condition(self)
        return self._waiting.wait(timeout)

    def notify_all(self) -> None:
        """As :meth:`threading.Condition.notify_all`."""
        if self._waiting is not None:
            self._waiting.notify_all()


class Collector(Protocol):
    """Collects outcomes on behalf of the futures that they belong to."""

    def collect_for(self, future: Submitted, timeout: float | None) -> float | None:
        """Collects until the future is done or the time is over; what is left of the time."""


class Submitted(Future[Any]):
    """A future whose waiting reader collects outcomes itself: one change of threads less on the way."""

    # What most futures never change is the class's: setting it for each would cost a tenth of a submit.
    _state: str = PENDING
    _result: Any = None
    _exception: BaseException | None = None
    #: The call's token from when it is sent until it is settled, for an error that names it.
    sent: Any = None
    # Made when they are first needed, as for few of many futures: two lists less for the garbage collector to visit.
    _lazy_waiters: list[Any] | None = None
    _lazy_callbacks: list[Any] | None = None

    def __init__(self, collector: Collector) -> None:
        # Instead of the standard library's own, which makes a Condition.
        self._condition = Gate()  # type: ignore[assignment]
        self._collector = collector

    @property
    def _waiters(self) -> list[Any]:  # type: ignore[override]
        """What the standard library's ``wait`` and ``as_completed`` put here, under the lock."""
        if self._lazy_waiters is None:
            self._lazy_waiters = []
        return self._lazy_waiters

    @property
    def _done_callbacks(self) -> list[Any]:
        """What the standard library's ``add_done_callback`` puts here, under the lock."""
        if self._lazy_callbacks is None:
            self._lazy_callbacks = []
        return self._lazy_callbacks

    def result(self, timeout: float | None = None) -> Any:
        """What the call returned, as :meth:`concurrent.futures.Future.result`."""
        # The state is set last, so a finished future needs no lock.
        if self._state == FINISHED and self._exception is None:
            return self._result
        try:
            return super().result(self._collector.collect_for(self, timeout))
        finally:
            self = None  # type: ignore[assignment]

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What the call raised, as :meth:`concurrent.futures.Future.exception`."""
        return super().exception(self._collector.collect_for(self, timeout))

    def is_done(self) -> bool:
        """As :meth:`done`, without the lock."""
        return self._state not in (PENDING, RUNNING)

    def is_pending(self) -> bool:
        """Whether the call was not sent."""
        return self._state == PENDING

    def begin(self) -> bool:
        """Whether the call is to be made: it cannot be cancelled any more. May be asked again."""
        with self._condition:
            if self._state == PENDING:
                self._state = RUNNING
            elif self._state == CANCELLED:
                self.set_running_or_notify_cancel()
            return self._state == RUNNING

    def settle(self, result: Any, error: BaseException | None) -> bool:
        """Sets the outcome and wakes those that wait for it; whether callbacks are to be called. May be done again."""
        with self._condition:
            if self._state == RUNNING:
                self._result = result
                self._exception = error
                self._state = FINISHED
                self.sent = None
                for waiter in self._lazy_waiters or ():
                    (waiter.add_result if error is None else waiter.add_exception)(self)
            self._condition.notify_all()
        return bool(self._lazy_callbacks)

    def call_back(self) -> None:
        """Calls the callbacks, each once. May be done again."""
        callbacks = self._lazy_callbacks
        while callbacks:
            try:
                at_once(map(_call, map(callbacks.pop, (0,)), (self,)))
            except Exception:
                LOGGER.exception("exception calling callback for %r", self)
