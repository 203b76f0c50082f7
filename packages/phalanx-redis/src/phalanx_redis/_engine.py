"""A space kept by a Redis or Valkey server: ``Space("redis://HOST:PORT/DATABASE/NAME")``.

Atomic steps are a script that the server runs (``_steps.lua``). Fields travel in the encoding of phalanx, so equality
is as exact as in other spaces, and the server never unpickles. A waiting client is woken through a list of its own
(BLPOP), and takes the tuple afterwards. A client that dies while it waits takes nothing. It may delay other clients
that wait for the same tuple by five seconds at most. There are no transactions, watches and queries.
"""

from __future__ import annotations

import itertools
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from phalanx import _native
from phalanx.errors import SpaceError
from phalanx.space._engine import Coordinator, Cursor, Fields, Outcome
from phalanx.space._select import Selector
from phalanx.space._template import ANY, formal_of
from phalanx.space._uninterrupted import Uninterrupted
from phalanx.space._where import Query

from phalanx_redis._server import Store
from phalanx_redis._waiting import Request

_PAGE_BYTES = 1 << 24
#: First bytes of encoded fields, by the kinds that formals name.
_KINDS = {
    "none": b"\x00",
    "bool": b"\x01\x02",
    "int": b"\x03\x04",
    "float": b"\x05",
    "str": b"\x06",
    "bytes": b"\x07",
    "array": b"\x08",
    "tuple": b"\x09",
    "list": b"\x0a",
    "sealed": b"\x0d",
}
_OPTIONS = {"order", "lease", "indexes"}
_COUNTED = {"encoded_bytes": 0, "outs": 0, "reads": 0, "takes": 0, "expired": 0, "looked_at": 0}
#: Counts that are always 0 for a space in Redis.
_NEVER = {"watches": 0, "transactions": 0, "unacknowledged": 0, "events": 0}


