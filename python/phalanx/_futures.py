"""Futures that are cheaper to make than those of the standard library, and behave the same."""

from __future__ import annotations

import _thread
import sys
import threading
from concurrent.futures._base import CANCELLED, CANCELLED_AND_NOTIFIED, FINISHED, LOGGER, PENDING, RUNNING
from typing import Any, Protocol

from phalanx._asynchronous import AwaitableFuture
from phalanx._atomic import at_once

if sys.version_info >= (3, 11):
    from operator import call as _call
else:

    def _call(function: Any, argument: Any) -> Any:
        return function(argument)


class Gate(_thread.RLock):  # type: ignore[misc]  # final for the type checker only
    """A condition that is its own lock.

    :class:`threading.Condition` takes ten times as long to make, and its ``with`` runs Python code. A future needs the
    lock several times but hardly ever has a waiting thread. So the condition is made when it is first needed.
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
        """Collects until the future is done or the time is over. Returns the remaining time in seconds."""


class Submitted(AwaitableFuture[Any]):
    """A future whose waiting reader collects outcomes itself, which saves a thread switch."""

    # Class attributes, because most futures never change them. Setting them per future would cost a tenth of a submit.
    _state: str = PENDING
    _result: Any = None
    _exception: BaseException | None = None
    #: The token of the call while it is under way, for an error that names it.
    sent: Any = None
    # Made when they are first needed, which is rare. This saves the garbage collector two lists per future.
    _lazy_waiters: list[Any] | None = None
    _lazy_callbacks: list[Any] | None = None

    def __init__(self, collector: Collector) -> None:
        # Replaces the constructor of the standard library, which makes a Condition.
        self._condition = Gate()  # type: ignore[assignment]
        self._collector = collector

    @property
    def _waiters(self) -> list[Any]:  # type: ignore[override]
        """The waiters that the standard library's ``wait`` and ``as_completed`` add under the lock."""
        if self._lazy_waiters is None:
            self._lazy_waiters = []
        return self._lazy_waiters

    @property
    def _done_callbacks(self) -> list[Any]:
        """The callbacks that the standard library's ``add_done_callback`` adds under the lock."""
        if self._lazy_callbacks is None:
            self._lazy_callbacks = []
        return self._lazy_callbacks

    def result(self, timeout: float | None = None) -> Any:
        """The result of the call, as :meth:`concurrent.futures.Future.result`."""
        # The state is set last, so a finished future needs no lock.
        if self._state == FINISHED and self._exception is None:
            return self._result
        try:
            return super().result(self._collector.collect_for(self, timeout))
        finally:
            self = None  # type: ignore[assignment]

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """The exception of the call, as :meth:`concurrent.futures.Future.exception`."""
        return super().exception(self._collector.collect_for(self, timeout))

    def is_of(self, collector: Collector) -> bool:
        """Whether ``collector`` collects its outcome."""
        return self._collector is collector

    def is_done(self) -> bool:
        """As :meth:`done`, without the lock."""
        return self._state not in (PENDING, RUNNING)

    def is_pending(self) -> bool:
        """Whether the call was not sent."""
        return self._state == PENDING

    def begin(self) -> bool:
        """Marks the call as running, so that it cannot be cancelled any more. False if it was cancelled. May be
        repeated."""
        with self._condition:
            if self._state == PENDING:
                self._state = RUNNING
            elif self._state == CANCELLED:
                self.set_running_or_notify_cancel()
            return self._state == RUNNING

    def settle(self, result: Any, error: BaseException | None) -> bool:
        """Sets the outcome and wakes waiting threads. Returns whether there are callbacks to call. May be repeated."""
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

    def withdraw(self) -> bool:
        """Cancels a running call, whose outcome is dropped. Returns False if it is done. :meth:`call_back` must
        follow."""
        with self._condition:
            if self._state != RUNNING:
                return False
            self._state = CANCELLED_AND_NOTIFIED
            self.sent = None
            for waiter in self._lazy_waiters or ():
                waiter.add_cancelled(self)
            self._condition.notify_all()
        return True

    def call_back(self) -> None:
        """Calls each callback once. May be repeated."""
        callbacks = self._lazy_callbacks
        while callbacks:
            try:
                at_once(map(_call, map(callbacks.pop, (0,)), (self,)))
            except Exception:
                LOGGER.exception("exception calling callback for %r", self)
