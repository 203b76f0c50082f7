"""Levels between machines: who gets which, what a listener can read, and what an attacker on the wire achieves."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from cluster.grid import PATIENCE, Executor, Farm, Grid

from laboratory.capture import Capture
from laboratory.lab import Host
from laboratory.processes import until

EVERYWHERE = "10.77.0.0/16"
PREAMBLE_OF_DATA = b"phlnx\x01\x01"


def levels(summary: dict[str, Any]) -> dict[str, str]:
    """The level of each machine's links."""
    return {it["machine"].partition(":")[0]: it["level"] for it in summary["interpreters"]}


def rules(grid: Grid, text: str) -> str:
    file = grid.desk.home / "rules.toml"
    file.write_text(text)
    return str(file)


def trusting(grid: Grid, name: str) -> Executor:
    """An executor whose owner trusts the laboratory."""
    return grid.executor(grid.desk.lab.host(name), options=["--trusted", EVERYWHERE])


def test_in_a_mixed_grid_every_pair_talks_at_the_level_of_its_link(grid: Grid) -> None:
    near, far = trusting(grid, "near"), trusting(grid, "far")
    wary = grid.executor(grid.desk.lab.host("wary"))
    trusted = [f"{near.host.address}/32", f"{wary.host.address}/32"]
    marker = secrets.token_hex(500)
    with near.host.cable.capture() as by_near, far.host.cable.capture() as by_far:
        farm = grid.farm([near, far, wary], degree=6, trusted=trusted, task_marker=marker)
        summary = farm.complete()
    expected = {near.host.address: "clear", far.host.address: "private", wary.host.address: "safe"}
    assert levels(summary) == expected
    assert all(farm.interpreters(name) for name in ("near", "far", "wary"))
    assert by_near.saw(marker[:32].encode()), "a clear link can be read, or this test proves nothing"
    assert not by_far.saw(marker[:32].encode())
    why = {it["machine"].partition(":")[0]: it["why"][0] for it in summary["interpreters"]}
    assert why[wary.host.address] == "the other end takes no less than safe"
    assert {line["level"] for line in summary["bill"]["lines"]} == {"clear", "safe", "private"}


def test_an_executor_is_not_talked_into_a_weaker_level(grid: Grid) -> None:
    executor = grid.executor(grid.desk.lab.host("left"))
    weak = rules(grid, '[[rule]]\nnever = "safe"\n[[rule]]\nnever = "private"\n')
    kind, text = grid.farm([executor], degree=1, policy=weak).failure()
    assert kind == "RecruitError"
    assert "this end takes clear, authenticated, the other safe, private" in text


MARKED = "marked"


def secret_farm(grid: Grid, executors: list[Executor], found: dict[str, str], **options: Any) -> Farm:
    """A farm whose program, tasks and results hold what must not be read."""
    markers = {"task_marker": found["task"], "code_marker": found["code"]}
    return grid.farm(executors, policy=MARKED, secure="both", **markers, **options)


def nobody_saw(captures: list[Capture], found: dict[str, str]) -> None:
    for name, marker in found.items():
        for capture in captures:
            for part in range(0, len(marker) - 32, 32):
                assert not capture.saw(marker[part : part + 32].encode()), f"{name} was readable"


def kill_an_interpreter(farm: Farm, executor: Executor) -> None:
    os.kill(next(iter(farm.interpreters(executor.host.name))), signal.SIGKILL)


def pull_the_cable(farm: Farm, executor: Executor) -> None:
    executor.host.cable.silence()


@pytest.mark.parametrize("fault", [None, kill_an_interpreter, pull_the_cable])
def test_marked_code_and_data_are_never_readable_on_untrusted_links(grid: Grid, fault: Any) -> None:
    """Under `marked` the links themselves are only safe: what is marked must be private all the same."""
    found = {"task": secrets.token_hex(500), "code": secrets.token_hex(500)}
    left, right, near = *grid.executors("left", "right"), trusting(grid, "near")
    with left.host.cable.capture() as one, right.host.cable.capture() as two, near.host.cable.capture() as three:
        trusted = [f"{near.host.address}/32"]
        farm = secret_farm(grid, [left, right, near], found, degree=6, trusted=trusted, count=600)
        if fault is not None:
            until(lambda: farm.interpreters("right"), timeout=PATIENCE, what="a result from right")
            fault(farm, right)
        summary = farm.complete()
    assert (summary["lost"] > 0) == (fault is not None)
    assert levels(summary)[left.host.address] == "safe"
    assert three.saw(found["task"][:32].encode()), "the trusted link is clear, or this test proves nothing"
    nobody_saw([one, two], found)