class RedisEngine:
    """The operations of :class:`phalanx.space._engine.Engine`, on one server or cluster.

    ``address``: ``redis://[USER:PASSWORD@]HOST:PORT/DATABASE/NAME``; ``rediss://`` the same over TLS,
    ``redis+cluster://`` at a cluster, ``redis+unix://PATH/DATABASE/NAME`` over a unix socket. ``objects``: values
    without an encoding are pickled, and unpickled by clients that set it too. ``options``: ``order`` and ``lease`` as
    for :class:`phalanx.Space`, but of this client only. Raises SpaceError if the server does not
    answer.
    """

    #: Tells :class:`phalanx.Space` that this engine has no transactions.
    without_transactions = True

    def __init__(self, address: str, objects: bool, options: Mapping[str, Any]) -> None:
        if strange := [name for name, value in options.items() if value and name not in _OPTIONS]:
            raise SpaceError(
                f"a space at Redis has no option {strange[0]}: its server has limits and indexes of its own"
            )
        self._order, self._lease = options.get("order", "any"), options.get("lease")
        self._objects = objects
        self._requests: dict[int, Request] = {}
        self._numbers = itertools.count(1)
        self._store = Store(address)

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
        """A tuple; its number in the space."""
        marks = self._marks(lease, key, label, priority, transaction)
        return int(self._store.call(b"out", *marks, *_counted(self._encoded(fields))))

    def out_many(
        self,
        tuples: Sequence[Fields],
        lease: float | None,
        label: Any,
        priority: int | None,
        transaction: int | None,
        /,
    ) -> None:
        """Many tuples in one step."""
        marks = self._marks(lease, None, label, priority, transaction)
        self._store.call(b"out", *marks, *(part for fields in tuples for part in _counted(self._encoded(fields))))

    def get(
        self,
        template: Fields,
        take: bool,
        select: Sequence[Selector],
        where: Query | None,
        transaction: int | None,
        /,
    ) -> Fields | None:
        """A tuple that is there now."""
        wanted = self._wanted(template, select, where, transaction)
        with Uninterrupted():
            found = self._store.call(b"get", _flag(take), *wanted)
            return None if found is None else self._decoded(found)

    def get_many(
        self,
        template: Fields,
        take: bool,
        select: Sequence[Selector],
        where: Query | None,
        transaction: int | None,
        limit: int,
        after: Cursor | None,
        /,
    ) -> tuple[list[Fields], Cursor | None]:
        """A page of those that are there now."""
        wanted = self._wanted(template, select, where, transaction)
        with Uninterrupted():
            last, tuples = self._store.call(b"page", _flag(take), limit, after[0] if after else 0, _PAGE_BYTES, *wanted)
            return [self._decoded(fields) for fields in tuples], (last,) if last else None

    def wait(
        self,
        template: Fields,
        take: bool,
        select: Sequence[Selector],
        where: Query | None,
        transaction: int | None,
        timeout: float | None,
        /,
    ) -> Fields | None:
        """Waits for a tuple."""
        wanted = self._wanted(template, select, where, transaction)
        return self._request(_flag(take), wanted, timeout).result()

    def begin_wait(
        self,
        template: Fields,
        take: bool,
        select: Sequence[Selector],
        where: Query | None,
        transaction: int | None,
        timeout: float | None,
        done: Callable[[Outcome], object],
        /,
    ) -> int:
        """As :meth:`wait`, in a thread of its own."""
        number = next(self._numbers)
        wanted = self._wanted(template, select, where, transaction)
        request = self._request(b"back" if take else b"0", wanted, timeout)
        self._requests[number] = request

        def run() -> None:
            try:
                outcome: Outcome = request.result()
            except BaseException as error:
                outcome = error
            if not request.cancelled:
                done(outcome)
            if outcome is None or not take:
                self._requests.pop(number, None)

        threading.Thread(target=run, daemon=True, name=f"space-wait-{number}").start()
        return number

    def cancel(self, request: int, /) -> bool:
        """Ends a request that ``begin_wait`` began."""
        waiting = self._requests.get(request)
        return waiting is not None and waiting.cancel()

    def settle(self, request: int, kept: bool, /) -> None:
        """A tuple that is not kept goes back to its place, but without its key if another tuple has that key now."""
        settled = self._requests.pop(request, None)
        if settled and settled.found is not None and not kept:
            settled.give_back()

    def count(self, template: Fields, where: Query | None, transaction: int | None, /) -> int:
        """How many match."""
        _not_here(where, transaction)
        return int(self._store.call(b"count", *_counted([self._pattern(wanted) for wanted in template])))

    def renew(self, number: int, lease: float | None, /) -> bool:
        """Another lease."""
        return bool(self._store.call(b"renew", number, _milliseconds(lease)))

    def begin(self, transaction: int, timeout: float, repeatable: bool, /) -> NoReturn:
        """Not here."""
        raise _lacking("transactions")

    def prepare(self, transaction: int, coordinator: Coordinator | None = None, /) -> NoReturn:
        """Not here."""
        raise _lacking("transactions")

    def commit(self, transaction: int, /) -> NoReturn:
        """Not here."""
        raise _lacking("transactions")

    def abort(self, transaction: int, /) -> NoReturn:
        """Not here."""
        raise _lacking("transactions")

    def watch(
        self, template: Fields, where: Query | None, since: int | None, nudge: Callable[[], object] | None, /
    ) -> NoReturn:
        """Not here."""
        raise _lacking("watches")

    def events(self, watch: int, timeout: float | None, /) -> NoReturn:
        """Not here."""
        raise _lacking("watches")

    def unwatch(self, watch: int, /) -> NoReturn:
        """Not here."""
        raise _lacking("watches")

    def info(self) -> dict[str, Any]:
        """The counts of the server, which has no partitions. ``bytes`` is the memory of the tuples without indexes."""
        tuples, takers, readers, size, done = self._store.call(b"info")
        counted = {name.decode(): int(value) for name, value in zip(done[::2], done[1::2], strict=True)}
        waiting = {"takers": takers, "readers": readers}
        options = {"engine": "redis", "order": self._order, "lease": self._lease}
        told = {"tuples": tuples, "bytes": size, "partitions": (), "options": options}
        return {**told, **waiting, **_COUNTED, **counted, **_NEVER}

    def close(self) -> None:
        """Ends the requests and the connections; the tuples stay at the server."""
        if not self._store.closed:
            for request in list(self._requests.values()):
                request.cancel()
            self._store.close()

    def _request(self, take: bytes, wanted: list[Any], timeout: float | None) -> Request:
        return Request(self._store, self._decoded, take, wanted, timeout)

    def _encoded(self, fields: Fields) -> list[bytes]:
        return _native.encode_fields(fields, self._objects)

    def _decoded(self, fields: Sequence[bytes]) -> Fields:
        return _native.decode_fields(fields, self._objects)

    def _pattern(self, wanted: Any) -> bytes:
        if wanted is ANY:
            return b"*"
        if type(wanted) is tuple:
            return self._nested(wanted)
        if isinstance(wanted, Query):
            raise _lacking("queries")
        formal = formal_of(wanted, self._objects)
        if formal is None:
            return b"=" + self._encoded((wanted,))[0]
        if isinstance(formal, str):
            return b"c" + formal.encode()
        kinds, dtype, dimensions = formal
        if "any" in kinds:
            return b"*"
        if dtype is not None or dimensions is not None:
            return b"a" + bytes([255 if dimensions is None else dimensions]) + (dtype or "").encode()
        return b"t" + b"".join(_KINDS[kind] for kind in kinds)

    def _nested(self, wanted: Fields) -> bytes:
        parts = [self._pattern(part) for part in wanted]
        if all(part.startswith(b"=") for part in parts):
            return b"=" + self._encoded((wanted,))[0]
        return b"n" + b"".join(struct.pack("<I", len(part)) + part for part in parts)

    def _marks(
        self, lease: float | None, key: Any, label: Any, priority: int | None, transaction: int | None
    ) -> list[Any]:
        _not_here(None, transaction)
        keys, labels = ([] if mark is None else self._encoded((mark,)) for mark in (key, label))
        return [
            _milliseconds(self._lease if lease is None else lease),
            priority or 0,
            *_counted(keys),
            *_counted(labels),
        ]

    def _wanted(
        self, template: Fields, select: Sequence[Selector], where: Query | None, transaction: int | None
    ) -> list[Any]:
        _not_here(where, transaction)
        order = next((one.kind for one in reversed(select) if one.kind not in ("key", "label")), self._order)
        keys, labels = (
            sorted({self._encoded((one.value,))[0] for one in select if one.kind == kind}) for kind in ("key", "label")
        )
        if len(keys) > 1 or len(labels) > 1:
            raise SpaceError("a tuple has one key and one label: two different ones select nothing")
        patterns = [self._pattern(part) for part in template]
        return [order.encode(), *_counted(keys), *_counted(labels), *_counted(patterns)]


def _counted(parts: Sequence[bytes]) -> list[Any]:
    return [len(parts), *parts]


def _flag(value: bool) -> bytes:
    return b"1" if value else b"0"


def _milliseconds(seconds: float | None) -> int:
    """-1 is no limit."""
    if seconds is None:
        return -1
    return max(0, round(seconds * 1000))


def _not_here(where: Query | None, transaction: int | None) -> None:
    if where is not None:
        raise _lacking("queries")
    if transaction is not None:
        raise _lacking("transactions")


def _lacking(what: str) -> SpaceError:
    return SpaceError(f"a space at Redis has no {what}: take one of phalanx's own, px.Space('HOST:PORT/NAME')")
