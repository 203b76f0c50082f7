"""What an executor tells its machine's owner."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import phalanx as px
from api.executors import Executors

from laboratory.processes import until

LINE = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} (DEBUG|INFO|WARNING) .+"


def test_ordinary_use_is_logged_with_times_and_refuses_no_peer(tmp_path: Path) -> None:
    with Executors(tmp_path) as grid:
        address = grid.start("labpc")
        with px.Manager(address, identity=grid.identity) as manager:
            assert manager.submit(os.getpid).result(60) > 0
        grid.start("other")  # which looks for what dead servers of this user have left
        with px.Space(f"{address}/todo", identity=grid.identity) as space:
            space.out("one", 1)
        log = grid.started[0].stderr
        until(lambda: "ada is gone" in log(), timeout=30, what="the end of the manager's link")
        lines = log().rpartition("\n")[0].splitlines()  # the last one may be half written
        assert all(re.fullmatch(LINE, line) for line in lines), lines
        assert not [line for line in lines if " WARNING " in line], lines
        assert any(line.endswith(" INFO serving ada") for line in lines)


def test_the_level_chooses_what_is_logged(tmp_path: Path) -> None:
    with Executors(tmp_path) as grid:
        addresses = [grid.start(level, "--log-level", level) for level in ("debug", "warning")]
        for address in addresses:
            host, _, port = address.rpartition(":")
            socket.create_connection((host, int(port))).close()
            with socket.create_connection((host, int(port))) as stranger:
                stranger.sendall(b"GET / HTTP/1.0\r\n\r\n".ljust(23))
                assert stranger.recv(1) == b""
        debug, warning = (process.stderr for process in grid.started)
        until(lambda: "left before it was served" in debug(), timeout=30, what="the peer that left")
        until(lambda: "does not speak phalanx" in warning(), timeout=30, what="the peer that was refused")
        assert [line.split()[2] for line in warning().splitlines()] == ["WARNING"]


def test_a_flood_of_refused_peers_is_a_few_lines(tmp_path: Path) -> None:
    with Executors(tmp_path) as grid:
        host, _, port = grid.start("labpc").rpartition(":")
        for _ in range(300):
            with socket.create_connection((host, int(port))) as stranger:
                stranger.sendall(b"GET / HTTP/1.0\r\n\r\n".ljust(23))
                assert stranger.recv(1) == b""
        log = grid.started[0].stderr
        until(lambda: "does not speak phalanx" in log(), timeout=30, what="the peers that were refused")
        lines = [line for line in log().splitlines() if "does not speak phalanx" in line]
        # Five in a minute, a count at its end, and the flood may last for a minute.
        assert len(lines) <= 2 * 6, lines


def test_a_manager_that_goes_while_an_interpreter_begins_leaves_no_traceback(tmp_path: Path) -> None:
    with Executors(tmp_path) as grid:
        address = grid.start("labpc")
        for _ in range(20):
            with px.Manager(address, contract=px.ParDegree(2), identity=grid.identity) as manager:
                assert manager.submit(os.getpid).result(60) > 0
        assert "Traceback" not in grid.started[0].stderr()
