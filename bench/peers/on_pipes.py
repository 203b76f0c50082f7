"""What one writes by hand: two processes, a pipe to each, the next task goes to whoever answers.

Variant `tls` is the same loop over the `ssl` of Python: mutual TLS 1.3 on a pair of unix sockets. One task is
in flight per process, so that no two ends ever write at once: with more, large tasks could fill the buffers
of both directions and stop for good.
"""

from __future__ import annotations

import multiprocessing
import pickle
import select
import socket
import ssl
import struct
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from typing import Any, Protocol

from bench.peers.interface import INTERPRETERS, Function


class Channel(Protocol):
    """One end of a pipe that carries Python objects."""

    def send(self, message: Any, /) -> None:
        """Send one object."""
        ...

    def recv(self) -> Any:
        """Return the next object; EOFError when the other end has closed."""
        ...

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        ...

    def close(self) -> None:
        """Close this end."""
        ...


class PipeChannel:
    """Objects over a pipe of `multiprocessing`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.fileno = connection.fileno
        self.close = connection.close

    def send(self, message: Any, /) -> None:
        """Send one object."""
        self._connection.send_bytes(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))

    def recv(self) -> Any:
        """Return the next object."""
        return pickle.loads(self._connection.recv_bytes())


class TlsChannel:
    """Objects over a TLS connection: eight bytes of length, then the pickle."""

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self._connection = connection
        self.fileno = connection.fileno
        self.close = connection.close

    def send(self, message: Any, /) -> None:
        """Send one object."""
        body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
        self._connection.sendall(struct.pack("!Q", len(body)) + body)

    def recv(self) -> Any:
        """Return the next object."""
        (length,) = struct.unpack("!Q", self._read(8))
        return pickle.loads(self._read(length))

    def _read(self, length: int) -> bytearray:
        """Return exactly that many bytes."""
        body = bytearray(length)
        view = memoryview(body)
        while view:
            count = self._connection.recv_into(view)
            if count == 0:
                raise EOFError
            view = view[count:]
        return body


def _secured(end: socket.socket, server: bool, certificates: tuple[str, ...]) -> TlsChannel:
    """Shake hands as server or as client, both with a certificate."""
    authority, certificate, key = certificates
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(authority)
    context.verify_mode = ssl.CERT_REQUIRED
    if server:
        context.num_tickets = 0  # nobody comes back, and a ticket would be read as a result
    return TlsChannel(context.wrap_socket(end, server_side=server, server_hostname=None if server else "localhost"))


def _serve(connection: Connection) -> None:
    _interpret(PipeChannel(connection))


def _serve_tls(end: socket.socket, certificates: tuple[str, ...]) -> None:
    _interpret(_secured(end, True, certificates))


def _interpret(channel: Channel) -> None:
    """Be an interpreter: a list is the functions of the program, a pair is a stage and its task."""
    functions: list[Function] = []
    while True:
        try:
            message = channel.recv()
        except (EOFError, ConnectionError):
            return
        if isinstance(message, list):
            functions = message
        else:
            stage, task = message
            channel.send((stage, functions[stage](task)))


def _connect() -> Channel:
    """Start a process at the other end of a pipe."""
    ours, theirs = multiprocessing.Pipe()
    _start(_serve, theirs)
    theirs.close()
    return PipeChannel(ours)


def _connect_tls() -> Channel:
    """Start a process at the other end of a TLS connection."""
    from bench.peers.certificates import issue

    certificates = tuple(issue())
    ours, theirs = socket.socketpair()
    _start(_serve_tls, theirs, certificates)
    theirs.close()
    return _secured(ours, False, certificates)


def _start(function: Callable[..., None], *arguments: Any) -> None:
    """Start a process that inherits nothing but these arguments."""
    multiprocessing.get_context("spawn").Process(target=function, args=arguments, daemon=True).start()


class PipesFarm:
    """Two processes, each with a channel."""

    def __init__(self, connect: Callable[[], Channel]) -> None:
        self._channels = {channel.fileno(): channel for channel in [connect() for _ in range(INTERPRETERS)]}
        self._poll = select.poll()
        for descriptor in self._channels:
            self._poll.register(descriptor, select.POLLIN)
        self._staged: list[Function] = []

    def stream(self, function: Function, tasks: Iterable[Any]) -> Iterator[Any]:
        """Run a program of one stage."""
        return self._run([function], tasks)

    def two_stages(self, first: Function, second: Function, tasks: Iterable[Any]) -> Iterator[Any]:
        """Run a program of two stages; what waits for its second goes first."""
        return self._run([first, second], tasks)

    def _run(self, functions: list[Function], tasks: Iterable[Any]) -> Iterator[Any]:
        """Keep one task in flight per process."""
        self._stage(functions)
        last = len(functions) - 1
        waiting: list[tuple[int, Any]] = []
        unstarted = ((0, task) for task in tasks)
        idle = list(self._channels.values())
        while True:
            while idle and (message := waiting.pop() if waiting else next(unstarted, None)):
                idle.pop().send(message)
            if len(idle) == len(self._channels):
                return
            for descriptor, _ in self._poll.poll():
                channel = self._channels[descriptor]
                stage, result = channel.recv()
                idle.append(channel)
                if stage < last:
                    waiting.append((stage + 1, result))
                else:
                    yield result

    def _stage(self, functions: list[Function]) -> None:
        """Send the functions once."""
        if functions != self._staged:
            for channel in self._channels.values():
                channel.send(functions)
            self._staged = functions

    def one(self, function: Function, task: Any) -> Any:
        """Send one task and wait for its result."""
        self._stage([function])
        channel = next(iter(self._channels.values()))
        channel.send((0, task))
        return channel.recv()[1]

    def stop(self) -> None:
        """Hang up: the processes end by themselves."""
        for channel in self._channels.values():
            channel.close()


def start(variant: str) -> PipesFarm:
    """Start two processes."""
    return PipesFarm(_connect_tls if variant == "tls" else _connect)
