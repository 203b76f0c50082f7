"""A space kept by a Redis or Valkey server: ``Space("redis://HOST:PORT/DATABASE/NAME")``, for those who have one.

The steps that must be atomic are a script that the server runs (``_redis.lua``); fields travel in phalanx's own
encoding, so equality is as exact as in our own spaces, and the server never unpickles. Whoever waits is woken through a
list of its own (BLPOP), and then takes: a taker that dies takes nothing with it, but may delay others who wait for the
same tuple, by ``_PATIENCE`` seconds at most. Not to be had here: transactions, watches and queries.
"""

from __future__ import annotations

import itertools
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from typing import Any, NoReturn
from urllib.parse import urlsplit

from phalanx import _native
from phalanx.errors import SpaceError
from phalanx.space._engine import Cursor, Fields, Outcome
from phalanx.space._select import Selector
from phalanx.space._template import ANY, formal_of
from phalanx.space._where import Query

#: Seconds after which one who waits asks again, and those after which one who has not is taken for dead.
_PATIENCE, _ALIVE = 5.0, 15.0
#: Seconds without an answer after which the server is taken for gone.
_SILENCE = 60.0
_PAGE_BYTES = 1 << 24
#: First bytes of encoded fields, by the words that formals have for kinds.
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
}
_VALUES = {str, int, float, bytes, bool, list, type(None)}
_OPTIONS = {"order", "lease", "indexes"}
_COUNTED = {"encoded_bytes": 0, "outs": 0, "reads": 0, "takes": 0, "expired": 0, "looked_at": 0}
#: What a space at Redis never has.
_NEVER = {"watches": 0, "transactions": 0, "unacknowledged": 0, "events": 0}
_SCHEMES = ("redis", "rediss", "redis+unix", "redis+cluster")


class RedisEngine:
    """The operations of :class:`phalanx.space._engine.Engine`, on one server or cluster.

    ``address``: ``redis://[USER:PASSWORD@]HOST:PORT/DATABASE/NAME``; ``rediss://`` the same over TLS,
    ``redis+cluster://`` at a cluster, ``redis+unix://PATH/DATABASE/NAME`` over a unix socket. ``objects``: what has no
    encoding is pickled, and unpickled by clients that say the same. ``options``: ``order`` and ``lease``, as
    :class:`phalanx.Space` has them, which are this client's. SpaceError when redis-py is not installed, or nobody
    answers.
    """

    def __init__(self, address: str, objects: bool, options: Mapping[str, Any]) -> None:
        if strange := [name for name, value in options.items() if value and name not in _OPTIONS]:
            raise SpaceError(
                f"a space at Redis has no option {strange[0]}: its server has limits and indexes of its own"
            )
        self._order, self._lease = options.get("order", "any"), options.get("lease")
        self._server, name = _connected(address)
        self._base = f"{{phalanx:{name}}}".encode()
        self._address, self._objects = address, objects
        self._requests: dict[int, _Request] = {}
        self._numbers = itertools.count(1)
        self._ended = threading.Event()
        self._script = files("phalanx.space").joinpath("_redis.lua").read_bytes()
        with self._speaking():
            self._sha = self._server.script_load(self._script)

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
        return int(self._call(b"out", *marks, *_counted(self._encoded(fields))))

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
        self._call(b"out", *marks, *(part for fields in tuples for part in _counted(self._encoded(fields))))

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
        found = self._call(b"get", _flag(take), *self._wanted(template, select, where, transaction))
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
        last, tuples = self._call(b"page", _flag(take), limit, after[0] if after else 0, _PAGE_BYTES, *wanted)
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
        return _Request(self, take, wanted, timeout).result()

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
        """The same in a thread of its own."""
        number = next(self._numbers)
        request = _Request(self, take, self._wanted(template, select, where, transaction), timeout)
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
        """What is not kept is put again: behind the others, and without lease and label."""
        settled = self._requests.pop(request, None)
        if settled and settled.found is not None and not kept:
            self.out(settled.found, None, None, None, None, None)

    def count(self, template: Fields, where: Query | None, transaction: int | None, /) -> int:
        """How many match."""
        _not_here(where, transaction)
        return int(self._call(b"count", *_counted([self._pattern(wanted) for wanted in template])))

    def renew(self, number: int, lease: float | None, /) -> bool:
        """Another lease."""
        return bool(self._call(b"renew", number, _milliseconds(lease)))

    def begin(self, transaction: int, timeout: float, /) -> NoReturn:
        """Not here."""
        raise _lacking("transactions")

    def prepare(self, transaction: int, /) -> NoReturn:
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
        """What the server counts; it knows no partitions. ``bytes`` is what the tuples take without their indexes."""
        tuples, takers, readers, size, done = self._call(b"info")
        counted = {name.decode(): int(value) for name, value in zip(done[::2], done[1::2], strict=True)}
        waiting = {"takers": takers, "readers": readers}
        options = {"engine": "redis", "order": self._order, "lease": self._lease}
        told = {"tuples": tuples, "bytes": size, "partitions": (), "options": options}
        return {**told, **waiting, **_COUNTED, **counted, **_NEVER}

    def close(self) -> None:
        """Ends the requests and the connections; the tuples stay at the server."""
        if not self._ended.is_set():
            self._ended.set()
            for request in list(self._requests.values()):
                request.cancel()
            self._server.close()

    def _call(self, *arguments: Any) -> Any:
        if self._ended.is_set():
            raise SpaceError(f"{self._address} is closed")
        import redis

        with self._speaking():
            try:
                return self._server.evalsha(self._sha, 1, self._base, *arguments)
            except redis.exceptions.NoScriptError:  # the server was started anew
                self._server.script_load(self._script)
                return self._server.evalsha(self._sha, 1, self._base, *arguments)

    @contextmanager
    def _speaking(self) -> Iterator[None]:
        import redis

        try:
            yield
        except redis.exceptions.ResponseError as error:
            if "KEYTAKEN" in str(error):
                raise SpaceError("another tuple of the space has this key") from None
            raise SpaceError(f"{self._address} refuses: {error}") from error
        except redis.exceptions.RedisError as error:
            raise SpaceError(f"{self._address} does not answer, and may have done what was asked: {error}") from error

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
        formal = None if type(wanted) in _VALUES else formal_of(wanted)
        if formal is None:
            return b"=" + self._encoded((wanted,))[0]
        if isinstance(formal, str):
            return b"c" + formal.encode()
        kinds, dtype, dimensions = formal
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


