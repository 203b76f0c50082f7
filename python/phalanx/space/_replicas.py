"""A space that several members keep together: whoever leads it is asked, and another one when it leads no more."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from threading import Lock, Thread
from time import monotonic
from typing import Any, TypeVar

from phalanx._native import RemoteSpace
from phalanx.errors import SpaceError, SpaceLostError, SpaceMovedError, TransactionError
from phalanx.space._engine import Cursor, Fields, Outcome
from phalanx.space._select import Selector
from phalanx.space._where import Query

T = TypeVar("T")

#: Seconds that a new leader is looked for, before it is said that there is none.
PATIENCE = 30.0
#: Seconds without a question after which it is looked whether the connection is still there, before the next one: then a
#: tuple is not put into a connection whose end nobody has seen.
IDLE = 0.05


class _Begun:
    """A request that was begun, and where it is now."""

    def __init__(self) -> None:
        self.lock = Lock()
        #: None while a leader is looked for.
        self.at: tuple[RemoteSpace, int] | None = None
        self.cancelled = False
        self.settled: bool | None = None


class Replicas:
    """An engine over the one that leads. What only looks, and what takes, is asked again at the next leader: a tuple whose
    way back was lost is in the space again. Whether an ``out`` was done that was on its way when the leader died cannot
    be known, and is not guessed: SpaceLostError. A transaction ends with the leader, unless it was prepared."""

    def __init__(self, engine: RemoteSpace, reach: Callable[[float], RemoteSpace]) -> None:
        self._engine = engine
        self._reach = reach
        self._lost: RemoteSpace | None = None
        self._asked = monotonic()
        self._lock = Lock()
        self._closed = False
        self._numbers = itertools.count(1)
        self._begun: dict[int, _Begun] = {}
        self._watches: dict[int, tuple[RemoteSpace, int]] = {}
        self._prepared: set[int] = set()

    @property
    def level(self) -> tuple[str, str, bool]:
        """Of the link to the member that leads, as far as is known."""
        return self._engine.level

    def _leading(self, until: float | None = None) -> RemoteSpace:
        with self._lock:
            if self._closed:
                raise SpaceError("this space is closed")
            now = monotonic()
            if now - self._asked > IDLE:
                self._engine.look()
            if self._engine is self._lost or self._engine.ended:
                self._engine.close()
                self._lost = self._engine
                patience = PATIENCE if until is None else min(PATIENCE, max(0.0, until - now))
                self._engine = self._reach(patience)
            self._asked = monotonic()
            return self._engine

    def _do(self, again: bool, work: Callable[[RemoteSpace], T], until: float | None = None) -> T:
        """Asks the leader. ``again``: also where it may have been done."""
        while True:
            engine = self._leading(until)
            try:
                return work(engine)
            except SpaceLostError as error:
                self._lost = engine
                if not again and not isinstance(error, SpaceMovedError):
                    raise

    def out(
        self, fields: Fields, lease: float | None, key: Any, label: Any, priority: int | None, transaction: int | None, /
    ) -> int:
        """Puts a tuple."""
        return self._do(False, lambda engine: engine.out(fields, lease, key, label, priority, transaction))

    def out_many(
        self, tuples: Sequence[Fields], lease: float | None, label: Any, priority: int | None, transaction: int | None, /
    ) -> None:
        """Puts many tuples."""
        every = list(tuples)
        self._do(False, lambda engine: engine.out_many(every, lease, label, priority, transaction))

    def get(
        self,
        template: Fields,
        take: bool,
        select: tuple[Selector, ...],
        where: Query | None,
        transaction: int | None,
        /,
    ) -> Fields | None:
        """What is there now."""
        again = transaction is None
        return self._do(again, lambda engine: engine.get(template, take, select, where, transaction))

    def get_many(
        self,
        template: Fields,
        take: bool,
        select: tuple[Selector, ...],
        where: Query | None,
        transaction: int | None,
        limit: int,
        after: Cursor | None,
        /,
    ) -> tuple[list[Fields], Cursor | None]:
        """A page. Another leader does not know where the page before ended: what follows then is not known."""
        again = transaction is None and after is None
        first = self._engine

        def page(engine: RemoteSpace) -> tuple[list[Fields], Cursor | None]:
            if after is not None and engine is not first:
                raise SpaceLostError("another member leads the space now: begin again with the first page")
            return engine.get_many(template, take, select, where, transaction, limit, after)  # type: ignore[arg-type]

        return self._do(again, page)

    def wait(
        self,
        template: Fields,
        take: bool,
        select: tuple[Selector, ...],
        where: Query | None,
        transaction: int | None,
        timeout: float | None,
        /,
    ) -> Fields | None:
        """Waits for a tuple, also while there is no leader."""
        until = None if timeout is None else monotonic() + timeout

        def ask(engine: RemoteSpace) -> Fields | None:
            return engine.wait(template, take, select, where, transaction, _left(until))

        try:
            return self._do(transaction is None, ask, until)
        except SpaceLostError:
            raise
        except SpaceError:
            if until is not None and monotonic() >= until:
                return None
            raise

    def begin_wait(
        self,
        template: Fields,
        take: bool,
        select: tuple[Selector, ...],
        where: Query | None,
        transaction: int | None,
        timeout: float | None,
        done: Callable[[Outcome], object],
        /,
    ) -> int:
        """The same, and goes on."""
        until = None if timeout is None else monotonic() + timeout
        number, begun = next(self._numbers), _Begun()
        self._begun[number] = begun

        def ended(outcome: Outcome) -> None:
            with begun.lock:
                lost = isinstance(outcome, SpaceLostError) and transaction is None
                again = lost and not begun.cancelled and not self._closed
                if again:
                    begun.at = None
            if again:
                Thread(target=look, name="phalanx-space", daemon=True).start()
            else:
                if not take or not isinstance(outcome, tuple):
                    self._begun.pop(number, None)
                done(outcome)

        def look() -> None:
            try:
                begin(self._leading(until))
            except SpaceMovedError:
                look()
            except BaseException as error:
                over = until is not None and monotonic() >= until
                self._begun.pop(number, None)
                done(None if over else error)

        def begin(engine: RemoteSpace) -> None:
            if begun.cancelled:
                return
            request = engine.begin_wait(template, take, select, where, transaction, _left(until), ended)
            with begun.lock:
                begun.at = engine, request
                settled, cancelled = begun.settled, begun.cancelled
            if settled is not None:
                engine.settle(request, settled)
            elif cancelled:
                engine.cancel(request)

        def ask(engine: RemoteSpace) -> None:
            self._asked = monotonic()
            begin(engine)

        self._do(True, ask)
        return number

    def cancel(self, request: int, /) -> bool:
        """Ends a request."""
        begun = self._begun.get(request)
        if begun is None:
            return False
        with begun.lock:
            begun.cancelled = True
            at = begun.at
        cancelled = at is None or at[0].cancel(at[1])
        if cancelled:
            self._begun.pop(request, None)
        return cancelled

    def settle(self, request: int, kept: bool, /) -> None:
        """Whether what was taken is ours."""
        begun = self._begun.pop(request, None)
        if begun is None:
            return
        with begun.lock:
            begun.settled, at = kept, begun.at
        if at is not None:
            at[0].settle(at[1], kept)

    def count(self, template: Fields, where: Query | None, transaction: int | None, /) -> int:
        """How many match."""
        return self._do(transaction is None, lambda engine: engine.count(template, where, transaction))

    def renew(self, number: int, lease: float | None, /) -> bool:
        """Twice is as once."""
        return self._do(True, lambda engine: engine.renew(number, lease))

    def begin(self, transaction: int, timeout: float, /) -> None:
        """Begins a transaction."""
        self._do(True, lambda engine: engine.begin(transaction, timeout))

    def prepare(self, transaction: int, /) -> None:
        """From here on it outlasts the leader."""
        self._do(False, lambda engine: engine.prepare(transaction))
        self._prepared.add(transaction)

    def commit(self, transaction: int, /) -> None:
        """Of one that was prepared and is not there any more, an earlier try has ended it."""
        prepared, tried = transaction in self._prepared, False

        def commit(engine: RemoteSpace) -> None:
            nonlocal tried
            before, tried = tried, True
            try:
                engine.commit(transaction)
            except TransactionError:
                if not (prepared and before):
                    raise

        self._do(prepared, commit)
        self._prepared.discard(transaction)

    def abort(self, transaction: int, /) -> None:
        """As if nothing had been done."""
        self._prepared.discard(transaction)
        self._do(True, lambda engine: engine.abort(transaction))

    def watch(
        self, template: Fields, where: Query | None, since: int | None, nudge: Callable[[], object] | None, /
    ) -> int:
        """Collects events, until another member leads: which ones came meanwhile it cannot know."""
        number = next(self._numbers)

        def watch(engine: RemoteSpace) -> None:
            self._watches[number] = engine, engine.watch(template, where, since, nudge)

        self._do(True, watch)
        return number

    def events(self, watch: int, timeout: float | None, /) -> list[tuple[int, Fields]]:
        """What has come. Raises SpaceLostError when another member leads."""
        if watch not in self._watches:
            raise SpaceError("this watch has ended")
        engine, number = self._watches[watch]
        return engine.events(number, timeout)

    def unwatch(self, watch: int, /) -> None:
        """Ends a watch."""
        engine, number = self._watches.pop(watch, (None, 0))
        if engine is not None:
            engine.unwatch(number)

    def info(self) -> dict[str, Any]:
        """As the leader counts."""
        return self._do(True, lambda engine: engine.info())

    def close(self) -> None:
        """Lets go of it."""
        self._closed = True
        self._engine.close()


def _left(until: float | None) -> float | None:
    return None if until is None else max(0.0, until - monotonic())
