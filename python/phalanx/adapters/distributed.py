"""Dask's distributed over phalanx's links: ``LocalCluster(protocol="phalanx")``, ``dask scheduler --protocol phalanx``.

Dask finds the backend by its entry point, so that no import is needed. Each link has the level that the policy decides:
clear over a unix socket between processes of one user on one machine, private between machines. Threads of the native
core protect and move the bytes, without Python's lock and outside of Dask's event loop.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from phalanx import _native
from phalanx.errors import IdentityError, PolicyError

try:
    import dask
    from dask.utils import parse_bytes, parse_timedelta
    from distributed.comm.addressing import parse_host_port, unparse_host_port
    from distributed.comm.core import BaseListener, Comm, CommClosedError, Connector, FatalCommClosedError
    from distributed.comm.tcp import BaseTCPBackend
    from distributed.comm.utils import ensure_concrete_host, from_frames, to_frames
    from distributed.utils import ensure_memoryview, nbytes
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"{error}: pip install 'phalanx-grid[distributed]'", name=error.name) from None

from phalanx.adapters._comm_loop import Signal, Watch
from phalanx.adapters._comm_rules import rules

_log = logging.getLogger("distributed.comm.phalanx")

PREFIX = "phalanx://"
#: A writer waits while more bytes than this wait to be written.
MOST_WAITING = 16 << 20


class Link(NamedTuple):
    """A link of this process to another one of its Dask cluster, as :func:`links` lists it.

    Attributes
    ----------
    address : str
        The address at which the other end listens, or from which it came.
    name : str or None
        The name in the certificate of the other end. None: it is a process of the same user on this machine.
    level : {"clear", "authenticated", "safe", "private"}
        The level.
    why : str or None
        The default or the rule that decided the level. None: the other end has decided.

    Examples
    --------
    >>> from phalanx.adapters.distributed import Link
    >>> Link("phalanx://10.0.0.7:8786", "lab", "private", "policy links: untrusted network").level
    'private'
    """

    address: str
    name: str | None
    level: str
    why: str | None


def links() -> list[Link]:
    """The links of this process: for ``client.run(links)`` and ``client.run_on_scheduler(links)``.

    Returns
    -------
    list of Link
        One entry for each open link, by address.

    Examples
    --------
    >>> from dask.distributed import Client, LocalCluster
    >>> from phalanx.adapters.distributed import links
    >>> with LocalCluster(n_workers=1, processes=False, protocol="phalanx", dashboard_address=":0") as cluster:
    ...     with Client(cluster):
    ...         {link.level for link in links()}
    {'clear'}
    """
    comms = [comm for comm in Comm._instances if isinstance(comm, PhalanxComm) and not comm.closed()]
    found = [Link(comm.peer_address, *(comm.extra_info[word] for word in ("peer", "level", "why"))) for comm in comms]
    return sorted(found, key=lambda link: link.address)


class PhalanxComm(Comm):  # type: ignore[misc]
    """A link as Dask sees it."""

    max_shard_size: int = parse_bytes(dask.config.get("distributed.comm.shard"))

    def __init__(self, link: _native.Comm, local_addr: str, peer_addr: str, deserialize: bool = True) -> None:
        self._link: _native.Comm | None = link
        super().__init__(deserialize=deserialize)
        self._local_addr, self._peer_addr = local_addr, peer_addr
        self._arrived, self._written = Signal(), Signal()
        self._watch = Watch.here()
        self._watch.call(link.number, self._on_news)
        self._extra = {"level": link.level, "peer": link.peer, "why": link.why}
        self._finalizer = weakref.finalize(self, _let_go, link, self._watch, repr(self))
        self._finalizer.atexit = False

    @property
    def local_address(self) -> str:
        """The address of this end."""
        return self._local_addr

    @property
    def peer_address(self) -> str:
        """The address of the other end."""
        return self._peer_addr

    @property
    def extra_info(self) -> dict[str, Any]:
        """The level, the name in the certificate of the other end, and what decided the level."""
        return self._extra

    async def read(self, deserializers: Any = None) -> Any:
        """The next message. Raises CommClosedError if the link has ended."""
        try:
            frames = await self._take()
        except EOFError as error:
            self.abort()
            raise CommClosedError(f"in {self}: {error}") from error
        except BaseException:
            self.abort()  # as Dask's own comms do, whose callers expect it
            raise
        try:
            return await from_frames(
                frames, deserialize=self.deserialize, deserializers=deserializers, allow_offload=self.allow_offload
            )
        except EOFError:
            self.abort()
            raise CommClosedError("aborted stream on truncated data") from None

    async def _take(self) -> list[memoryview]:
        while (link := self._link) is not None:
            frames = link.take()
            if frames is not None:
                return frames
            await self._arrived.wait()
        raise CommClosedError

    async def write(self, msg: Any, serializers: Any = None, on_error: str = "message") -> int:
        """Sends a message, and returns its bytes. Waits while many bytes of earlier ones wait to be written."""
        if self.closed():
            raise CommClosedError(f"in {self}: {self._why()}")
        frames = await to_frames(
            msg,
            allow_offload=self.allow_offload,
            serializers=serializers,
            on_error=on_error,
            context={"sender": self.local_info, "recipient": self.remote_info, **self.handshake_options},
            frame_split_size=self.max_shard_size,
        )
        frames = [frame if isinstance(frame, bytes) else ensure_memoryview(frame) for frame in frames]
        while (link := self._link) is not None and not link.has_room(MOST_WAITING):
            await self._written.wait()
        if link is None or link.ended is not None:
            raise CommClosedError(f"in {self}: {self._why()}")
        try:
            self._send(link, frames)
        except BaseException:
            self.abort()
            raise
        return sum(map(nbytes, frames))

    def _send(self, link: _native.Comm, frames: Sequence[bytes | memoryview]) -> None:
        link.send(frames, *parts(frames))

    def _why(self) -> str:
        return (self._link.ended if self._link else None) or "the link was closed"

    async def close(self) -> None:
        """Ends the link when everything is written, or when nothing can be written for Dask's ``timeouts.tcp``."""
        link, self._link = self._link, None
        self._on_news()
        if link is None:
            return
        try:
            await self._finish(link)
        finally:
            self._finalizer.detach()
            _end(link, self._watch)

    async def _finish(self, link: _native.Comm) -> None:
        patience = float(parse_timedelta(dask.config.get("distributed.comm.timeouts.tcp"), default="seconds"))
        while not link.has_room(0):
            before = link.written
            try:
                await asyncio.wait_for(self._written.wait(), patience)
            except asyncio.TimeoutError:
                if link.written == before:
                    return  # the peer takes nothing more

    def abort(self) -> None:
        """Ends the link at once."""
        link, self._link = self._link, None
        self._on_news()
        if link is not None:
            self._finalizer.detach()
            _end(link, self._watch)

    def closed(self) -> bool:
        """Whether the link has ended, and all messages were read."""
        return self._link is None or self._link.ended is not None

    def _on_news(self) -> None:
        self._arrived.give()
        self._written.give()