class _Request:
    """One who waits; ``found`` is what it got."""

    def __init__(self, engine: RedisEngine, take: bool, wanted: list[Any], timeout: float | None) -> None:
        self._engine, self._take, self._wanted = engine, take, wanted
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._waiter = 0
        self._lock = threading.Lock()
        self.cancelled = False
        self.found: Fields | None = None

    def result(self) -> Fields | None:
        """The tuple, or None when the time passed or it was cancelled."""
        try:
            while True:
                with self._lock:
                    if self.cancelled:
                        return None
                    self._ask()
                    if self.found is not None:
                        return self.found
                patience = _PATIENCE if self._deadline is None else min(_PATIENCE, self._deadline - time.monotonic())
                if patience <= 0:
                    return None
                if self._woken(patience):
                    return self.found
        finally:
            if self._waiter and self.found is None and not self._engine._ended.is_set():
                self._engine._call(b"leave", self._waiter)

    def cancel(self) -> bool:
        """Whether it has got nothing, and will not."""
        with self._lock:
            if self.found is not None or self.cancelled:
                return False
            self.cancelled = True
        if self._waiter:
            with self._engine._speaking():
                self._engine._server.rpush(self._list(), b"")  # wakes it
        return True

    def _ask(self) -> None:
        """Take now, or be one of those who wait."""
        arguments = _flag(self._take), self._waiter, _milliseconds(_ALIVE), *self._wanted
        answer = self._engine._call(b"wait", *arguments)
        if isinstance(answer, int):
            self._waiter = answer
        else:
            self.found = self._engine._decoded(answer)

    def _woken(self, patience: float) -> bool:
        """Waits; True if one was sent a tuple, as readers are, else one must ask again."""
        with self._engine._speaking():
            answer = self._engine._server.blpop([self._list()], timeout=max(patience, 0.001))
        if not answer or not answer[1]:
            return False
        self.found = self._engine._decoded(_split(answer[1]))
        return True

    def _list(self) -> bytes:
        return self._engine._base + b":b:%d" % self._waiter


def _connected(address: str) -> tuple[Any, str]:
    """A client of the server that an address names, and the space's name."""
    try:
        import redis.backoff
        import redis.retry
    except ImportError:
        raise SpaceError("spaces at Redis need redis-py: pip install 'phalanx[redis]'") from None
    parts = urlsplit(address)
    place, _, name = parts.path.rpartition("/")
    server, _, database = place.rpartition("/")
    if parts.scheme not in _SCHEMES or not name or not database.isdigit() or bool(server) != (not parts.netloc):
        raise SpaceError(f"{address!r} is no address of a space at Redis: redis://HOST:PORT/DATABASE/NAME")
    # What was asked may have been done although no answer came: to ask again could take or put twice.
    once = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
    options: dict[str, Any] = {"socket_connect_timeout": 10, "socket_timeout": _SILENCE, "retry": once}
    if parts.scheme == "redis+unix":
        return redis.Redis(unix_socket_path=server, db=int(database), **options), name
    if parts.scheme == "redis+cluster":
        return redis.RedisCluster.from_url(f"redis://{parts.netloc}/{database}", **options), name
    return redis.Redis.from_url(f"{parts.scheme}://{parts.netloc}/{database}", **options), name


def _counted(parts: Sequence[bytes]) -> list[Any]:
    return [len(parts), *parts]


def _flag(value: bool) -> bytes:
    return b"1" if value else b"0"


def _milliseconds(seconds: float | None) -> int:
    """-1 is no limit."""
    if seconds is None:
        return -1
    return max(0, round(seconds * 1000))


def _split(joined: bytes) -> list[bytes]:
    """Fields that the script joined, each with its length before it."""
    parts, at = [], 0
    while at < len(joined):
        (length,) = struct.unpack_from("<I", joined, at)
        parts.append(joined[at + 4 : at + 4 + length])
        at += 4 + length
    return parts


def _not_here(where: Query | None, transaction: int | None) -> None:
    if where is not None:
        raise _lacking("queries")
    if transaction is not None:
        raise _lacking("transactions")


def _lacking(what: str) -> SpaceError:
    return SpaceError(f"a space at Redis has no {what}: take one of phalanx's own, px.Space('HOST:PORT/NAME')")
