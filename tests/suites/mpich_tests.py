"""MPICH's own tests: every line of its lists of programs, run by one of three libraries.

``phalanx`` is a program built with ``phalanx mpicc``. ``debian`` is one built with Debian's ``mpicc`` for MPICH, which
runs unchanged with our ``libmpich.so.12``. ``mpich`` is the same program run by Debian's MPICH itself: what it fails
is expected to fail, so that the table shows both.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from suites.mpich import BUILDS, DEBIAN, FOLDERS, LEFT_OUT, SUITE, build

PHALANX = str(Path(sys.executable).with_name("phalanx"))
#: Seconds for a program, if its line names no more. The longest of ours take 40 s on a busy machine of two cores.
PATIENCE = 120.0
#: The only lines that a program of the suite prints if all is well.
GOOD = re.compile(r"\s*(No [Ee]rrors|Test Passed)?\s*")


class Program(NamedTuple):
    """A line of a list of MPICH's: what to run, and how to judge."""

    folder: str
    name: str
    ranks: int
    arguments: tuple[str, ...]
    environment: tuple[str, ...]
    seconds: float
    #: How the end is judged: TestStatus and TestErrFatal want an exit status other than 0.
    judge: str

    @property
    def title(self) -> str:
        """The line in a word."""
        return ":".join([f"{self.folder}/{self.name}", str(self.ranks), *self.arguments])


def programs() -> Iterator[Program]:
    """All lines of the lists of all folders."""
    for top in FOLDERS:
        for path in sorted([*(SUITE / top).rglob("testlist"), *(SUITE / top).rglob("testlist.in")]):
            folder = str(path.parent.relative_to(SUITE))
            if folder.startswith(LEFT_OUT):
                continue
            for line in path.read_text().splitlines():
                words = line.split()
                # A word in @ stands for what configure finds out; what it switches on here is listed too.
                name = words[0].rpartition("@")[2] if words else ""
                # MPICH runs no line with xfail= either.
                if name and not name.startswith("#") and not (path.parent / name).is_dir() and "xfail=" not in line:
                    yield program(folder, name, words[1:])


def program(folder: str, name: str, words: list[str]) -> Program:
    """One line."""
    ranks = int(words[0]) if words and words[0].isdecimal() else 2
    options = [word.partition("=")[::2] for word in words if "=" in word]
    arguments = tuple(value for key, value in options if key == "arg")
    environment = tuple(value for key, value in options if key == "env")
    single = dict(options)
    seconds = max(PATIENCE, float(single.get("timeLimit", 0)))
    return Program(folder, name, ranks, arguments, environment, seconds, single.get("resultTest", ""))


def launch(how: str, it: Program) -> tuple[list[str], dict[str, str]]:
    """The command, and its environment."""
    there = os.environ | dict(word.partition("=")[::2] for word in it.environment)
    path = f"./{it.name}"
    if how == "mpich":
        return ["mpiexec.mpich", "-n", str(it.ranks), path, *it.arguments], there
    return [PHALANX, "mpirun", "-n", str(it.ranks), "--no-prefix", path, *it.arguments], there


def run(how: str, it: Program) -> tuple[int | None, str]:
    """The exit status, which is None after the time is up, and what was printed."""
    command, environment = launch(how, it)
    # Programs begin others by the path ./name.
    folder = BUILDS / ("phalanx" if how == "phalanx" else "debian") / it.folder
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
    ) as process:  # fmt: skip
        try:
            told, _ = process.communicate(timeout=it.seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                told, _ = process.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                told, _ = process.communicate()
            return None, told
        return process.returncode, told


def judged(it: Program, code: int | None, told: str) -> str:
    """What is wrong, or nothing."""
    if code is None:
        return f"not done after {it.seconds} s\n{told}"
    if it.judge in ("TestStatus", "TestErrFatal"):
        return "" if code else "exit status 0"
    lines = told.splitlines()
    bad = [line for line in lines if not GOOD.fullmatch(line)]
    good = any("rrors" in line for line in lines)
    return "" if code == 0 and good and not bad else f"exit status {code}\n{told}"


LINES = {line.title: line for line in programs()} if SUITE.exists() else {}


def prepare(how: str, it: Program) -> None:
    """Builds what is not built yet; skips where Debian's compiler is not there."""
    name = "phalanx" if how == "phalanx" else "debian"
    if name == "debian" and shutil.which(DEBIAN) is None:
        pytest.skip("needs Debian's libmpich-dev and mpich")
    build(name, it.folder.partition("/")[0])


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("how", ["phalanx", "debian"])
@pytest.mark.parametrize("title", LINES)
def test_program(title: str, how: str) -> None:
    it = LINES[title]
    prepare(how, it)
    wrong = judged(it, *run(how, it))
    assert not wrong, wrong[-3000:]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("title", LINES)
def test_mpich_itself(title: str) -> None:
    it = LINES[title]
    prepare("mpich", it)
    if wrong := judged(it, *run("mpich", it)):
        pytest.xfail(wrong[-500:])
