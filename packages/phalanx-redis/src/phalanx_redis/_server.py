"""The Redis server of a space: calls of the script, waiting at a list, and errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

import redis
import redis.backoff
import redis.retry
from phalanx.errors import SpaceError

#: Seconds without an answer after which the server counts as lost.
_SILENCE = 60.0
_SCHEMES = ("redis", "rediss", "redis+unix", "redis+cluster")
_NAME = re.compile(r"[\w\-.:+@]{1,100}")


class Store:
    """The keys of one space at a server or cluster. Raises SpaceError if no server answers."""

    def __init__(self, address: str) -> None:
        self._server, name = _connected(address)
        # A hash tag in braces: a cluster keeps all keys with the same hash tag at one node.
        self._base = f"{{phalanx:{name}}}".encode()
        self._address = address
        self.closed = False
        self._script = files("phalanx_redis").joinpath("_steps.lua").read_bytes()
        with self._speaking():
            self._sha = self._server.script_load(self._script)

    def call(self, *arguments: Any) -> Any:
        """Runs one atomic step of the script."""
        if self.closed:
            raise SpaceError(f"{self._address} is closed")
        with self._speaking():
            try:
                return self._server.evalsha(self._sha, 1, self._base, *arguments)
            except redis.exceptions.NoScriptError:  # the server was restarted
                self._server.script_load(self._script)
                return self._server.evalsha(self._sha, 1, self._base, *arguments)

    def sent(self, waiter: int, patience: float) -> bytes:
        """The next entry in the list of a waiter; empty if none comes within ``patience`` seconds."""
        with self._speaking():
            answer = self._server.blpop([self._list(waiter)], timeout=max(patience, 0.001))
        return bytes(answer[1]) if answer else b""

    def wake(self, waiter: int) -> None:
        """Lets a waiter ask again."""
        with self._speaking():
            self._server.rpush(self._list(waiter), b"")

    def close(self) -> None:
        """Closes the connections. A second call does nothing."""
        self.closed = True
        self._server.close()

    def _list(self, waiter: int) -> bytes:
        return self._base + b":b:%d" % waiter

    @contextmanager
    def _speaking(self) -> Iterator[None]:
        try:
            yield
        except redis.exceptions.ResponseError as error:
            if "KEYTAKEN" in str(error):
                raise SpaceError("another tuple of the space has this key") from None
            raise SpaceError(f"{self._address} refuses: {error}") from error
        except redis.exceptions.RedisError as error:
            raise SpaceError(f"{self._address} does not answer, and may have done what was asked: {error}") from error


def _connected(address: str) -> tuple[Any, str]:
    """A client of the server in an address, and the name of the space."""
    parts = urlsplit(address)
    place, _, name = parts.path.rpartition("/")
    server, _, database = place.rpartition("/")
    if (
        parts.scheme not in _SCHEMES
        or not _NAME.fullmatch(name)
        or not database.isdigit()
        or bool(server) != (not parts.netloc)
    ):
        raise SpaceError(f"{address!r} is no address of a space at Redis: redis://HOST:PORT/DATABASE/NAME")
    # No retries: a request without an answer may have been done, and a second one could take or put twice.
    once = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
    options: dict[str, Any] = {"socket_connect_timeout": 10, "socket_timeout": _SILENCE, "retry": once}
    if parts.scheme == "redis+unix":
        return redis.Redis(unix_socket_path=server, db=int(database), **options), name
    if parts.scheme == "redis+cluster":
        return redis.RedisCluster.from_url(f"redis://{parts.netloc}/{database}", **options), name
    return redis.Redis.from_url(f"{parts.scheme}://{parts.netloc}/{database}", **options), name
