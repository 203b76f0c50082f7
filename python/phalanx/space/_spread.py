"""One space whose tuples are spread over several members (paper 002, section 2: distributed tuple spaces).

There is no member in the middle: every process decides by itself whom to ask, and several are asked at once. Where a
template leaves open who has a match, experience says who is likely to (Tupleware's success factor), and if that is
clear enough the likeliest one is asked alone first.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import count
from threading import Lock, Thread
from typing import Any

from phalanx.errors import SpaceError, TransactionError
from phalanx.space._asking import Asking
from phalanx.space._engine import Cursor, Engine, Fields, Outcome
from phalanx.space._members import Members
from phalanx.space._merged import MergedEvents
from phalanx.space._placement import Placement
from phalanx.space._select import Selector
from phalanx.space._success import Success
from phalanx.space._where import Query

#: A member's part of a number that names a tuple.
MOST_MEMBERS = 1 << 16
#: A request is given up so many seconds after the members should have ended it.
GRACE = 30.0


class Spread:
    """An engine (:class:`phalanx.space._engine.Engine`) over the engines of several members. An order that is asked for
    holds among the tuples of each member. ``visits``: how many members were asked so far, and for how many requests."""

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
        self._transactions: dict[int, tuple[float, list[int]]] = {}
        self._watches: dict[int, MergedEvents] = {}
        self.visits = 0
        self.requests = 0

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
        """As :meth:`Engine.out`. A key needs a space of one member: two members do not know each other's keys."""
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
        """As :meth:`Engine.out_many`: in a transaction where several members get some."""
        of: dict[int, list[Fields]] = {}
        for fields in tuples:
            of.setdefault(self._placement.member(fields), []).append(fields)
        own = None
        if transaction is None and len(of) > 1:
            own = secrets.randbits(128)
            self.begin(own, GRACE)
        try:
            for at, some in of.items():
                self._members[at].out_many(some, lease, label, priority, self._part(own or transaction, at))
            if own is not None:
                self.commit(own)
        except BaseException:
            if own is not None:
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
        return self._get(template, take, select, where, transaction, self._likely(template))

    def _get(
        self,
        template: Fields,
        take: bool,
        select: tuple[Selector, ...],
        where: Query | None,
        transaction: int | None,
        members: list[int],
    ) -> Fields | None:
        if len(members) == 1 or self._success.is_clear(template, members):
            first, *members = members
            self._visit(1)
            found = self._members[first].get(template, take, select, where, self._part(transaction, first))
            self._success.note(template, [first], None if found is None else first)
            if found is not None:
                return found
        return self._ask(template, take, select, where, transaction, 0.0, members) if members else None

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
            return self._members[at].wait(template, take, select, where, self._part(transaction, at), timeout)
        if self._success.is_clear(template, members):
            found = self._get(template, take, select, where, transaction, members[:1])
            if found is not None:
                return found
        return self._ask(template, take, select, where, transaction, timeout, members)

    def _ask(
        self,
        template: Fields,
        take: bool,
        select: tuple[Selector, ...],
        where: Query | None,
        transaction: int | None,
        timeout: float | None,
        members: list[int],
    ) -> Fields | None:
        """Asks them at once, and waits for the first tuple."""
        asking, keep = Asking(), False
        try:
            self._begin(asking, template, take, select, where, transaction, timeout, members)
            asking.wait(None if timeout is None else timeout + GRACE)
            keep = True
        finally:
            asking.end(take=take, keep=keep)  # also after a Ctrl-C, with which nothing was taken
        return self._outcome(template, members, asking)

    def _begin(
        self,
        asking: Asking,
        template: Fields,
        take: bool,
        select: tuple[Selector, ...],
        where: Query | None,
        transaction: int | None,
        timeout: float | None,
        members: Iterable[int],
    ) -> None:
        def ask(at: int, done: Callable[[Outcome], None]) -> tuple[Engine, int]:
            member = self._members[at]
            return member, member.begin_wait(template, take, select, where, self._part(transaction, at), timeout, done)

        self._visit(asking.begin(members, ask))

    def _outcome(self, template: Fields, members: list[int], asking: Asking) -> Fields | None:
        first = asking.first()
        self._success.note(template, members, None if first is None else first[0])
        if first is not None:
            return first[1]
        for failure in asking.failures():
            raise failure  # nobody who could be asked has one, and those who could not might
        return None

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
        request, finishing, told = next(self._numbers), Lock(), [done]

        def changed() -> None:
            if asking.is_over() and finishing.acquire(blocking=False):
                Thread(target=finish, name="phalanx-space", daemon=True).start()  # it waits for members

        def finish() -> None:
            with self._lock:
                waits = request in self._askings
                if asking.first() is None or not take:
                    self._askings.pop(request, None)  # there is nothing to settle
            if waits:
                asking.end(take=take, keep=None)
                try:
                    outcome: Outcome = self._outcome(template, members, asking)
                except SpaceError as error:
                    outcome = error
                told.pop()(outcome)  # and whoever is told may be forgotten

        asking = Asking(changed)
        self._askings[request] = asking, take
        self._begin(asking, template, take, select, where, transaction, timeout, members)
        if asking.is_over() and finishing.acquire(blocking=False):
            finish()
        return request

    def cancel(self, request: int, /) -> bool:
        """As :meth:`Engine.cancel`."""
        with self._lock:
            asking, take = self._askings.get(request, (None, False))
            if asking is None or asking.first() is not None:
                return False
            del self._askings[request]
        asking.end(take=take, keep=False)
        return True

    def settle(self, request: int, kept: bool, /) -> None:
        """As :meth:`Engine.settle`."""
        with self._lock:
            asking, _ = self._askings.pop(request, (None, False))
        if asking is not None and (first := asking.first()) is not None:
            member, inner = asking.request_of(first[0])
            member.settle(inner, kept)

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
        """As :meth:`Engine.get_many`: one member after the other."""
        at, *place = after or (0,)
        found: list[Fields] = []
        for member in (number for number in sorted(self._placement.members(template)) if number >= at):
            self._visit(1)
            part = self._part(transaction, member)
            inner: Cursor | None = tuple(place) if member == at and place else None
            while len(found) < limit:
                page, inner = self._members[member].get_many(
                    template, take, select, where, part, limit - len(found), inner
                )
                found += page
                if inner is None:
                    break
            else:
                return found, (member, *(inner or ()))
        return found, None

    def count(self, template: Fields, where: Query | None, transaction: int | None, /) -> int:
        """As :meth:`Engine.count`, over all members."""
        members = self._placement.members(template)
        return sum(self._members[at].count(template, where, self._part(transaction, at)) for at in members)

    # Transactions: each member takes part from the first operation on that is done there.

    def begin(self, number: int, timeout: float, /) -> None:
        """As :meth:`Engine.begin`."""
        with self._lock:
            if number in self._transactions:
                raise TransactionError("this transaction was begun before")
            self._transactions[number] = timeout, []

    def _part(self, transaction: int | None, at: int) -> int | None:
        """The transaction, which this member takes part in from now on."""
        if transaction is not None:
            timeout, parts = self._transaction(transaction)
            with self._lock:
                if at not in parts:
                    self._members[at].begin(transaction, timeout)
                    parts.append(at)
        return transaction

    def _transaction(self, number: int) -> tuple[float, list[int]]:
        try:
            return self._transactions[number]
        except KeyError:
            raise TransactionError("the transaction has ended") from None

    def prepare(self, transaction: int, /) -> None:
        """As :meth:`Engine.prepare`: at all members that take part."""
        for at in self._transaction(transaction)[1]:
            self._members[at].prepare(transaction)

    def commit(self, transaction: int, /) -> None:
        """As :meth:`Engine.commit`: prepared everywhere before it is committed anywhere."""
        parts = self._transaction(transaction)[1]
        if len(parts) > 1:
            self.prepare(transaction)
        del self._transactions[transaction]
        for at in parts:
            self._members[at].commit(transaction)

    def abort(self, transaction: int, /) -> None:
        """As :meth:`Engine.abort`."""
        _, parts = self._transactions.pop(transaction, (0.0, []))
        for at in parts:
            with suppress(SpaceError):  # who is gone has aborted its part, or will when its time is over
                self._members[at].abort(transaction)

    # Events

    def watch(
        self, template: Fields, where: Query | None, since: int | None, nudge: Callable[[], object] | None, /
    ) -> int:
        """As :meth:`Engine.watch`. A sequence number holds those of all members."""
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
        """As :meth:`Engine.info`: sums over the members, and what each of them says."""
        infos = {name: self._members[at].info() for at, name in enumerate(self._names)}
        told = next(iter(infos.values()))
        whole = {name: sum(info[name] for info in infos.values()) for name in told if isinstance(told[name], int)}
        partitions = [partition for info in infos.values() for partition in info["partitions"]]
        asked = {"members": infos, "requests": self.requests, "visits": self.visits}
        return {**told, **whole, "partitions": partitions, **asked}

    def close(self) -> None:
        """As :meth:`Engine.close`."""
        for watch in list(self._watches):
            self.unwatch(watch)
        self._members.close()

    def _likely(self, template: Fields) -> list[int]:
        """Who may have a match, the likeliest first."""
        members = list(self._placement.members(template))
        if not members:
            raise SpaceError(f"no tuple of {len(template)} fields can be in this space: its place depends on more")
        return self._success.sorted(template, members)

    def _visit(self, members: int) -> None:
        self.visits += members
        self.requests += 1
