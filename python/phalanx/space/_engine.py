"""What stands behind a :class:`phalanx.Space`: in this process, in another one, or in a store that is not ours.

``_native.LocalSpace`` (the engine in this process), ``_native.RemoteSpace`` (a client) and ``_redis.RedisEngine`` have
these methods, with the same meaning; the class :class:`phalanx.Space` does everything else in terms of them. All of
them may be called by many threads at once, and hold no lock of the interpreter while they wait. Arguments come by
position, in this order, and are checked by the engine.

Words used below. *fields*: the values of a tuple. *template*: values (actuals), types (formals), :data:`phalanx.ANY`,
queries (:class:`phalanx.space.Query`) and nested tuples of these. *select*: selectors, at
most one of which is an order. *where*: a query over the whole tuple, or None. *transaction*: the number of one that was
begun with :meth:`Engine.begin`, or None. Times are in seconds; None is no limit.

Errors: SpaceError where the space refuses or is not there, SpaceFullError where a limit is reached, TransactionError
where a transaction has ended, TypeError for a value that the encoding does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from phalanx.space._select import Selector
from phalanx.space._where import Query

Fields: TypeAlias = tuple[Any, ...]
#: Of a space that decides on a transaction: the addresses of the servers that keep it, its name there, its identity,
#: and whether it is durable.
Coordinator: TypeAlias = tuple[list[str], str, int, bool]
#: The place where a page ended, which only the engine understands.
Cursor: TypeAlias = tuple[int, ...]
#: What a request that was begun ends with: the tuple, None when its time passed, or what went wrong.
Outcome: TypeAlias = Fields | BaseException | None


class Engine(Protocol):
    """The operations of one space (paper 002, section 1), and what the eleven systems add to them (section 2)."""

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
        """Puts a tuple into the space and returns the number by which :meth:`renew` knows it. ``lease``: seconds after
        which it is gone; ``key``: a value that no other tuple of the space may have as its key, or None; ``label``: a
        value that many may have, or None."""
        ...

    def out_many(
        self,
        tuples: Sequence[Fields],
        lease: float | None,
        label: Any,
        priority: int | None,
        transaction: int | None,
        /,
    ) -> None:
        """Puts many tuples, in their order, at once: all of them or none."""
        ...

    def get(
        self,
        template: Fields,
        take: bool,
        select: tuple[Selector, ...],
        where: Query | None,
        transaction: int | None,
        /,
    ) -> Fields | None:
        """``inp`` (``take``) or ``rdp``: a matching tuple that is there now, or None."""
        ...

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
        """A page of the matching tuples that are there now: at most ``limit``, and of a bounded number of bytes, behind
        the page that ended with ``after``. With the place at which this one ended; None: there are no more."""
        ...

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
        """``in_`` (``take``) or ``rd``: waits for a matching tuple; None when ``timeout`` passed. A Ctrl-C while it
        waits raises KeyboardInterrupt, and has taken nothing."""
        ...

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
        """The same without a thread that waits: returns the request's number, and ``done`` is called once with the
        outcome, in any thread, perhaps before this returns. ``done`` is quick and does not raise.

        After ``done`` was called with a tuple of a take, :meth:`settle` is to be called.
        """
        ...

    def cancel(self, request: int, /) -> bool:
        """Ends a request. True: it has taken nothing, and ``done`` is not called any more. False: ``done`` was called,
        or will be in a moment."""
        ...

    def settle(self, request: int, kept: bool, /) -> None:
        """Of a take that was not cancelled any more: kept, the tuple is ours; not kept, it is back in the space as it
        was, also where ``done`` is to be called yet. Kept, this returns when the word of it has left this process:
        nobody else gets the tuple if it is killed then. Until then it is nobody's, and back when this process ends.
        A second call for the same request does nothing, nor does one for what was taken under a transaction: that
        decides."""
        ...

    def count(self, template: Fields, where: Query | None, transaction: int | None, /) -> int:
        """How many tuples match now."""
        ...

    def renew(self, number: int, lease: float | None, /) -> bool:
        """Gives the tuple with this number ``lease`` seconds from now on (None: for ever); False if it is gone."""
        ...

    def begin(self, transaction: int, timeout: float, repeatable: bool, /) -> None:
        """Begins a transaction, which is aborted if it has not ended after so many seconds. Its number, 128 bits, is
        drawn by who begins it in several spaces; the operations of who knows it can take part. ``repeatable``: it
        commits only if all that it has read is still there, or was taken by itself."""
        ...

    def prepare(self, transaction: int, coordinator: Coordinator | None = None, /) -> None:
        """The first step of a commit over several spaces: from here on only ``commit`` or ``abort`` end it, or, long
        after its time, the space. Raises TransactionError where what it has read is gone. ``coordinator``: another
        space of the transaction; where nobody ends it, the space asks that one how it has ended."""
        ...

    def commit(self, transaction: int, /) -> None:
        """What was put is there for all, what was taken is gone. Raises TransactionError where the transaction has
        ended, or where what it has read is gone: then it is still to be aborted."""
        ...

    def abort(self, transaction: int, /) -> None:
        """As if nothing had been done. Of a transaction that has ended: does nothing."""
        ...

    def watch(
        self,
        template: Fields,
        where: Query | None,
        since: int | None,
        nudge: Callable[[], object] | None,
        /,
    ) -> int:
        """Begins to collect matching tuples that are put; returns the watch's number. ``since``: the sequence number
        of the last event that is known already; those after it come again, or SpaceError says that some were forgotten.
        ``nudge`` is called, in any thread, when there are events again since :meth:`events` was called last."""
        ...

    def events(self, watch: int, timeout: float | None, /) -> list[tuple[int, Fields]]:
        """Waits for events ``(sequence number, tuple)`` in their order; empty when ``timeout`` passed (0: what is
        here). Raises SpaceError if some were forgotten because nobody asked for long, and after ``unwatch``."""
        ...

    def unwatch(self, watch: int, /) -> None:
        """Ends a watch, and whoever waits for its events."""
        ...

    def info(self) -> dict[str, Any]:
        """What :class:`phalanx.SpaceInfo` shows, with its names."""
        ...

    def close(self) -> None:
        """Ends what waits, with SpaceError, and lets go of what is held. A second call does nothing."""
        ...


class Over(Protocol):
    """What stands over an engine: a space."""

    @property
    def engine(self) -> Engine:
        """What does the work."""
        ...

    @property
    def name(self) -> str:
        """Its address; of a space that nobody serves, one that only this process knows."""
        ...
