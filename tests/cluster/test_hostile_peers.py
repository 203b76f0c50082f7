"""Peers that mean no good do not stop an executor from serving its users."""

from __future__ import annotations

import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path

import pytest
from cluster.grid import PATIENCE, Grid
from cluster.processes import until

HELLO = bytes.fromhex("16030102000100")  # how a TLS ClientHello of 512 bytes begins
HOSTILE = {
    "random bytes": secrets.token_bytes(100_000),
    "huge length": b"\xff" * 64,
    "huge record": bytes.fromhex("160303ffff") + bytes(70_000),
    "half a hello": HELLO,
    "http": b"GET / HTTP/1.1\r\nHost: left\r\n\r\n",
    "nothing": b"",
}


def memory(pid: int) -> int:
    """Resident bytes of a process (proc(5), statm)."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("attack", HOSTILE)
def test_hostile_peers_do_not_stop_an_executor(grid: Grid, attack: str) -> None:
    left = grid.executors("left")[0]
    villain = grid.desk.lab.host("villain")
    before = memory(left.process.pid)
    for _ in range(200):  # held open until the lab closes
        peer = villain.connect(left.host.address, left.port)
        peer.setblocking(False)
        with suppress(
            BlockingIOError, ConnectionResetError, BrokenPipeError
        ):  # it may have hung up on us already
            peer.send(HOSTILE[attack])
    grid.farm([left], degree=2).complete()
    assert memory(left.process.pid) - before < 100 << 20
    assert left.process.code is None


def test_a_peer_that_comes_and_goes_leaves_nothing_open(grid: Grid) -> None:
    left = grid.executors("left")[0]
    villain = grid.desk.lab.host("villain")
    descriptors = Path(f"/proc/{left.process.pid}/fd")
    before = len(list(descriptors.iterdir()))
    for _ in range(300):
        with villain.connect(left.host.address, left.port) as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # ends with a reset
    until(lambda: len(list(descriptors.iterdir())) <= before + 2, timeout=PATIENCE, what="closed connections")
    grid.farm([left], degree=2).complete()