def test_the_exceptions_of_marked_functions_are_not_readable(grid: Grid) -> None:
    found = {"task": secrets.token_hex(500), "code": secrets.token_hex(500)}
    left = grid.executors("left")
    with left[0].host.cable.capture() as capture:
        farm = secret_farm(grid, left, found, degree=1, failing=20)
        assert farm.process.wait(timeout=PATIENCE) == 1
    assert found["task"] in farm.process.stderr()
    nobody_saw([capture], found)


def test_what_is_not_marked_is_readable_but_safe(grid: Grid) -> None:
    """The counterpart of the tests above: without marks the same program can be read."""
    marker = secrets.token_hex(500)
    left = grid.executors("left")
    with left[0].host.cable.capture() as capture:
        summary = grid.farm(left, degree=1, policy=MARKED, task_marker=marker).complete()
    assert levels(summary) == {left[0].host.address: "safe"}
    assert capture.saw(marker[:32].encode())


class Mallory:
    """Stands between a manager and an executor and flips one bit of each data link, once."""

    def __init__(self, host: Host, executor: Executor, after: int) -> None:
        self._host, self._executor, self._after = host, executor, after
        self._listener = host.listen()
        self.altered = 0
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client = self._host.lab.keep(self._listener.accept()[0])
                client.settimeout(None)
                server = self._host.connect(self._executor.host.address, self._executor.port)
                server.settimeout(None)
                beginning = client.recv(23, socket.MSG_WAITALL)
                server.sendall(beginning)
                # One alteration, else nothing would ever be computed.
                alters = beginning.startswith(PREAMBLE_OF_DATA) and not self.altered
                for source, target, flips in ((client, server, False), (server, client, alters)):
                    threading.Thread(target=self._relay, args=(source, target, flips), daemon=True).start()

    def _relay(self, source: socket.socket, target: socket.socket, flips: bool) -> None:
        passed = 0
        with suppress(OSError):
            while received := source.recv(4096):
                data = bytearray(received)
                if flips and passed <= self._after < passed + len(data):
                    data[self._after - passed] ^= 4
                    self.altered += 1
                passed += len(data)
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


@contextmanager
def mallory_before(grid: Grid, executor: Executor, after: int) -> Iterator[tuple[Mallory, Executor]]:
    host = grid.desk.lab.host("mallory")
    mallory = Mallory(host, executor, after)
    yield mallory, Executor(host, executor.process, mallory.port)


@pytest.mark.parametrize("level", ["safe", "private"])
def test_an_attacker_who_alters_a_bit_changes_no_result(grid: Grid, level: str) -> None:
    policy = rules(grid, f'[[rule]]\npreferred = "{level}"\n')
    with mallory_before(grid, grid.executors("left")[0], after=4000) as (mallory, seen):
        farm = grid.farm([seen], degree=1, policy=policy, task_marker="x" * 500)
        summary = farm.complete()
    assert mallory.altered == 1
    causes = [it["cause"] or "" for it in summary["interpreters"]]
    assert any("not what the other end sent" in cause for cause in causes), causes
    assert {it["level"] for it in summary["interpreters"]} == {level}


def test_explain_tells_what_then_happens(grid: Grid) -> None:
    near, far = trusting(grid, "near"), grid.executor(grid.desk.lab.host("far"))
    hosts = grid.desk.home / "hosts.txt"
    hosts.write_text(f"{near.host.address} {near.port}\n{far.address}\ntrusted {near.host.address}/32\n")
    shown = grid.phalanx("explain", Path(hosts), "--json", "--takes", "clear").stdout()
    summary = grid.farm([near, far], degree=4, trusted=[f"{near.host.address}/32"]).complete()
    for machine, level in levels(summary).items():
        [row] = [line for line in _rows(shown) if line["other"].startswith(machine) and line["one"] == "manager"
                 and line["mark"] == "none"]  # fmt: skip
        assert row["level"] == level


def _rows(text: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(text)
    return rows
