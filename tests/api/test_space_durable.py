"""Durable spaces: what out returned from is there, what somebody took is gone, whatever is killed and whenever."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import phalanx as px
import pytest

from laboratory.namespaces import obstacle
from laboratory.processes import Process, until

PHALANX = str(Path(sys.executable).with_name("phalanx"))
PROGRAM = Path(__file__).with_name("durable_program.py")
PATIENCE = 60

Server = Callable[..., Process]


class Served:
    """A server of durable spaces at a path of its own, which can be started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.place = f"unix:{folder / 's'}"
        self.space = f"{self.place}/jobs"
        self.processes: list[Process] = []

    def process(self, command: list[str], title: str) -> Process:
        files = self.folder / f"out-{len(self.processes)}"
        files.mkdir()
        env = {**os.environ, "PHALANX_HOME": str(self.folder / "home")}
        self.processes.append(Process(command, title=title, files=files, cwd=self.folder, env=env))
        return self.processes[-1]

    def start(self, *options: str) -> Process:
        server = self.process([PHALANX, "space", "serve", "--address", self.place, *options], "a server of spaces")
        server.line("listening on ", timeout=PATIENCE)
        return server

    def client(self, what: str, number: int) -> Process:
        return self.process([sys.executable, str(PROGRAM), self.space, what, str(self.folder), str(number)], what)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    one = Served(tmp_path)
    yield one
    for process in one.processes:
        process.kill()


def said(process: Process, word: str) -> list[tuple[int, ...]]:
    """What a client has said after a word; its last line may be cut off by its end."""
    lines = (line.split() for line in process.lines())
    return [tuple(map(int, line[1:])) for line in lines if line and line[0] == word]


@pytest.mark.parametrize("seed", range(3))
def test_a_server_that_is_killed_at_any_moment_loses_nothing_and_brings_nothing_back(served: Served, seed: int) -> None:
    moments = random.Random(seed)
    server = served.start()
    putting = [served.client("put", number) for number in range(3)]
    taking = [served.client(what, 0) for what in ("take", "take", "prefetch")]
    for _ in range(6):
        before = [len(said(it, "there")) for it in putting]
        # Some outs of each since the server is there, and then any moment.
        more = moments.randrange(1, 40)
        until(
            lambda: all(len(said(it, "there")) >= old + more for it, old in zip(putting, before, strict=True)),
            timeout=PATIENCE,
            what="outs from all clients",
        )
        server.kill()
        server = served.start()
    (served.folder / "stop").touch()
    for client in [*putting, *taking]:
        assert client.wait(timeout=PATIENCE) == 0, client.report()
    tried = {(number, *serial) for number, it in enumerate(putting) for serial in said(it, "put")}
    promised = {(number, *serial) for number, it in enumerate(putting) for serial in said(it, "there")}
    taken = Counter(job for it in taking for job in said(it, "got"))
    with px.Space(served.space) as space:
        until(lambda: space.info().unacknowledged == 0, timeout=PATIENCE, what="nothing on its way")
        left = Counter(job[1:] for job in space.rd_all("job", int, int))
    everything = taken + left
    assert len(promised) > 100
    assert promised - set(everything) == set(), "lost"
    assert {job: times for job, times in everything.items() if times > 1} == {}, "twice"
    assert set(everything) <= tried
