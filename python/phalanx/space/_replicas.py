"""A replicated space, as a client sees it: requests go to its leader, and to the next leader after a change."""

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

#: Seconds that the client looks for a new leader before it reports that there is none.
PATIENCE = 30.0
#: Idle time in seconds after which the client checks the connection before its next request. Otherwise it could put a
#: tuple into a connection that has ended unnoticed.
IDLE = 0.05
#: Seconds in which the next leader may hear which tuples arrived over the connection to the last leader. `SAYING` is
#: spent before the next request; `LAST` when the space is closed, because the process may end afterwards.
SAYING, LAST = 2.0, 10.0

#: Number of requests beyond which the ended ones are forgotten.
MANY = 64


class Replicas:
    """An engine over the engine of the leader.

    Reads and takes are repeated at the next leader, because a tuple that was on its way is in the space again. An
    ``out`` and a ``commit`` carry numbers. From these the next leader knows whether they were done. A transaction ends
    with its leader unless it was prepared.

    ``reach`` finds the leader within the given seconds. It also gets the connection to the last leader."""

    def __init__(self, engine: RemoteSpace, reach: Callable[[float, RemoteSpace], RemoteSpace]) -> None:
        self._engine = engine
        self._reach = reach
        #: The numbers of this client's requests. None: the client is not registered, or the space has forgotten it.
        self._numbered: Numbers | None = None
        self._registering = Lock()
        #: Whether the leader is gone or does not lead any more.
        self._lost = False
        #: Connections to lost leaders. The next leader may not have heard yet which of their tuples arrived here.
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
        """The level of the link to the leader, as far as it is known."""
        return self._engine.level

    @property
    def leader(self) -> RemoteSpace:
        """The leader of the last request."""
        return self._engine

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
                    # The tuples on their way here when that leader was lost must be back before the next one is asked.
                    self._unsaid = [lost for lost in self._unsaid if not lost.leave(0)]
                    self._unsaid.append(self._engine)
                    self._engine.leave(min(SAYING, max(0.0, end - now)))
                self._engine = self._reach(max(0.0, end - monotonic()), self._engine)
                self._lost = False
            self._asked = monotonic()
            return self._engine

    def _do(self, again: bool, work: Callable[[RemoteSpace], T], until: float | None = None) -> T:
        """Asks the leader. ``again``: whether to ask the next leader even if the work may have been done."""
        while True:
            engine = self._leading(until)
            try:
                return work(engine)
            except SpaceLostError as error:
                self._lose(engine)
                if not again and not isinstance(error, SpaceMovedError):
                    raise

    def _do_once(self, work: Callable[[RemoteSpace, Numbered], T]) -> T:
        """Asks the leader, and the next one if the outcome did not arrive. The work happens exactly once."""
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
        """As :meth:`Engine.out`."""
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
        """As :meth:`Engine.out_many`."""
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
        """As :meth:`Engine.get`."""
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
        """As :meth:`Engine.get_many`. A new leader does not know where the page before ended, so no next page can come
        from it."""
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
        """As :meth:`Engine.wait`. It also waits while there is no leader."""
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
        """As :meth:`Engine.begin_wait`."""
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
        """As :meth:`Engine.cancel`."""
        begun = self._begun.get(request)
        return begun is not None and begun.cancel()

    def settle(self, request: int, kept: bool, /) -> None:
        """As :meth:`Engine.settle`."""
        begun = self._begun.pop(request, None)
        if begun is not None:
            begun.settle(kept)

    def _forget_ended(self) -> None:
        """Forgets ended requests that are never settled. It does so whenever the number of requests has doubled."""
        if len(self._begun) >= self._many:
            over = [number for number, begun in list(self._begun.items()) if begun.over]
            for number in over:
                self._begun.pop(number, None)
            self._many = 2 * len(self._begun) + MANY

    def count(self, template: Fields, where: Query | None, transaction: int | None, /) -> int:
        """As :meth:`Engine.count`."""
        return self._do(transaction is None, lambda engine: engine.count(template, where, transaction))

    def renew(self, number: int, lease: float | None, /) -> bool:
        """As :meth:`Engine.renew`. Repeating it does no harm, so it is asked again."""
        return self._do(True, lambda engine: engine.renew(number, lease))

    def begin(self, transaction: int, timeout: float, repeatable: bool, /) -> None:
        """As :meth:`Engine.begin`."""
        self._do(True, lambda engine: engine.begin(transaction, timeout, repeatable))

    @property
    def coordinator(self) -> Coordinator:
        """What other spaces need in order to ask this one how a transaction has ended."""
        return self._engine.coordinator

    def decision(self, transaction: int, age: float, /) -> str | None:
        """How a transaction of at most ``age`` seconds has ended, as :meth:`RemoteSpace.decision` says."""
        return self._engine.decision(transaction, age)

    def prepare(self, transaction: int, coordinator: Coordinator | None = None, /) -> None:
        """As :meth:`Engine.prepare`. A prepared transaction outlives the leader."""
        self._do(True, lambda engine: engine.prepare(transaction, coordinator))

    def commit(self, transaction: int, /) -> None:
        """As :meth:`Engine.commit`. Raises TransactionError only if nothing has happened."""
        self._do_once(lambda engine, once: engine.commit(transaction, once))

    def abort(self, transaction: int, /) -> None:
        """As :meth:`Engine.abort`."""
        self._do(True, lambda engine: engine.abort(transaction))

    def watch(
        self, template: Fields, where: Query | None, since: int | None, nudge: Callable[[], object] | None, /
    ) -> int:
        """As :meth:`Engine.watch`. A watch ends with its leader, because the next leader cannot know which events came
        meanwhile."""
        number = next(self._numbers)

        def watch(engine: RemoteSpace) -> None:
            self._watches[number] = engine, engine.watch(template, where, since, nudge)

        self._do(True, watch)
        return number

    def events(self, watch: int, timeout: float | None, /) -> list[tuple[int, Fields]]:
        """As :meth:`Engine.events`. Raises SpaceLostError when another member leads."""
        if watch not in self._watches:
            raise SpaceError("this watch has ended")
        engine, number = self._watches[watch]
        return engine.events(number, timeout)

    def unwatch(self, watch: int, /) -> None:
        """As :meth:`Engine.unwatch`."""
        engine, number = self._watches.pop(watch, (None, 0))
        if engine is not None:
            engine.unwatch(number)

    def change_members(self, add: Sequence[str], remove: Sequence[str], /) -> None:
        """As :meth:`phalanx.Space.change_members`."""
        self._do(False, lambda engine: engine.change_members(list(add), list(remove)))

    def info(self) -> dict[str, Any]:
        """As :meth:`Engine.info`, from the leader."""
        return self._do(True, lambda engine: engine.info())

    def close(self) -> None:
        """As :meth:`Engine.close`. Waits at most ``LAST`` seconds until the space knows which tuples arrived here."""
        if self._closed:
            return
        self._closed = True
        end = monotonic() + LAST
        for engine in (self._engine, *self._unsaid):
            engine.leave(max(0.0, end - monotonic()))
