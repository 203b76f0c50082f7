"""The listener of the Task Execution Service: how many connections it takes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.request import urlopen

import pytest
from phalanx.tes import interface
from starlette.applications import Starlette
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


def is_ended(connection: socket.socket) -> bool:
    """Whether the server has ended a connection."""
    connection.settimeout(0.01)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True
