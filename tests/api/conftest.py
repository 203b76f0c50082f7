"""Fixtures of the tests that use the library as its users do, on one machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from textwrap import dedent

import phalanx as px
import pytest

from laboratory.grid import PHALANX
from laboratory.processes import Process, until

Script = Callable[..., Process]


def gone(processes: Iterable[Path]) -> bool:
    """Whether all of these folders of /proc belong to processes that have ended; their parent may not know yet."""

    def ended(folder: Path) -> bool:
        try:
            return (folder / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True

    return all(map(ended, processes))


def said(process: Process, word: str) -> list[tuple[int, ...]]:
    """What a client has said after a word; its last line may be cut off by its end."""
    lines = (line.split() for line in process.lines())
    return [tuple(map(int, line[1:])) for line in lines if line and line[0] == word]


@pytest.fixture(scope="module")
def manager() -> Iterator[px.Manager]:
    """One with two interpreters, for all tests of a module that end none of them."""
    with px.Manager(contract=px.ParDegree(2)) as opened:
        # A process that begins during a test would be taken for one that the test left behind.
        until(lambda: len(opened.summary().interpreters) == 2, timeout=30, what="two interpreters")
        yield opened


@pytest.fixture(params=["here", "served", "kept"])
def space(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[px.Space]:
    """An empty space: in this process, the same reached through a socket, and one that is kept, so reached."""
    durable = tmp_path_factory.mktemp("kept") if request.param == "kept" else False
    with px.Space(durable=durable) as owner:
        if request.param == "here":
            yield owner
        else:
            with px.Space(owner.serve(f"unix:{tmp_path_factory.mktemp('s') / 's'}")) as reached:
                yield reached


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    """`script(source, *arguments)` starts a program of a user's own, as `python script.py`."""
    started: list[Process] = []

    def start(source: str, *arguments: str, python: tuple[str, ...] = ("script.py",), **env: str) -> Process:
        number = len(started)
        (tmp_path / "script.py").write_text(dedent(source))
        command = [sys.executable, *python, *arguments]
        files = tmp_path / f"output-{number}"
        # As on a user's machine, where output waits in buffers.
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        process = Process(command, title="the script", files=files, cwd=tmp_path, env=inherited | env)
        started.append(process)
        return process

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            process.kill()


@pytest.fixture
def links(tmp_path: Path) -> px.Rules:
    """Every link is private, also on this machine, so that users are told apart."""
    rules = tmp_path / "links.toml"
    rules.write_text('[[rule]]\nrequired = "private"\n')
    return px.Rules(rules)


class Servers:
    """Servers of spaces of one machine, each with a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[str, Process] = {}
        self.started = 0

    def address(self, name: str) -> str:
        return f"unix:{self.folder / name}/jobs"

    def start(self, name: str) -> str:
        self.started += 1
        files = self.folder / f"out-{self.started}"
        files.mkdir()
        command = [str(PHALANX), "space", "serve", "--address", f"unix:{self.folder / name}"]
        env = {**os.environ, "PHALANX_HOME": str(self.folder / "home")}
        self.running[name] = Process(command, title=f"server {name}", files=files, cwd=self.folder, env=env)
        self.running[name].line("listening on ", timeout=60)
        return self.address(name)

    def freeze(self, name: str) -> None:
        self.running[name].freeze()

    def thaw(self, name: str) -> None:
        self.running[name].thaw()


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    """Servers of spaces, which are killed at the end."""
    started = Servers(tmp_path)
    yield started
    for process in started.running.values():
        process.kill()
