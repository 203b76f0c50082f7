"""Peers that mean no good do not stop a server of spaces from serving others."""

from __future__ import annotations

import secrets
import ssl
from contextlib import suppress

import pytest
from cluster.grid import Grid
from cluster.spaces import Use, serve
from cluster.test_hostile_peers import HELLO, NONSENSE, attack, come_and_go, memory

#: What a client that proves who it is begins with, and one that does not.
PREAMBLE, SHOWS_NOTHING = b"phlnx\x01\x02" + b"\1" * 16, b"phlnx\x01\x02" + bytes(16)
ATTACKS = {
    "random bytes": secrets.token_bytes(100_000),
    "silence": b"",
    "silence after the preamble": PREAMBLE,
    "random bytes after the preamble": PREAMBLE + secrets.token_bytes(100_000),
    "half a hello": PREAMBLE + HELLO,
    "a clear link without a name": SHOWS_NOTHING + bytes(100),
    "a control link": b"phlnx\x01" + bytes(17),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_strangers_do_not_stop_a_server(grid: Grid, name: str) -> None:
    server, villain = serve(grid, "left"), grid.desk.lab.host("villain")
    before = memory(server.process.pid)
    attack(villain, server, [ATTACKS[name]] * 300)
    assert Use(grid, server.space(), "rate").first("served") == 100
    assert memory(server.process.pid) - before < 100 << 20
    assert "panicked" not in server.process.stderr()


def test_a_peer_that_comes_and_goes_leaves_nothing_open(grid: Grid) -> None:
    server, villain = serve(grid, "left"), grid.desk.lab.host("villain")
    come_and_go(villain, server)
    assert Use(grid, server.space(), "rate").first("served") == 100


@pytest.mark.parametrize("name", NONSENSE)
def test_a_member_that_talks_nonsense_harms_only_itself(grid: Grid, name: str) -> None:
    server = serve(grid, "left")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(grid.issue("mallory", role="user"))
    for _ in range(20):
        plain = grid.desk.connect(server.host.address, server.port)
        plain.sendall(PREAMBLE)
        link = grid.desk.lab.keep(context.wrap_socket(plain))
        with suppress(OSError):  # it may have hung up on us already
            link.sendall(NONSENSE[name]())
    assert Use(grid, server.space(), "rate").first("served") == 100
    assert "panicked" not in server.process.stderr()


def test_who_floods_fills_its_own_space_and_no_more(grid: Grid) -> None:
    server = serve(grid, "left", "--most-bytes", str(50 << 20))
    before = memory(server.process.pid)
    floods = [Use(grid, server.space(), "flood") for _ in range(2)]
    other = Use(grid, server.space("other"), "rate")
    assert other.first("served") == 100
    for flood in floods:
        assert flood.first("refused") == [1, "SpaceFullError"]
    assert Use(grid, server.space("other"), "rate").first("served") == 100
    assert memory(server.process.pid) - before < 250 << 20
