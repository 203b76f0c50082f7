"""One space whose tuples are spread over several members (paper 002, section 2: distributed tuple spaces).

There is no central member. Every process decides by itself which members to ask, and asks several at once. When several
members may have a match, earlier results tell which one is likeliest (Tupleware's success factor). If the difference is
clear enough, the likeliest member is asked alone first.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from threading import Lock, Thread
from typing import Any, NamedTuple

from phalanx._native import RemoteSpace
from phalanx.errors import SpaceError, SpaceLostError, TransactionError
from phalanx.space._asking import Asking
from phalanx.space._commit import Part, commit_parts, promise
from phalanx.space._deadline import deadline, left
from phalanx.space._engine import Coordinator, Cursor, Engine, Fields, Outcome
from phalanx.space._members import Members
from phalanx.space._merged import MergedEvents
from phalanx.space._placement import Placement
from phalanx.space._select import Selector, peek
from phalanx.space._success import Success
from phalanx.space._uninterrupted import Uninterrupted
from phalanx.space._where import Query

#: The number of a tuple is its number at the member times this, plus the index of the member.
MOST_MEMBERS = 1 << 16
#: Seconds after the timeout of a waiting request within which a member should have ended it. A later member is not
#: waited for, and a tuple that it still finds goes back.
GRACE = 1.0
#: Timeout in seconds for the other members when the likeliest one has used up the time. They still report a tuple that
#: is there now.
LEAST = 0.001
#: Timeout in seconds of the transaction that puts tuples at several members.
PUTTING = 30.0
#: Seconds within which a member should have answered a request that does not wait.
ANSWER = 10.0


class Request(NamedTuple):
    """A request to members."""

    template: Fields
    take: bool
    select: tuple[Selector, ...]
    where: Query | None
    transaction: int | None
    timeout: float | None


class Begun(NamedTuple):
    """A transaction: its timeout in seconds, whether its reads are repeatable, and the members that take part."""

    timeout: float
    repeatable: bool
    parts: list[int]


class Spread:
    """An engine (:class:`phalanx.space._engine.Engine`) over the engines of several members.

    A requested order holds only among the tuples of each member. ``requests`` counts the requests so far, ``visits``
    the members that were asked for them."""

    def __init__(self, members: Members, names: Sequence[str], placement: Placement) -> None:
        if not 1 <= len(members) < MOST_MEMBERS:
            raise SpaceError(f"a space has from 1 to {MOST_MEMBERS - 1} members, not {len(members)}")
        self._members = members
        self._names = names
        self._placement = placement
        self._success = Success()
        self._lock = Lock()
        self._numbers = count(1)
        self._askings: dict[int, tuple[Asking, bool]] = {}
        #: The requests that a thread waits for.
        self._waiting: set[Asking] = set()
        self._transactions: dict[int, Begun] = {}
        self._watches: dict[int, MergedEvents] = {}
        self.visits = 0
        self.requests = 0

    @property
    def engines(self) -> Sequence[Engine]:
        """The engines of the members, as they are now."""
        return self._members[:]

    # Writing

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
        """As :meth:`Engine.out`. A key needs a space of one member, because members do not know each other's keys."""
        if key is not None and len(self._members) > 1:
            raise SpaceError(
                "a key is unique in a space of one member; make it a field, and name that in the placement"
            )
        at = self._placement.member(fields)
        number = self._members[at].out(fields, lease, key, label, priority, self._part(transaction, at))
        return number * MOST_MEMBERS + at

    def out_many(
        self,
        tuples: Sequence[Fields],
        lease: float | None,
        label: Any,
        priority: int | None,
        transaction: int | None,
        /,
    ) -> None:
        """As :meth:`Engine.out_many`. If several members get tuples, it uses a transaction."""
        of: dict[int, list[Fields]] = {}
        for fields in tuples:
            of.setdefault(self._placement.member(fields), []).append(fields)

        def put(at: int, inside: int | None) -> None:
            self._members[at].out_many(of[at], lease, label, priority, self._part(inside, at))

        if transaction is not None or len(of) <= 1:
            for at in of:
                put(at, transaction)
            return
        with Uninterrupted() as ctrl_c:
            own = secrets.randbits(128)
            try:
                self.begin(own, PUTTING, False)
                for at in of:
                    ctrl_c.let(put, at, own)
                ctrl_c.check()
                self.commit(own)
            except BaseException:
                self.abort(own)
                raise

    def renew(self, number: int, lease: float | None, /) -> bool:
        """As :meth:`Engine.renew`."""
        inner, at = divmod(number, MOST_MEMBERS)
        return at < len(self._members) and self._members[at].renew(inner, lease)

    # Reading and taking

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
        members = self._likely(template)
        request = Request(template, take, select, where, transaction, 0.0)
        if len(members) == 1:
            self._visit(1)
            return self._get_from(members[0], request, ANSWER)
        with Uninterrupted() as ctrl_c:
            return self._get(request, members, ctrl_c)

    def _get(self, request: Request, members: list[int], ctrl_c: Uninterrupted) -> Fields | None:
        """Asks one member alone first if it is clearly the likeliest, then the others. If that member cannot be asked,
        it asks all."""
        others = members
        bound = request.take and request.transaction is not None
        if self._success.is_clear(request.template, members):
            first, *others = members
            try:
                found = self._get_at(first, request, ANSWER if bound else GRACE)
            except SpaceError:
                others = members
            else:
                if found is not None:
                    return found
        if bound:
            return self._take_in_turn(request, others)
        found_at = self._ask(request, others, ctrl_c)
        return found_at and found_at[1]

    def _get_at(self, at: int, request: Request, patience: float = ANSWER) -> Fields | None:
        self._visit(1)
        found = self._get_from(at, request, patience)
        self._success.note(request.template, [at], None if found is None else at)
        return found

    def _get_from(self, at: int, request: Request, patience: float) -> Fields | None:
        """Raises SpaceLostError if the member has not answered after ``patience`` seconds."""
        template, take, select, where, transaction, _ = request
        member, inside = self._members[at], self._part(transaction, at, patience)
        return member.get(template, take, select, where, inside, *_within(member, patience))

    def _take_in_turn(self, request: Request, members: list[int]) -> Fields | None:
        """Asks one member after the other. A tuple that a transaction has taken comes back only at the end of that
        transaction, so no second member may take one too."""
        patience = min(ANSWER, request.timeout + GRACE) if request.timeout else ANSWER
        away, failure, until = 0, None, deadline(patience)
        for at in members:
            try:
                found = self._get_at(at, request, patience)
            except SpaceError as error:
                away, failure = at, error
            else:
                if found is not None:
                    return found
        if failure is None:
            return None
        if left(until) == 0:
            raise failure
        return self._get_at(away, request, patience)  # the member may be reachable again

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
        """As :meth:`Engine.wait`."""
        members = self._likely(template)
        if len(members) == 1:
            self._visit(1)
            (at,) = members
            if timeout == 0:
                return self._get_from(at, Request(template, take, select, where, transaction, timeout), ANSWER)
            patience = ANSWER if timeout is None else min(ANSWER, timeout + GRACE)
            return self._members[at].wait(template, take, select, where, self._part(transaction, at, patience), timeout)
        with Uninterrupted() as ctrl_c:
            return self._wait(Request(template, take, select, where, transaction, timeout), members, ctrl_c)

    def _wait(self, request: Request, members: list[int], ctrl_c: Uninterrupted) -> Fields | None:
        if request.take and request.transaction is not None:
            return self._wait_in_turn(request, members, ctrl_c)
        until = deadline(request.timeout)
        if self._success.is_clear(request.template, members):
            with suppress(SpaceError):
                found = self._get_at(members[0], request, GRACE)
                if found is not None:
                    return found
        rest = left(until)
        if rest == 0 and request.timeout:
            rest = LEAST
        found_at = self._ask(request._replace(timeout=rest), members, ctrl_c)
        return found_at and found_at[1]

    def _wait_in_turn(self, request: Request, members: list[int], ctrl_c: Uninterrupted) -> Fields | None:
        """Waits until a member has a tuple, and takes it there. If another client was faster, waits again."""
        until = deadline(request.timeout)
        while True:
            found = self._take_in_turn(request, members)
            rest = left(until)
            if found is not None or rest == 0:
                return found
            look = request._replace(take=False, select=(*request.select, peek), timeout=rest)
            seen = self._ask(look, members, ctrl_c)
            if seen is None:
                return None
            members = [seen[0], *(at for at in members if at != seen[0])]

    def _ask(self, request: Request, members: list[int], ctrl_c: Uninterrupted) -> tuple[int, Fields] | None:
        """Asks the members at once and waits for the first tuple. Returns the index of its member and the tuple.

        A Ctrl-C during the wait takes nothing. A later one is raised after the tuple was returned."""
        asking, keep = Asking(), False
        self._waiting.add(asking)
        try:
            self._begin(asking, request, members)
            grace = GRACE if request.timeout else ANSWER
            ctrl_c.let(asking.wait, None if request.timeout is None else request.timeout + grace)
            ctrl_c.check()
            keep = True
        finally:
            self._waiting.discard(asking)
            silent = [] if asking.is_over() else asking.silent()
            asking.end(take=request.take, keep=keep)
        found = self._outcome(request.template, members, asking)
        if found is None and silent and not request.timeout:
            names = ", ".join(self._names[at] for at in silent)
            raise SpaceLostError(f"nobody else has a match, and no answer came within {ANSWER:.0f} s from {names}")
        return found

    def _begin(self, asking: Asking, request: Request, members: Iterable[int]) -> None:
        template, take, select, where, transaction, timeout = request

        def ask(at: int, done: Callable[[Outcome], None]) -> tuple[Engine, int]:
            member, inside = self._members[at], self._part(transaction, at, ANSWER)
            bound = _within(member, ANSWER) if timeout == 0 else ()
            return member, member.begin_wait(template, take, select, where, inside, timeout, done, *bound)

        self._visit(asking.begin(members, ask))

    def _outcome(self, template: Fields, members: list[int], asking: Asking) -> tuple[int, Fields] | None:
        first = asking.first()
        self._success.note(template, members, None if first is None else first[0])
        if first is None:
            # No reachable member has a match, but a member that could not be asked may have one.
            asking.raise_failure()
        return first

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
        members = self._likely(template)
        if take and transaction is not None and len(members) > 1:
            raise SpaceError("a take that does not wait, in a transaction, goes to one member: name the placing fields")
        request, finishing, told = next(self._numbers), Lock(), [done]

        def changed() -> None:
            if asking.is_over() and finishing.acquire(blocking=False):
                Thread(target=finish, name="phalanx-space", daemon=True).start()  # a thread, as it waits for members

        def finish() -> None:
            with self._lock:
                waits = request in self._askings
                if asking.first() is None or not take:
                    self._askings.pop(request, None)  # there is nothing to settle
            if waits:
                asking.end(take=take, keep=None)
                try:
                    found = self._outcome(template, members, asking)
                    outcome: Outcome = found and found[1]
                except SpaceError as error:
                    outcome = error.with_traceback(None)  # the frames of its traceback refer to the error
                told.pop()(outcome)  # pop() drops the reference to the callback

        with Uninterrupted():
            asking = Asking(changed)
            self._askings[request] = asking, take
            self._begin(asking, Request(template, take, select, where, transaction, timeout), members)
            if asking.is_over() and finishing.acquire(blocking=False):
                finish()
            return request

    def cancel(self, request: int, /) -> bool:
        """As :meth:`Engine.cancel`."""
        with Uninterrupted():
            with self._lock:
                asking, take = self._askings.get(request, (None, False))
                if asking is None or asking.first() is not None:
                    return False
                del self._askings[request]
            asking.end(take=take, keep=False)
            return True

    def settle(self, request: int, kept: bool, /) -> None:
        """As :meth:`Engine.settle`."""
        with Uninterrupted():
            with self._lock:
                asking, take = self._askings.pop(request, (None, False))
            if asking is not None:
                asking.end(take=take, keep=kept)

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
        """As :meth:`Engine.get_many`, one member after the other."""
        at, away, *place = after or (0, 0)
        if at == MOST_MEMBERS:
            raise SpaceError(f"{self._names[away - 1]} was away; what is at the other members was told")
        found: list[Fields] = []
        for member in (number for number in sorted(self._placement.members(template)) if number >= at):
            inner: Cursor | None = tuple(place) if member == at and place else None
            while len(found) < limit:
                self._visit(1)
                rest = limit - len(found)
                try:
                    engine, inside = self._members[member], self._part(transaction, member, ANSWER)
                    bound = _within(engine, ANSWER)
                    page, inner = engine.get_many(template, take, select, where, inside, rest, inner, *bound)
                except SpaceError:
                    away = member + 1
                    break
                found += page
                if inner is None:
                    break
            else:
                return found, (member, away, *(inner or ()))
        return found, (MOST_MEMBERS, away) if away else None

    def count(self, template: Fields, where: Query | None, transaction: int | None, /) -> int:
        """As :meth:`Engine.count`, over all members."""
        return sum(self._count_at(at, template, where, transaction) for at in self._placement.members(template))

    def _count_at(self, at: int, template: Fields, where: Query | None, transaction: int | None) -> int:
        member, inside = self._members[at], self._part(transaction, at, ANSWER)
        return member.count(template, where, inside, *_within(member, ANSWER))

    # Transactions: a member takes part from the first operation on that the transaction does there.

    def begin(self, number: int, timeout: float, repeatable: bool, /) -> None:
        """As :meth:`Engine.begin`."""
        with self._lock:
            if number in self._transactions:
                raise TransactionError("this transaction was begun before")
            self._transactions[number] = Begun(timeout, repeatable, [])

    def _part(self, transaction: int | None, at: int, patience: float | None = None) -> int | None:
        """Lets the member take part in the transaction from now on, and returns the transaction.

        Raises SpaceLostError if the member has not answered after ``patience`` seconds."""
        if transaction is not None:
            timeout, repeatable, parts = self._transaction(transaction)
            with Uninterrupted(), self._lock:
                if at not in parts:
                    member = self._members[at]
                    member.begin(transaction, timeout, repeatable, *_within(member, patience))
                    parts.append(at)
        return transaction

    def _transaction(self, number: int) -> Begun:
        try:
            return self._transactions[number]
        except KeyError:
            raise TransactionError("the transaction has ended") from None

    def parts(self, transaction: int) -> list[Part]:
        """The members that take part."""
        return [partial(self._members.__getitem__, at) for at in self._transaction(transaction).parts]

    def prepare(self, transaction: int, coordinator: Coordinator | None = None, /) -> None:
        """As :meth:`Engine.prepare`, at all members that take part."""
        for part in self.parts(transaction):
            part().prepare(transaction, coordinator)

    def commit(self, transaction: int, /) -> None:
        """As :meth:`Engine.commit`. All members but one promise before any member commits."""
        with Uninterrupted() as ctrl_c:
            promises = promise(transaction, self.parts(transaction))
            ctrl_c.check()
            self.forget(transaction)
            commit_parts(transaction, promises)

    def forget(self, transaction: int) -> None:
        """Forgets the transaction here; its members end it without this engine."""
        self._transactions.pop(transaction, None)

    def abort(self, transaction: int, /) -> None:
        """As :meth:`Engine.abort`."""
        with Uninterrupted():
            begun = self._transactions.pop(transaction, None)
            for at in begun.parts if begun else ():
                with suppress(SpaceError):  # a lost member has aborted its part, or will at the timeout
                    self._members[at].abort(transaction)

    # Events

    def watch(
        self, template: Fields, where: Query | None, since: int | None, nudge: Callable[[], object] | None, /
    ) -> int:
        """As :meth:`Engine.watch`. A sequence number contains the sequence numbers of all members."""
        events = MergedEvents(self._members, template, where, since, nudge)
        number = next(self._numbers)
        self._watches[number] = events
        return number

    def events(self, watch: int, timeout: float | None, /) -> list[tuple[int, Fields]]:
        """As :meth:`Engine.events`."""
        events = self._watches.get(watch)
        if events is None:
            raise SpaceError("the watch has ended")
        return events.next(timeout)

    def unwatch(self, watch: int, /) -> None:
        """As :meth:`Engine.unwatch`."""
        if events := self._watches.pop(watch, None):
            events.close()

    # The whole

    def info(self) -> dict[str, Any]:
        """As :meth:`Engine.info`: sums over the members, and the information of each member."""
        infos = {name: self._members[at].info() for at, name in enumerate(self._names)}
        told = next(iter(infos.values()))
        whole = {name: sum(info[name] for info in infos.values()) for name in told if isinstance(told[name], int)}
        partitions = [partition for info in infos.values() for partition in info["partitions"]]
        asked = {"members": infos, "requests": self.requests, "visits": self.visits}
        return {**told, **whole, "partitions": partitions, **asked}

    def close(self) -> None:
        """As :meth:`Engine.close`."""
        closed = SpaceError("this space is closed")
        for watch in list(self._watches):
            self.unwatch(watch)
        for asking in [*self._waiting, *(asking for asking, _ in list(self._askings.values()))]:
            asking.give_up(closed)
        self._members.close()

    def _likely(self, template: Fields) -> list[int]:
        """The members that may have a match, the likeliest first."""
        members = list(self._placement.members(template))
        if not members:
            raise SpaceError(f"no tuple of {len(template)} fields can be in this space: its place depends on more")
        return self._success.sorted(template, members)

    def _visit(self, members: int) -> None:
        self.visits += members
        self.requests += 1


def _within(member: Engine, seconds: float | None) -> tuple[float, ...]:
    """The last argument of a request that is to be answered within so many seconds. Only connections to servers take
    it: other engines are in this process, or find another server by themselves."""
    return (seconds,) if isinstance(member, RemoteSpace) and seconds is not None else ()


def parts_of(engine: Engine, transaction: int) -> list[Part]:
    """The spaces that take part in a transaction over an engine. Each of them ends the transaction separately."""
    if isinstance(engine, Spread):
        return engine.parts(transaction)
    return [lambda: engine]


def forget(engine: Engine, transaction: int) -> None:
    """Lets the engine forget the transaction; its parts end it without the engine."""
    if isinstance(engine, Spread):
        engine.forget(transaction)
