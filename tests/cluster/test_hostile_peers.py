"""Peers that mean no good, strangers and members, do not stop an executor from serving its users."""

from __future__ import annotations

import os
import secrets
import socket
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import pytest
from cluster.grid import PATIENCE, Executor, Grid
from cluster.spaces import Served

from laboratory.lab import Host
from laboratory.processes import until

#: What a manager's control link begins with, in the clear, before TLS.
PREAMBLE = b"phlnx\x01" + bytes(17)
#: How a TLS record with a ClientHello of 512 bytes begins.
HELLO = bytes.fromhex("16030102000100")
ATTACKS = {
    "random bytes": secrets.token_bytes(100_000),
    "all ones": b"\xff" * 100_000,
    "http": b"GET / HTTP/1.1\r\nHost: left\r\n\r\n",
    "silence": b"",
    "half a preamble": PREAMBLE[:10],
    "silence after the preamble": PREAMBLE,
    "random bytes after the preamble": PREAMBLE + secrets.token_bytes(100_000),
    "half a hello": PREAMBLE + HELLO,
    "a record of 64 KiB": PREAMBLE + bytes.fromhex("160303ffff") + bytes(70_000),
    "a token that was never given": b"phlnx\x01\x01" + secrets.token_bytes(16) + HELLO,
}


def memory(pid: int) -> int:
    """Resident bytes of a process (proc(5), statm)."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_files(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def attack(villain: Host, server: Executor | Served, messages: Iterable[bytes]) -> None:
    """Send each message on a connection of its own, and hold these open until the lab closes."""
    for message in messages:
        peer = villain.connect(server.host.address, server.port)
        peer.setblocking(False)
        with suppress(BlockingIOError, ConnectionError):  # it may have hung up on us already
            peer.send(message)


def come_and_go(villain: Host, server: Executor | Served) -> None:
    """Connect 300 times, each ended by a reset instead of a farewell; wait until the server has nothing open of it."""
    before = open_files(server.process.pid)
    for _ in range(300):
        with villain.connect(server.host.address, server.port) as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    until(lambda: open_files(server.process.pid) <= before, timeout=PATIENCE, what="closed connections")


@pytest.mark.parametrize("name", ATTACKS)
def test_strangers_do_not_stop_an_executor(grid: Grid, name: str) -> None:
    left, villain = grid.executors("left")[0], grid.desk.lab.host("villain")
    before = memory(left.process.pid)
    attack(villain, left, [ATTACKS[name]] * 300)
    grid.farm([left], degree=2).complete()
    assert memory(left.process.pid) - before < 100 << 20
    assert "panicked" not in left.process.stderr()


def flipped(payload: bytes, at: int) -> bytes:
    return payload[:at] + bytes([payload[at] ^ 1]) + payload[at + 1 :]


def test_a_conversation_that_was_overheard_opens_no_door(grid: Grid) -> None:
    """Whole, cut short, or with a bit turned over: nothing of it is run again, and nothing breaks."""
    left, villain = grid.executors("left")[0], grid.desk.lab.host("villain")
    with left.host.cable.capture() as capture:
        farm = grid.farm([left], degree=2)
        farm.complete()
    fired = len(farm.fired())
    heard = [payload for flow, payload in capture.flows().items() if flow[3] == left.port]
    assert len(heard) >= 3  # the control link and two data links
    for payload in heard:
        steps = range(1, len(payload), max(1, len(payload) // 50))
        attack(villain, left, [payload])
        attack(villain, left, (payload[:at] for at in steps))
        attack(villain, left, (flipped(payload, at) for at in steps))
    grid.farm([left], degree=2).complete()
    assert len(farm.fired()) == fired
    assert "panicked" not in left.process.stderr()


def test_a_peer_that_comes_and_goes_leaves_nothing_open(grid: Grid) -> None:
    left, villain = grid.executors("left")[0], grid.desk.lab.host("villain")
    come_and_go(villain, left)
    grid.farm([left], degree=2).complete()


NONSENSE: dict[str, Callable[[], bytes]] = {
    "random bytes": lambda: secrets.token_bytes(1000),
    "all ones": lambda: b"\xff" * 1000,
    "zeros": lambda: bytes(1000),
    "a huge length and nothing after it": lambda: b"\xff" * 16,
}


@pytest.mark.parametrize("name", NONSENSE)
def test_a_member_that_talks_nonsense_harms_only_itself(grid: Grid, name: str) -> None:
    left = grid.executors("left")[0]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(grid.issue("mallory", role="user"))
    before = memory(left.process.pid)
    for _ in range(20):
        plain = grid.desk.connect(left.host.address, left.port)
        plain.sendall(PREAMBLE)
        link = grid.desk.lab.keep(context.wrap_socket(plain))
        with suppress(OSError):  # it may have hung up on us already
            link.sendall(NONSENSE[name]())
    grid.farm([left], degree=2).complete()
    assert memory(left.process.pid) - before < 100 << 20
    assert "panicked" not in left.process.stderr()
