"""Ranks that fork: the child has no part in the program, and whatever it does, its parent goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PHALANX = str(Path(sys.executable).with_name("phalanx"))
HERE = Path(__file__).parent
#: How bytes get from rank to rank.
WAYS = {
    "memory": [],
    "clear": ["--transport", "sockets", "--level", "clear"],
    "safe": ["--transport", "sockets", "--level", "safe"],
    "private": ["--transport", "sockets", "--level", "private"],
}
way = pytest.mark.parametrize("way", WAYS)


def run(way: str, *program: str, command: str = "mpirun") -> subprocess.CompletedProcess[str]:
    """Two ranks, which both go on."""
    start = [PHALANX, command, "-n", "2", "--no-prefix", *WAYS[way], *program]
    done = subprocess.run(start, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.count("went on\n")) == (0, 2), done.stdout + done.stderr
    return done


def python(way: str, *words: str) -> str:
    command = "mpirun" if words[0] == "mpi" else "bsprun"
    return run(way, sys.executable, str(HERE / "fork_program.py"), *words, command=command).stdout


@way
@pytest.mark.parametrize("how", ["fork", "multiprocessing", "subprocess", "preexec"])
@pytest.mark.parametrize("model", ["mpi", "bsp"])
def test_a_child_that_ends_leaves_its_parent_alone(model: str, how: str, way: str) -> None:
    assert "child 0\n" in python(way, model, how, "nothing")


@way
@pytest.mark.parametrize("how", ["fork", "multiprocessing"])
@pytest.mark.parametrize(("model", "attempts"), [("mpi", 11), ("bsp", 2)])
def test_a_child_that_communicates_is_told_why_it_cannot(model: str, attempts: int, how: str, way: str) -> None:
    said = python(way, model, how, "send")
    assert "child 0\n" in said
    assert "not refused" not in said
    assert said.count("refused:") == attempts
    assert said.count("this process is a fork") >= attempts - 1, said  # MPI_Init says that it was called before


@pytest.mark.skipif(sys.platform != "linux", reason="a system call of Linux")
@pytest.mark.parametrize("way", ["clear", "safe", "private"])
def test_a_child_that_no_handler_sees_sends_nothing(way: str) -> None:
    """Otherwise parent and child would protect two blocks under one key and number, which together show their bytes."""
    start = [PHALANX, "mpirun", "-n", "2", "--no-prefix", *WAYS[way], sys.executable, str(HERE / "fork_program.py")]
    done = subprocess.run([*start, "without-handlers"], capture_output=True, text=True, timeout=60, check=False)
    said = done.stdout + done.stderr
    assert (done.returncode, done.stdout.count("went on\n"), done.stdout.count("refused:")) == (0, 2, 1), said


@way
def test_a_child_that_falls_out_of_the_supersteps_leaves_its_parent_alone(way: str) -> None:
    assert "child 0\n" in python(way, "falls-out")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program in C."""
    program = tmp_path_factory.mktemp("forks") / "forks"
    compiling = [PHALANX, "mpicc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", str(HERE / "mpi" / "forks.c")]
    subprocess.run([*compiling, "-o", str(program)], check=True, timeout=60)
    return str(program)


@way
@pytest.mark.parametrize(
    ("what", "code", "words"),
    [
        ("exit", 0, ""),
        ("finalize", 0, ""),
        ("abort", 5, "MPI_Abort was called with error code 5"),
        ("send", 16, "MPI_Send: this process is a fork of a process of the program, and has no part in it"),
        ("return", 0, ""),
    ],
)
def test_a_child_of_a_program_in_c(program: str, what: str, code: int, words: str, way: str) -> None:
    done = run(way, program, what)
    assert f"child {code}\n" in done.stdout
    assert words in done.stderr
