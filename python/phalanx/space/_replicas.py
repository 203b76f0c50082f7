"""A space that several members keep together: whoever leads it is asked, and another one when it leads no more."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from threading import Lock
from time import monotonic
from typing import Any, TypeVar

from phalanx._native import RemoteSpace
from phalanx.errors import SpaceError, SpaceForgottenError, SpaceLostError, SpaceMovedError
from phalanx.space._begun import Begun
from phalanx.space._deadline import deadline, is_over, left
from phalanx.space._engine import Coordinator, Cursor, Fields, Outcome
from phalanx.space._once import Numbered, Numbers
from phalanx.space._select import Selector
from phalanx.space._where import Query

T = TypeVar("T")

#: Seconds that a new leader is looked for, before it is said that there is none.
PATIENCE = 30.0
#: Seconds without a question after which it is looked whether the connection is still there, before the next one: then
#: a tuple is not put into a connection whose end nobody has seen.
IDLE = 0.05
#: Seconds for the next leader to hear what arrived over the connection to the last one, before it is asked something
#: else; and when the space is closed, after which this process may end.
SAYING, LAST = 2.0, 10.0

#: Requests beyond which those that have ended are forgotten.
MANY = 64


class Replicas:
    """An engine over the one that leads. What only looks, and what takes, is asked again at the next leader: a tuple
    that was on its way is in the space again. An ``out`` and a ``commit`` have numbers, under which the next leader
    knows whether they were done. A transaction ends with the leader, unless it was prepared.

    ``reach`` finds the leader within so many seconds, and is given the connection to the last one."""

    def __init__(self, engine: RemoteSpace, reach: Callable[[float, RemoteSpace], RemoteSpace]) -> None:
        self._engine = engine
        self._reach = reach
        #: None: no leader knows this client, or it was forgotten.
        self._numbered: Numbers | None = None
        self._registering = Lock()
        #: It was found to be gone, or not to lead any more.
        self._lost = False
        #: Connections to leaders that were lost, where the next one may not have heard yet what arrived.
        self._unsaid: list[RemoteSpace] = []
        self._asked = monotonic()
        self._lock = Lock()
        self._closed = False
        self._numbers = itertools.count(1)
        self._begun: dict[int, Begun] = {}
        self._many = MANY
        self._watches: dict[int, tuple[RemoteSpace, int]] = {}

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
            if self._lost or self._engine.ended:
                self._lost = True
                end = now + PATIENCE if until is None else min(now + PATIENCE, until)
                if self._engine not in self._unsaid:
                    # What was on its way here when that leader was lost is there again when the next one is asked.
                    self._unsaid = [lost for lost in self._unsaid if not lost.leave(0)]
                    self._unsaid.append(self._engine)
                    self._engine.leave(min(SAYING, max(0.0, end - now)))
                self._engine = self._reach(max(0.0, end - monotonic()), self._engine)
                self._lost = False
            self._asked = monotonic()
            return self._engine

    def _do(self, again: bool, work: Callable[[RemoteSpace], T], until: float | None = None) -> T:
        """Asks the leader. ``again``: also where it may have been done."""
        while True:
            engine = self._leading(until)
            try:
                return work(engine)
            except SpaceLostError as error:
                self._lose(engine)
                if not again and not isinstance(error, SpaceMovedError):
                    raise

    def _do_once(self, work: Callable[[RemoteSpace, Numbered], T]) -> T:
        """Asks the leader, and the next one where the outcome was not heard: it happens once."""
        while True:
            numbers = self._registered()
            lost = False
            with numbers.number() as number:

                def ask(engine: RemoteSpace, numbers: Numbers = numbers, number: int = number) -> T:
                    nonlocal lost
                    try:
                        return work(engine, numbers.told(number))
                    except SpaceLostError as error:
                        lost = lost or not isinstance(error, SpaceMovedError)
                        raise

                try:
                    return self._do(True, ask)
                except SpaceForgottenError as error:
                    self._forget(numbers)
                    if lost:
                        raise SpaceLostError(f"whether it was done is not known: {error}") from error

    def _registered(self) -> Numbers:
        with self._registering:
            if self._numbered is None:
                numbers = Numbers()
                self._do(True, lambda engine: engine.register(numbers.client))
                self._numbered = numbers
            return self._numbered

    def _forget(self, numbers: Numbers) -> None:
        with self._registering:
            if self._numbered is numbers:
                self._numbered = None

    def _lose(self, engine: RemoteSpace) -> None:
        with self._lock:
            self._lost = self._lost or engine is self._engine

    def out(
        self,
        fields: Fields,
        lease: float | None,
        key: Any,
        label: Any,
        priority: int | None,
        transaction: int | None,
        /,
    ) -> int:
        """Puts a tuple."""
        if transaction is not None:
            return self._do(False, lambda engine: engine.out(fields, lease, key, label, priority, transaction))
        return self._do_once(lambda engine, once: engine.out(fields, lease, key, label, priority, None, once))

    def out_many(
        self,
        tuples: Sequence[Fields],
        lease: float | None,
        label: Any,
        priority: int | None,
        transaction: int | None,
        /,
    ) -> None:
        """Puts many tuples."""
        every = list(tuples)
        if transaction is not None:
            self._do(False, lambda engine: engine.out_many(every, lease, label, priority, transaction))
        else:
            self._do_once(lambda engine, once: engine.out_many(every, lease, label, priority, None, once))

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
            return engine.get_many(template, take, select, where, transaction, limit, after)

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
        until = deadline(timeout)

        def ask(engine: RemoteSpace) -> Fields | None:
            return engine.wait(template, take, select, where, transaction, left(until))

        try:
            return self._do(transaction is None, ask, until)
        except SpaceLostError:
            raise
        except SpaceError:
            if is_over(until):
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
        until = deadline(timeout)
        request = (template, take, select, where, transaction)
        begun = Begun(self._leading, request, until, done)
        number = next(self._numbers)
        self._begun[number] = begun
        try:
            self._do(True, begun.begin)
        except BaseException:
            del self._begun[number]
            raise
        self._forget_ended()
        return number

    def cancel(self, request: int, /) -> bool:
        """Ends a request."""
        begun = self._begun.get(request)
        return begun is not None and begun.cancel()

    def settle(self, request: int, kept: bool, /) -> None:
        """Whether what was taken is ours."""
        begun = self._begun.pop(request, None)
        if begun is not None:
            begun.settle(kept)

    def _forget_ended(self) -> None:
        """Those that nobody settles, now and then."""
        if len(self._begun) >= self._many:
            over = [number for number, begun in list(self._begun.items()) if begun.over]
            for number in over:
                self._begun.pop(number, None)
            self._many = 2 * len(self._begun) + MANY

    def count(self, template: Fields, where: Query | None, transaction: int | None, /) -> int:
        """How many match."""
        return self._do(transaction is None, lambda engine: engine.count(template, where, transaction))

    def renew(self, number: int, lease: float | None, /) -> bool:
        """Twice is as once."""
        return self._do(True, lambda engine: engine.renew(number, lease))

    def begin(self, transaction: int, timeout: float, repeatable: bool, /) -> None:
        """Begins a transaction."""
        self._do(True, lambda engine: engine.begin(transaction, timeout, repeatable))

    @property
    def coordinator(self) -> Coordinator:
        """What other spaces need to know to ask it how a transaction has ended."""
        return self._engine.coordinator

    def decision(self, transaction: int, age: float, /) -> str | None:
        """How a transaction of at most so many seconds has ended, as :meth:`RemoteSpace.decision` says."""
        return self._engine.decision(transaction, age)

    def prepare(self, transaction: int, coordinator: Coordinator | None = None, /) -> None:
        """From here on it outlasts the leader."""
        self._do(True, lambda engine: engine.prepare(transaction, coordinator))

    def commit(self, transaction: int, /) -> None:
        """Raises TransactionError only where nothing has happened."""
        self._do_once(lambda engine, once: engine.commit(transaction, once))

    def abort(self, transaction: int, /) -> None:
        """As if nothing had been done."""
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

    def change_members(self, add: Sequence[str], remove: Sequence[str], /) -> None:
        """Members come and go."""
        self._do(False, lambda engine: engine.change_members(list(add), list(remove)))

    def info(self) -> dict[str, Any]:
        """As the leader counts."""
        return self._do(True, lambda engine: engine.info())

    def close(self) -> None:
        """Lets go of it."""
        if self._closed:
            return
        self._closed = True
        end = monotonic() + LAST
        for engine in (self._engine, *self._unsaid):
            engine.leave(max(0.0, end - monotonic()))
