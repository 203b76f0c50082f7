"""Processes that programs start themselves, and groups that find each other at ports."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from conftest import Eventually, has_ended
from phalanx._commands import library_variables

from laboratory.processes import Process

PHALANX = str(Path(sys.executable).with_name("phalanx"))
PROGRAM = str(Path(__file__).with_name("spawn_program.py"))
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"]

Run = Callable[..., "subprocess.CompletedProcess[str]"]
Start = Callable[..., Process]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """`run(2, "tell", options)` starts that part of the program, to its end."""

    def run(ranks: int, *words: str, options: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
        command = [PHALANX, "mpirun", "-n", str(ranks), *options, sys.executable, PROGRAM, *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path)

    return run


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Process]:
    """Two parents and two children that sleep."""
    command = [PHALANX, "mpirun", "-n", "2", sys.executable, PROGRAM, "sleep"]
    process = Process(command, title="mpirun", files=tmp_path / "output", cwd=tmp_path, env=os.environ)
    yield process
    with suppress(ProcessLookupError):
        process.kill()


def groups_of(process: Process) -> list[int]:
    return [int(process.line(f"[{name}] began").split()[2]) for name in ("0", "1", "1:0", "1:1")]


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_parents_and_children_in_c(ranks: int, tmp_path: Path) -> None:
    program, source = tmp_path / "spawn", Path(__file__).with_name("mpi") / "spawn.c"
    subprocess.run([PHALANX, "mpicc", *STRICT, str(source), "-o", str(program)], check=True, timeout=60)
    command = [PHALANX, "mpirun", "-n", str(ranks), str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_what_children_write_is_told_apart(run: Run, tmp_path: Path) -> None:
    done = run(2, "tell", options=("--output", "said"))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0] parent", "[1:0] child", "[1:1] child", "[1] parent"]
    assert sorted(done.stderr.splitlines()) == ["[1:0] wrong", "[1:1] wrong"]
    assert (tmp_path / "said" / "1-1.out").read_text() == "child\n"


def test_what_cannot_be_started_is_told(run: Run) -> None:
    done = run(2, "cannot", sys.executable, "-c", "raise SystemExit(5)")
    assert done.returncode == 0, done.stderr
    words = "MPI_Comm_spawn: process [01] of 2 "
    for rank in range(2):
        told = [line for line in done.stdout.splitlines() if line.startswith(f"[{rank}]")]
        assert re.search(rf"True .*{words}exited with status 5", told[0]), told
        assert re.search(rf"True .*{words}cannot be started: the program .* is not found", told[1]), told


@pytest.mark.parametrize(("how", "code"), [("abort", 7), ("exit", 6), ("kill", 137)])
def test_a_child_that_fails_ends_all(run: Run, how: str, code: int) -> None:
    done = run(2, "fail", how)
    assert done.returncode == code, done.stdout + done.stderr
    assert re.search(r"phalanx: rank 1 of spawned world 1 on \S+ (aborted|exited|was killed)", done.stderr), done.stderr


def test_parents_that_keep_going_hear_of_a_childs_loss(run: Run) -> None:
    done = run(2, "fail", "kill", options=("--keep-going",))
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(done.stdout.splitlines()) == ["[0] heard True", "[1] heard True"]


def test_ctrl_c_ends_parents_and_children(start: Process, eventually: Eventually) -> None:
    groups = groups_of(start)
    start.signal(signal.SIGINT)
    assert start.wait(timeout=30) == 130
    for group in groups:
        eventually(partial(has_ended, group), what="the end of a process")


def test_nothing_is_left_when_the_launcher_is_killed(start: Process, eventually: Eventually) -> None:
    groups = groups_of(start)
    start.kill()
    for group in groups:
        eventually(partial(has_ended, group), what="the end of a process")


def test_worlds_that_come_and_go_leave_no_open_files(run: Run) -> None:
    done = run(1, "many")
    assert done.stdout.splitlines() == ["[0] own True", "[0] launcher's True"], done.stderr


def test_children_that_nobody_speaks_to_may_leave_first(run: Run) -> None:
    done = run(2, "forget")
    assert (done.returncode, sorted(done.stdout.splitlines())) == (0, ["[0] went on", "[1] went on"]), done.stderr


def test_grandchildren_find_a_service(run: Run) -> None:
    done = run(1, "find")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[0] ['grandchild 0', 'grandchild 1', 'grandchild 2']\n"


def test_processes_meet_that_neither_spawned_the_other(run: Run) -> None:
    done = run(3, "widen")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"[{rank}] sum 2" for rank in range(3)]


def test_where_processes_cannot_be_spawned_that_is_told(run: Run) -> None:
    done = run(2, "tell", options=("--transport", "sockets"))
    assert done.returncode != 0
    assert "MPI_Comm_spawn: processes are spawned by programs whose ranks share memory" in done.stderr
    env = os.environ | library_variables()
    alone = subprocess.run([sys.executable, PROGRAM, "tell"], env=env, capture_output=True, text=True, timeout=60)
    assert alone.returncode != 0
    assert "this process has no launcher: start it with phalanx mpirun" in alone.stderr
