"""The places of an executor belong to a program: its models share them, other programs do not."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import phalanx as px
import pytest
from api.executors import PHALANX, Executors


@pytest.fixture
def grid(tmp_path: Path) -> Iterator[Executors]:
    with Executors(tmp_path) as made:
        yield made


def mpirun(
    address: str, identity: Path, count: int, *, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    options = ["--hosts", address, "--identity", str(identity), "-n", str(count)]
    command = [PHALANX, "mpirun", *options, "echo", "hello"]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_ranks_of_a_program_use_the_places_of_its_managers_interpreters(grid: Executors) -> None:
    address = grid.start("labpc", interpreters=2)
    with px.Manager(address, identity=grid.identity) as manager:
        assert manager.submit(os.getpid).result(60) > 0
        done = mpirun(address, grid.identity, 2)
        assert (done.returncode, sorted(done.stdout.splitlines())) == (0, ["[0] hello", "[1] hello"]), done.stderr
        assert manager.submit(os.getpid).result(60) > 0
        too_many = mpirun(address, grid.identity, 3)
        assert "3 processes were asked for, but 2 places are free" in too_many.stderr


def test_an_executor_offers_the_cores_that_it_may_use(tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    with Executors(tmp_path, ["taskset", "--cpu-list", str(core)]) as grid:
        done = mpirun(grid.start("labpc", interpreters=None), grid.identity, 2)
        assert "2 processes were asked for, but 1 places are free" in done.stderr


def test_other_programs_get_no_place_that_is_in_use(grid: Executors) -> None:
    address = grid.start("labpc", interpreters=2)
    with px.Manager(address, identity=grid.identity) as manager:
        assert list(manager.map(abs, [-1, -2])) == [1, 2]
        another = {name: value for name, value in os.environ.items() if name != "PHALANX_PROGRAM"}
        # Of two places, eve's share is one.
        cases = ((grid.identity, another, 1, "your own programs"), (grid.user("eve"), None, 2, "another user"))
        for identity, env, n, who in cases:
            done = mpirun(address, identity, n, env=env)
            assert done.returncode == 1
            held = f"labpc has 0 (2 of 2 places are taken, 2 by {who})"
            assert f"{n} processes were asked for, but 0 places are free: {held}" in done.stderr


def test_who_is_not_served_reads_the_reason(grid: Executors) -> None:
    address = grid.start("pickypc", "--accept", "bob")
    reason = "the user ada is not among those accepted here"
    with pytest.raises(px.errors.RecruitError, match=f"refused this user: {reason}"):
        px.Manager(address, identity=grid.identity).submit(os.getpid).result(60)
    assert reason in mpirun(address, grid.identity, 1).stderr
