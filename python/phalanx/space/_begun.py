"""A request to a replicated space that continues at the next leader when its leader is lost."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, Thread

from phalanx._native import RemoteSpace
from phalanx.errors import SpaceLostError, SpaceMovedError
from phalanx.space._deadline import is_over, left
from phalanx.space._engine import Fields, Outcome
from phalanx.space._select import Selector
from phalanx.space._where import Query

#: The template, whether it takes, the selectors, the query and the transaction.
Request = tuple[Fields, bool, tuple[Selector, ...], Query | None, int | None]


class Begun:
    """One request. ``leading`` finds the leader, ``until`` is its deadline, and ``done`` gets the outcome once."""

    def __init__(
        self,
        leading: Callable[[float | None], RemoteSpace],
        request: Request,
        until: float | None,
        done: Callable[[Outcome], object],
    ) -> None:
        self._leading = leading
        self._request = request
        self._until = until
        self._done = done
        self._lock = Lock()
        #: The engine at which the request was begun, and its number there; None while a leader is searched.
        self._at: tuple[RemoteSpace, int] | None = None
        self._looking = True
        self._cancelled = False
        self._settled: bool | None = None
        #: Whether the request has ended and needs no settling.
        self.over = False

    def begin(self, engine: RemoteSpace) -> None:
        """Begins the request at this leader."""
        if not self._starts():
            return
        try:
            number = engine.begin_wait(*self._request, left(self._until), self._on_end)
        except BaseException:
            with self._lock:
                self._looking = True
            raise
        with self._lock:
            if self._looking:
                return  # the request has already ended at this leader, and another thread begins it at the next
            self._at = engine, number
            settled, cancelled = self._settled, self._cancelled
        if settled is not None:
            engine.settle(number, settled)
        elif cancelled:
            engine.cancel(number)

    def _starts(self) -> bool:
        with self._lock:
            self._at = None
            self._looking = self._looking and self._cancelled
            return not self._cancelled

    def cancel(self) -> bool:
        """Ends the request. True if it has taken nothing and ``done`` will not be called."""
        with self._lock:
            looking, at = self._looking, self._at
            self._cancelled = True
        cancelled = looking or (at is not None and at[0].cancel(at[1]))
        self.over = self.over or cancelled
        return cancelled

    def settle(self, kept: bool) -> None:
        """Settles the taken tuple: ``kept``, the caller keeps it; else it goes back into the space."""
        with self._lock:
            self._settled, at = kept, self._at
        if at is not None:
            at[0].settle(at[1], kept)

    def _on_end(self, outcome: Outcome) -> None:
        with self._lock:
            lost = isinstance(outcome, SpaceLostError) and self._request[4] is None
            again = lost and not self._cancelled
            self._looking = again
        if again:
            Thread(target=self._look, name="phalanx-space", daemon=True).start()
        else:
            self.over = not (self._request[1] and isinstance(outcome, tuple))
            self._done(outcome)

    def _look(self) -> None:
        while not self._cancelled:
            try:
                self.begin(self._leading(self._until))
            except SpaceMovedError:
                continue
            except BaseException as error:
                self._fail(error)
            break

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            cancelled, self._cancelled, self._looking = self._cancelled, True, False
        if not cancelled:
            self.over = True
            self._done(None if is_over(self._until) else error)
