"""Executors beside workers of Dask: a scheduler and workers of `distributed`, as processes of this machine."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import phalanx as px
import pytest
from conftest import Eventually
from phalanx.errors import RecruitError
from pilots.programs import executors, square, where

from laboratory.processes import Process, until

distributed = pytest.importorskip("distributed")


class Cluster:
    """A scheduler, and workers, each below a nanny that starts it again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.processes: list[Process] = []
        self._run("scheduler", "--port", "0", "--host", "127.0.0.1", "--scheduler-file", str(folder / "file"))
        until((folder / "file").exists, timeout=60, what="the scheduler")

    def add_worker(self) -> None:
        words = ["--nthreads", "1", "--host", "127.0.0.1", "--local-directory", str(self._folder)]
        self._run("worker", *words, "--scheduler-file", str(self._folder / "file"))

    def _run(self, kind: str, *words: str) -> None:
        command = [str(Path(sys.executable).with_name("dask")), kind, "--no-dashboard", *words]
        files = self._folder / f"{kind}-{len(self.processes)}"
        self.processes.append(Process(command, title=kind, files=files, cwd=self._folder, env=os.environ))

    def close(self) -> None:
        for process in reversed(self.processes):
            if process.code is None:
                process.signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(timeout=60)


@pytest.fixture
def cluster(home: Path, tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(tmp_path)
    for _ in range(2):
        found.add_worker()
    try:
        yield found
    finally:
        found.close()


@pytest.fixture
def client(cluster: Cluster, tmp_path: Path) -> Iterator[Any]:
    with distributed.Client(scheduler_file=str(tmp_path / "file")) as found:
        found.wait_for_workers(2, timeout=60)
        yield found


def test_each_worker_has_an_executor_which_ends_with_the_manager(client: Any, eventually: Eventually) -> None:
    pilot = px.Dask(client)
    with px.Manager(pilot) as manager:
        assert manager.interpreters == 2
        assert list(manager.map(square, range(100))) == [number**2 for number in range(100)]
        assert client.submit(abs, -9).result() == 9  # Dask goes on beside it
        assert len(executors()) == 2
    eventually(lambda: not executors(), what="the end of the executors")
    assert client.submit(abs, -4).result() == 4


def test_workers_that_are_lost_or_come_later(cluster: Cluster, client: Any, eventually: Eventually) -> None:
    pilot = px.Dask(client)
    with px.Manager(pilot) as manager:
        results = manager.compute(where, range(200))
        found = [next(results)]
        # The nanny starts the worker again, and Dask the executor with it.
        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        assert len([*found, *results]) == 200
        eventually(lambda: len(pilot.executors()) == 2, timeout=60, what="the executor of the new worker")
        cluster.add_worker()
        eventually(lambda: len(pilot.executors()) == 3, timeout=60, what="the executor of the third worker")
        eventually(lambda: len(set(manager.map(where, range(60)))) == 3, timeout=60, what="its interpreter")


def test_executors_end_with_their_workers(cluster: Cluster, client: Any, eventually: Eventually) -> None:
    with px.Manager(px.Dask(client)) as manager:
        assert manager.submit(square, 3).result() == 9
        for worker in cluster.processes[1:]:
            worker.signal(signal.SIGTERM)
        eventually(lambda: not executors(), what="the end of the executors")


def test_an_executor_that_is_killed_is_started_again(client: Any, eventually: Eventually) -> None:
    pilot = px.Dask(client)
    with px.Manager(pilot) as manager:
        results = manager.compute(where, range(100))
        found = [next(results)]
        os.kill(executors()[0], signal.SIGKILL)
        assert len([*found, *results]) == 100
        eventually(lambda: len(pilot.executors()) == 2, what="the executor that is started again")


def test_errors_are_told(client: Any, eventually: Eventually, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RecruitError, match=r"takes a distributed\.Client, not 'lab:8786'"):
        px.Dask("lab:8786")
    with monkeypatch.context() as patch:
        patch.setattr(type(client), "asynchronous", True)
        with pytest.raises(RecruitError, match="not one with asynchronous=True"):
            px.Dask(client)
    with pytest.raises(RecruitError, match=r"Dask does not start executors: .*no/python"):
        px.Manager(px.Dask(client, python="/no/python"))
    with pytest.raises(RecruitError, match="no executor came within 0 s: Dask has 2 workers"):
        px.Manager(px.Dask(client, wait=0))
    eventually(lambda: not executors(), what="the end of the executors")


def test_a_link_that_others_may_read_is_warned_of(
    client: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING)
    with px.Dask(client):
        assert not caplog.text
    monkeypatch.setattr("phalanx.pilots.dask._HERE", ("none",))
    with px.Dask(client):
        assert "which others may read: use tls://" in caplog.text
