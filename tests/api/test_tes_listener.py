"""The listener of the Task Execution Service: how many connections it takes, and for how long."""

from __future__ import annotations

import functools
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.request import urlopen

import pytest
from phalanx.tes import interface
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from laboratory.processes import until

MOST = 8


@pytest.fixture(params=["127.0.0.1", "::1"])
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    monkeypatch.setattr(interface, "_MOST_CONNECTIONS", MOST)
    hello = Starlette(routes=[Route("/", lambda _: PlainTextResponse("hello"))])
    served = interface.Server(hello, request.param, 0, None)
    yield request.param, served.port
    served.close()


def test_connections_are_bounded_before_they_say_anything(server: tuple[str, int]) -> None:
    host, port = server
    with ExitStack() as ends:
        opened = [ends.enter_context(socket.create_connection(server)) for _ in range(3 * MOST)]
        until(lambda: sum(map(is_ended, opened)) >= 2 * MOST - 1, timeout=60, what="the end of the others")
        assert not is_ended(opened[0])
    url = f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"

    def is_served() -> bool:
        try:
            with urlopen(url, timeout=10) as answer:
                return bool(answer.read() == b"hello")
        except OSError:
            return False

    until(is_served, timeout=60, what="an answer")


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """A server with a timeout of a second, which answers without reading a body."""
    monkeypatch.setattr(interface, "_PATIENCE", 1)

    async def hello(request: Request) -> PlainTextResponse:
        return PlainTextResponse("hello")

    routes = [Route("/", hello, methods=["GET", "POST"])]
    served = interface.Server(Starlette(routes=routes), "127.0.0.1", 0, None)
    yield "127.0.0.1", served.port
    served.close()


HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n"
UPLOAD = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"


@pytest.mark.parametrize(
    ("request_", "more"),
    [
        (HEAD + b"\r\n", b"G"),
        (HEAD + b"\r\n", HEAD),
        (HEAD + b"\r\n", b"\r\n"),
        (HEAD.replace(b"/ ", b"/nowhere ") + b"\r\n", b"G"),
        (UPLOAD, b"x"),
    ],
)
def test_a_connection_ends_after_bytes_that_are_no_request(
    hasty: tuple[str, int], request_: bytes, more: bytes
) -> None:
    with socket.create_connection(hasty) as connection:
        connection.settimeout(30)
        connection.sendall(request_)
        assert connection.recv(1 << 16)
        time.sleep(0.2)
        connection.sendall(more)
        until(lambda: is_ended(connection), timeout=20, what="the end of the connection")


def test_a_connection_lasts_while_it_has_requests(hasty: tuple[str, int]) -> None:
    with socket.create_connection(hasty) as connection:
        connection.settimeout(30)
        for _ in range(4):
            connection.sendall(HEAD)
            time.sleep(0.4)
            connection.sendall(b"\r\n")
            answer = b""
            while not answer.endswith(b"hello"):
                answer += connection.recv(1 << 16)


def test_strangers_write_nothing_into_the_log(hasty: tuple[str, int], caplog: pytest.LogCaptureFixture) -> None:
    chunked = UPLOAD.replace(b"Content-Length: 1000", b"Transfer-Encoding: chunked")
    upgrade = HEAD + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    with caplog.at_level(logging.DEBUG):
        for first, more in [
            (b"\0\0\r\n\r\n", b""),
            (HEAD + b"\r\n", b"\0\r\n\r\n"),
            (chunked, b"?\r\n"),
            (upgrade, b""),
        ]:
            with socket.create_connection(hasty) as connection:
                connection.settimeout(30)
                connection.sendall(first)
                assert connection.recv(1 << 16)
                if more:
                    time.sleep(0.1)
                    connection.sendall(more)
                until(functools.partial(is_over, connection), timeout=20, what="the end of the connection")
    found = [it.getMessage() for it in caplog.records if it.levelno >= logging.WARNING]
    assert found == []


def is_over(connection: socket.socket) -> bool:
    """Whether the server has ended a connection, after all that it has sent."""
    connection.settimeout(0.01)
    try:
        while connection.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True
    return True


def is_ended(connection: socket.socket) -> bool:
    """Whether the server has ended a connection."""
    connection.settimeout(0.01)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True