def _end(link: _native.Comm, watch: Watch) -> None:
    watch.forget(link.number)
    link.close()


def _let_go(link: _native.Comm, watch: Watch, name: str) -> None:
    _log.warning("Closing dangling stream in %s", name)
    _end(link, watch)


def parts(frames: Sequence[bytes | memoryview]) -> tuple[list[int], int | None]:
    """How many frames go into each part of a message, and the frame of the first part that is to be aligned.

    A part arrives in memory of its own. Bytes are dropped when they are unpickled. Each other buffer belongs to an
    object that is released by itself, so it gets a part. The first one shares the part of the bytes before it, as
    Dask's own comms have it, if these are few.
    """
    counts, before = [0], 0
    owner: object = None
    aligned: int | None = None
    for index, frame in enumerate(frames):
        size = nbytes(frame)
        holder: object = frame.obj if isinstance(frame, memoryview) else frame
        holder = None if isinstance(holder, bytes) else holder
        if holder is owner:
            pass  # another shard of a buffer, or more bytes
        elif aligned is None and len(counts) == 1 and before <= max(2048, size * 0.05):
            aligned, owner = index, holder
        else:
            counts.append(0)
            owner = holder
        counts[-1] += 1
        before += size
    return counts, aligned


class PhalanxConnector(Connector):  # type: ignore[misc]
    """Connects to other processes."""

    prefix = PREFIX
    comm_class: type[PhalanxComm] = PhalanxComm

    async def connect(self, address: str, deserialize: bool = True, **connection_args: Any) -> PhalanxComm:
        """A comm with the process at ``address``. Raises CommClosedError, and FatalCommClosedError if another attempt
        would fail too."""
        host, port = parse_host_port(address)
        watch = Watch.here()
        try:
            begun = _native.CommDialling(_place(host, port), watch.bells, rules(connection_args))
            link = await _Dialled(begun, watch).link()
        except (IdentityError, PolicyError) as error:
            raise FatalCommClosedError(f"{self.prefix}{address}: {error}") from error
        except OSError as error:
            raise CommClosedError(f"in {self.prefix}{address}: {error}") from error
        own, there = self.prefix + _own_place(link, host), self.prefix + address
        return self.comm_class(link, own, there, deserialize)


