"""Spaces between machines: shared, and whole again whatever is killed or cut off."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster.grid import PATIENCE, PHALANX, Grid
from cluster.spaces import Served, Use, serve

from laboratory.processes import until


def test_machines_share_a_space(grid: Grid) -> None:
    server = serve(grid, "left")
    right = grid.desk.lab.host("right")
    taker = Use(grid, server.space(), "take", host=right)
    assert taker.first("waits")
    Use(grid, server.space(), "put", texts=["hello"]).first("put")
    assert taker.first("got") == ["task", 0, "hello"]
    assert taker.process.wait(timeout=PATIENCE) == 0


def test_executors_serve_spaces_and_the_command_line_shows_them(grid: Grid) -> None:
    left = grid.executors("left")[0]
    space = f"{left.address}/results"
    made = grid.phalanx("space", "create", space, "--order", "fifo", "--index", "0,1", "--json")
    assert json.loads(made.stdout())["options"]["order"] == "fifo"
    Use(grid, space, "put", texts=["a", "b"]).first("put")
    shown = json.loads(grid.phalanx("space", "info", space, "--json").stdout())
    assert (shown["tuples"], shown["outs"], shown["level"]) == (2, 2, "private")
    assert "str, int, str" in grid.phalanx("space", "info", space).stdout()
    assert "0.0 out, 0.0 read" in grid.phalanx("space", "info", space, "--rates", "0.1").stdout()
    again = grid.desk.run([PHALANX, "space", "create", space], env=grid.env, check=False)
    assert again.code == 3
    missing = grid.desk.run([PHALANX, "space", "info", f"{left.address}/none"], env=grid.env, check=False)
    assert missing.code == 1
    assert "there is none of this name" in missing.stderr()


@pytest.mark.parametrize("what", ["take", "hold"])
@pytest.mark.parametrize("cut", [False, True])
def test_a_taker_that_is_gone_has_taken_nothing(grid: Grid, what: str, cut: bool) -> None:
    """Blocked, or between the answer and its acknowledgement; killed, or cut off without a word."""
    server = serve(grid, "left")
    right = grid.desk.lab.host("right")
    watching = Use(grid, server.space(), "look")
    taker = Use(grid, server.space(), what, host=right)
    watching.sees(0, 1, 0)

    def lose() -> None:
        if cut:
            right.cable.silence()
        taker.process.kill()

    if what == "take":
        lose()
        if not cut:
            watching.sees(0, 0, 0)
    Use(grid, server.space(), "put", texts=["hello"]).first("put")
    if what == "hold":
        taker.first("got")
        watching.sees(0, 0, 1)
        lose()
    watching.sees(1, 0, 0)
    heir = Use(grid, server.space(), "take")
    assert heir.first("got") == ["task", 0, "hello"]
    watching.sees(0, 0, 0)


def kill_server(server: Served) -> None:
    server.process.signal(signal.SIGKILL)


def silence_server(server: Served) -> None:
    server.host.cable.silence()


@pytest.mark.parametrize("fault", [kill_server, silence_server])
def test_who_waits_for_a_server_that_is_gone_is_told(grid: Grid, fault: Callable[[Served], None]) -> None:
    server = serve(grid, "left")
    taker = Use(grid, server.space(), "take")
    taker.first("waits")
    fault(server)
    kind, text = taker.first("error")
    assert kind == "SpaceLostError"
    assert "the connection to the space" in text
    assert taker.process.wait(timeout=PATIENCE) == 1
    late = Use(grid, server.space(), "put", texts=["x"])
    kind, text = late.first("error")
    assert kind == "SpaceError"
    assert server.space().partition("/")[0] in text


def test_a_killed_servers_socket_is_no_obstacle(grid: Grid) -> None:
    """The next one at the same port is reached by path, and removes what the first one left."""
    desk = grid.desk
    command: list[str | Path] = [PHALANX, "space", "serve", "--address", "127.0.0.1:7411"]
    for _ in range(2):
        server = desk.popen(command)
        server.line("listening on ")
        used = Use(grid, "127.0.0.1:7411/tasks", "rate")
        assert used.first("level") == "clear"
        assert used.first("served") == 100
        assert len(list((desk.home / "phalanx").iterdir())) == 1
        server.kill()
    nobody = Use(grid, "127.0.0.1:7411/tasks", "rate")
    assert "phalanx space serve" in nobody.first("error")[1]
    until(lambda: nobody.process.code == 1, timeout=PATIENCE, what="its end")


def test_ctrl_c_ends_a_wait_and_a_server_at_once(grid: Grid) -> None:
    server = serve(grid, "left")
    watching = Use(grid, server.space(), "look")
    taker = Use(grid, server.space(), "take")
    watching.sees(0, 1, 0)
    taker.process.signal(signal.SIGINT)
    taker.process.wait(timeout=PATIENCE)
    assert "KeyboardInterrupt" in taker.process.stderr()
    watching.sees(0, 0, 0)
    server.process.signal(signal.SIGINT)
    assert server.process.wait(timeout=PATIENCE) == 0
    assert server.process.stderr() == ""
