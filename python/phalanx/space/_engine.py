"""The interface of the engine behind a :class:`phalanx.Space`: in this process, in another one, or in Redis.

``_native.LocalSpace`` (the engine in this process), ``_native.RemoteSpace`` (a client) and ``RedisEngine`` of the
package phalanx-redis have these methods, with the same meaning. The class :class:`phalanx.Space` does everything else
in terms of them. Many threads may call them at once. They release the interpreter lock (GIL) while they wait. Arguments
are positional, in this order, and the engine checks them.

Words used below. *fields*: the values of a tuple. *template*: values (actuals), types (formals), ``ANY``,
queries (:class:`phalanx.space.Query`) and nested tuples of these. *select*: selectors, at most one of which is an
order. *where*: a query over the whole tuple, or None. *transaction*: the number of a transaction that
:meth:`Engine.begin` began, or None. Times are in seconds; None is no limit.

Errors: SpaceError if the space refuses or cannot be reached; SpaceFullError if a limit is reached; TransactionError if
a transaction has ended; TypeError for a value without an encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from phalanx.space._select import Selector
from phalanx.space._where import Query

Fields: TypeAlias = tuple[Any, ...]
#: The space that decides a transaction: the addresses of its servers, its name there, its identity, and whether it is
#: durable.
Coordinator: TypeAlias = tuple[list[str], str, int, bool]
#: The position where a page ended. Only the engine understands it.
Cursor: TypeAlias = tuple[int, ...]
#: The outcome of a request: the tuple, None after its timeout, or the error.
Outcome: TypeAlias = Fields | BaseException | None


class Engine(Protocol):
    """The operations of one space (paper 002, section 1), with the additions of its eleven systems (section 2)."""

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
        """Puts a tuple into the space and returns its number, for :meth:`renew`. ``lease``: seconds after which the
        tuple is gone. ``key``: a value that is the key of no other tuple in the space, or None. ``label``: a value that
        many tuples may have, or None."""
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
        """A page of the matching tuples that are there now, and the cursor at its end. It begins at the cursor
        ``after`` and has at most ``limit`` tuples and a bounded number of bytes. Without a cursor there are no more."""
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
        """``in_`` (``take``) or ``rd``: waits for a matching tuple. Returns None after ``timeout``. A Ctrl-C during the
        wait raises KeyboardInterrupt and takes nothing."""
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
        """As :meth:`wait`, without a waiting thread. Returns the number of the request. The engine calls ``done`` once
        with the outcome, in any thread, perhaps before this method returns. ``done`` must be quick and must not raise.

        After ``done`` was called with the tuple of a take, the caller must call :meth:`settle`.
        """
        ...

    def cancel(self, request: int, /) -> bool:
        """Ends a request. True: it has taken nothing, and ``done`` will not be called. False: ``done`` was called or
        will be called soon."""
        ...

    def settle(self, request: int, kept: bool, /) -> None:
        """Settles a take that could not be cancelled. ``kept``: the caller keeps the tuple. Not ``kept``: the tuple
        goes back into the space as it was, even if ``done`` is still to be called.

        With ``kept`` it returns when the acknowledgement has left this process. If the process is killed after that, no
        other client gets the tuple. If the process ends earlier, the tuple goes back into the space. A second call for
        the same request does nothing. A call for a take in a transaction does nothing either, because the transaction
        decides."""
        ...

    def count(self, template: Fields, where: Query | None, transaction: int | None, /) -> int:
        """How many tuples match now."""
        ...

    def renew(self, number: int, lease: float | None, /) -> bool:
        """Lets the tuple with this number stay ``lease`` seconds from now on (None: no limit). False if it is gone."""
        ...

    def begin(self, transaction: int, timeout: float, repeatable: bool, /) -> None:
        """Begins a transaction. It is aborted if it has not ended after ``timeout`` seconds. The client draws its
        number, 128 bits, because it may begin the transaction in several spaces. Any client that knows the number can
        take part. ``repeatable``: it commits only if every tuple that it has read is still there, or was taken by the
        transaction itself."""
        ...

    def prepare(self, transaction: int, coordinator: Coordinator | None = None, /) -> None:
        """The first phase of a two-phase commit over several spaces. From here on only ``commit`` or ``abort`` end the
        transaction, or the space itself long after the timeout. Raises TransactionError if a tuple that it has read is
        gone. ``coordinator``: another space of the transaction. If no client ends the transaction, this space asks the
        coordinator how it has ended."""
        ...

    def commit(self, transaction: int, /) -> None:
        """Makes the tuples that were put visible to all, and removes those that were taken. Raises TransactionError if
        the transaction has ended, or if a tuple that it has read is gone. In the second case the caller must still
        abort it."""
        ...

    def abort(self, transaction: int, /) -> None:
        """Undoes the transaction. Does nothing if it has ended."""
        ...

    def watch(
        self,
        template: Fields,
        where: Query | None,
        since: int | None,
        nudge: Callable[[], object] | None,
        /,
    ) -> int:
        """Begins to collect matching tuples that are put, and returns the number of the watch. ``since``: the sequence
        number of the last known event. Later events come again, or SpaceError says that some were forgotten. The engine
        calls ``nudge``, in any thread, when there are new events since the last call of :meth:`events`."""
        ...

    def events(self, watch: int, timeout: float | None, /) -> list[tuple[int, Fields]]:
        """Waits for events ``(sequence number, tuple)`` in their order. The list is empty after ``timeout``; 0 returns
        the events that are here now. Raises SpaceError after ``unwatch``, and if events were forgotten because the
        reader was too slow."""
        ...

    def unwatch(self, watch: int, /) -> None:
        """Ends a watch, and the calls that wait for its events."""
        ...

    def info(self) -> dict[str, Any]:
        """The values of :class:`phalanx.space.SpaceInfo`, by their names."""
        ...

    def close(self) -> None:
        """Ends waiting requests with SpaceError and frees all resources. A second call does nothing."""
        ...


class Over(Protocol):
    """An object that has an engine: a space."""

    @property
    def engine(self) -> Engine:
        """The engine that does the work."""
        ...

    @property
    def name(self) -> str:
        """The address of the space. For a space that is not served, a name that only this process knows."""
        ...