class _Dialled:
    """A comm that is being made."""

    def __init__(self, begun: _native.CommDialling, watch: Watch) -> None:
        self._begun, self._watch, self._news = begun, watch, Signal()
        watch.call(begun.number, self._news.give)  # kept by this object only

    async def link(self) -> _native.Comm:
        try:
            while (link := self._begun.take()) is None:
                await self._news.wait()
            return link
        finally:
            self._watch.forget(self._begun.number)


def _own_place(link: _native.Comm, host: str) -> str:
    return _place(*link.addresses[0]) if link.addresses else _place(host, _processes(link)[0])


def _processes(link: _native.Comm) -> tuple[int, int]:
    """The processes at both ends. They stand for ports, which a unix socket has not."""
    assert link.processes is not None
    return link.processes


def _place(host: str, port: int) -> str:
    place: str = unparse_host_port(host, port)
    return place


class PhalanxListener(BaseListener):  # type: ignore[misc]
    """Accepts comms."""

    prefix = PREFIX
    comm_class: type[PhalanxComm] = PhalanxComm

    def __init__(
        self,
        address: str,
        comm_handler: Callable[[PhalanxComm], Any],
        deserialize: bool = True,
        allow_offload: bool = True,
        default_host: str | None = None,
        default_port: int = 0,
        **connection_args: Any,
    ) -> None:
        super().__init__()
        self.ip, self.port = parse_host_port(address, default_port)
        self.default_host, self.comm_handler = default_host, comm_handler
        self.deserialize, self.allow_offload = deserialize, allow_offload
        self._rules = rules(connection_args)
        self._listener: _native.CommListener | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Begins to listen."""
        watch = Watch.here()
        place = _place(self.ip or "0.0.0.0", self.port)
        self._listener = _native.CommListener(place, watch.bells, self._rules, _log.isEnabledFor(logging.WARNING))
        self.bound_address = self._listener.address
        self._watch = watch
        watch.call(self._listener.number, self._accept)

    def stop(self) -> None:
        """Stops listening. Comms that were accepted go on."""
        listener, self._listener = self._listener, None
        if listener is not None:
            self._watch.forget(listener.number)
            listener.close()

    def _accept(self) -> None:
        for link in self._listener.take() if self._listener is not None else ():
            task = asyncio.get_running_loop().create_task(self._handle(self._comm_of(link)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _comm_of(self, link: _native.Comm) -> PhalanxComm:
        if link.addresses is not None:
            here, there = (self.prefix + _place(*end) for end in link.addresses)
        else:
            here = self.contact_address
            there = self.prefix + _place(here.removeprefix(self.prefix).rpartition(":")[0], _processes(link)[1])
        comm = self.comm_class(link, here, there, self.deserialize)
        comm.allow_offload = self.allow_offload
        return comm

    async def _handle(self, comm: PhalanxComm) -> None:
        if self._listener is None:  # it was stopped after the link was accepted
            comm.abort()
            return
        try:
            await self.on_connection(comm)
        except CommClosedError:
            _log.info("Connection from %s closed before handshake completed", comm.peer_address)
            return
        await self.comm_handler(comm)

    def get_host_port(self) -> tuple[str, int]:
        """Where it listens. Raises ValueError if it does not."""
        if self._listener is None:
            raise ValueError("invalid operation on non-started PhalanxListener")
        return self.bound_address

    @property
    def listen_address(self) -> str:
        """Where it listens, as an address of Dask."""
        return self.prefix + _place(*self.get_host_port())

    @property
    def contact_address(self) -> str:
        """Where others reach it."""
        host, port = self.get_host_port()
        return self.prefix + _place(ensure_concrete_host(host, default_host=self.default_host), port)


class PhalanxBackend(BaseTCPBackend):  # type: ignore[misc]
    """What Dask finds by the scheme ``phalanx``. Addresses are as those of ``tcp``."""

    _connector_class = PhalanxConnector
    _listener_class = PhalanxListener
