"""Dask's distributed over phalanx's links: who may connect, the levels, and what messages are like."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import dask
import numpy as np
import phalanx as px
import pytest
from distributed import Security
from distributed.comm import CommClosedError, connect, listen
from distributed.comm.core import FatalCommClosedError
from distributed.protocol import to_serialize
from phalanx import _native
from phalanx.adapters.distributed import PhalanxComm, parts

MEGABYTE = 1 << 20
PATIENCE = 60


class Grid:
    """Identity files of the members of one grid."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._authority = folder, _native.create_grid()

    def issue(self, name: str, role: str = "executor") -> str:
        file = self._folder / f"{name}.pem"
        file.touch(mode=0o600)
        file.write_text(_native.issue_member(self._authority, role, name))
        return str(file)


@pytest.fixture
def grid(tmp_path: Path) -> Grid:
    return Grid(tmp_path)


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PHALANX_HOME", str(tmp_path / "home"))
    with tempfile.TemporaryDirectory(prefix="px-") as folder:  # the path of a unix socket is short
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield


def settings(**said: Any) -> Any:
    return dask.config.set({"distributed.comm.phalanx": said})


@asynccontextmanager
async def pair(
    *, apart: bool = False, timeout: float = PATIENCE, **more: Any
) -> AsyncIterator[tuple[PhalanxComm, PhalanxComm]]:
    """The two ends of a link. `apart`: as between machines."""
    accepted: asyncio.Queue[PhalanxComm] = asyncio.Queue()
    before = os.environ["XDG_RUNTIME_DIR"]
    async with listen("phalanx://127.0.0.1:0", accepted.put) as listener:
        if apart:
            os.environ["XDG_RUNTIME_DIR"] = before + "/elsewhere"
        try:
            near = await connect(listener.contact_address, timeout=timeout, **more)
        finally:
            os.environ["XDG_RUNTIME_DIR"] = before
        far = await asyncio.wait_for(accepted.get(), PATIENCE)
        try:
            yield near, far
        finally:
            near.abort()
            far.abort()


def run(work: Any) -> Any:
    return asyncio.run(asyncio.wait_for(work, 2 * PATIENCE))


CLUSTER = """
import json, os, sys
from itertools import chain
import numpy as np
from distributed import Client, LocalCluster
from phalanx.adapters.distributed import links

if __name__ == "__main__":
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "worker_dashboard_address": ":0"}
    with LocalCluster(protocol="phalanx", **options) as cluster, Client(cluster) as client:
        assert cluster.scheduler_address.startswith("phalanx://127.0.0.1:")
        assert sum(client.gather(client.map(lambda n: n * n, range(100)))) == 328350
        one, other = client.scheduler_info()["workers"]
        array = client.submit(np.arange, 100_000, workers=[one])
        assert client.submit(np.sum, array, workers=[other]).result() == 4999950000
        there = {*client.run_on_scheduler(links), *chain(*client.run(links).values())}
        if sys.argv[1:] == ["kill"]:
            futures = client.map(lambda n: n + 1, range(200))
            os.kill(client.run(os.getpid)[one], 9)
            assert client.gather(futures) == list(range(1, 201))
    print(json.dumps(sorted({(link.level, str(link.name)) for link in there})))
"""


def cluster(folder: Path, *words: str, **settings: str) -> Any:
    """The levels and names of the links of a cluster of four processes."""
    (folder / "program.py").write_text(CLUSTER)
    said = {f"DASK_DISTRIBUTED__COMM__PHALANX__{name.upper()}": value for name, value in settings.items()}
    command = [sys.executable, "program.py", *words]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | said, capture_output=True, text=True, timeout=2 * PATIENCE
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.timeout(3 * PATIENCE)
def test_a_cluster_on_one_machine_needs_no_identity_and_its_links_are_clear(tmp_path: Path) -> None:
    assert cluster(tmp_path) == [["clear", "None"]]


@pytest.mark.timeout(3 * PATIENCE)
def test_with_the_policy_all_every_link_of_a_cluster_is_private_and_has_a_name(grid: Grid, tmp_path: Path) -> None:
    assert cluster(tmp_path, identity=grid.issue("lab"), policy="all") == [["private", "lab"]]


@pytest.mark.timeout(3 * PATIENCE)
def test_a_worker_that_is_killed_is_replaced_and_the_results_are_there(tmp_path: Path) -> None:
    assert cluster(tmp_path, "kill") == [["clear", "None"]]


def test_dask_s_own_demand_for_encryption_is_met(grid: Grid) -> None:
    async def work() -> None:
        args = Security(require_encryption=True).get_connection_args("client")
        async with pair(**args) as (near, far):
            assert near.extra_info["level"] == far.extra_info["level"] == "private"

    with settings(identity=grid.issue("lab")):
        run(work())


def test_links_between_machines_are_private_and_both_ends_know_the_name_of_the_other(grid: Grid) -> None:
    lab, ws7 = grid.issue("lab"), grid.issue("ws7")

    async def work() -> None:
        accepted: asyncio.Queue[PhalanxComm] = asyncio.Queue()
        async with pair(apart=True, extra_conn_args={"identity": ws7}) as (near, far):
            assert near.extra_info == {"level": "private", "peer": "lab", "why": "policy links: untrusted network"}
            assert far.extra_info == {"level": "private", "peer": "ws7", "why": None}
            assert near.local_address == far.peer_address
            assert near.peer_address == far.local_address
            await near.write({"x": to_serialize(np.arange(MEGABYTE))})
            assert (await far.read())["x"].sum() == MEGABYTE * (MEGABYTE - 1) // 2
        assert accepted.empty()

    with settings(identity=lab, members=["ws7", "lab"]):
        run(work())


async def refused(identity: str | None, timeout: float = PATIENCE, **more: Any) -> BaseException:
    with pytest.raises((CommClosedError, OSError)) as caught:
        async with pair(apart=True, timeout=timeout, extra_conn_args={"identity": identity, **more}):
            pass
    error: BaseException = caught.value
    return error


@pytest.mark.parametrize("stranger", ["another member", "a user", "another grid"])
def test_who_does_not_belong_to_the_cluster_is_refused(stranger: str, grid: Grid, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    identity = {
        "another member": lambda: grid.issue("eve"),
        "a user": lambda: grid.issue("eve", "user"),
        "another grid": lambda: Grid(other).issue("lab"),
    }[stranger]()
    # The stranger expects the server, so that only the server can refuse.
    with settings(identity=grid.issue("lab")):
        error = run(refused(identity, members=["lab"]))
    assert isinstance(error, OSError)


def test_another_member_at_the_address_is_no_process_of_the_cluster(grid: Grid) -> None:
    with settings(identity=grid.issue("eve"), members=["lab"]):
        error = run(refused(grid.issue("lab"), members=["ws7"]))
    assert isinstance(error, FatalCommClosedError)
    assert "eve is not among the members of this Dask cluster: name it in members" in str(error)


def test_without_an_identity_only_processes_of_this_machine_are_served(grid: Grid) -> None:
    error = run(refused(None))
    assert isinstance(error, FatalCommClosedError)
    assert "phalanx grid issue --role executor" in str(error)
    error = run(refused(grid.issue("lab"), timeout=2))  # the listener has none
    assert isinstance(error, OSError)


def test_a_wrong_setting_says_which_there_are() -> None:
    with settings(idendity="x.pem"), pytest.raises(px.PolicyError, match="idendity is no setting: identity, policy"):
        run(pair().__aenter__())


@pytest.mark.parametrize("apart", [False, True])
def test_an_array_arrives_aligned_writable_and_by_itself(apart: bool, grid: Grid) -> None:
    async def work() -> None:
        async with pair(apart=apart) as (near, far):
            arrays = [np.arange(size, dtype=np.float64) for size in (10, 9_000, 100_000)]
            await near.write({"few": to_serialize(arrays[1]), "all": [to_serialize(array) for array in arrays]})
            message = await far.read()
            for sent, found in zip(arrays, message["all"], strict=True):
                np.testing.assert_array_equal(found, sent)
                assert found.flags.writeable
                found += 1
            assert message["few"].ctypes.data % 64 == 0
            assert all(array.ctypes.data % 64 == 0 for array in message["all"])

    with settings(identity=grid.issue("lab")):
        run(work())


def test_the_first_buffer_shares_a_part_with_few_bytes_and_shards_stay_together() -> None:
    one, other = bytearray(100_000), bytearray(70_000)
    shards = [memoryview(one)[:60_000], memoryview(one)[60_000:]]
    assert parts([b"a" * 100, *shards, memoryview(other)]) == ([3, 1], 1)
    assert parts([b"a" * 9_000, *shards, b"b", b"c", memoryview(other)]) == ([1, 2, 2, 1], None)
    assert parts([b"a"]) == ([1], None)


def test_a_message_that_is_longer_than_allowed_ends_the_link(grid: Grid) -> None:
    async def work() -> None:
        async with pair(apart=True) as (near, far):
            await near.write({"x": to_serialize(np.zeros(MEGABYTE // 8))})
            assert (await far.read())["x"].nbytes == MEGABYTE
            await near.write({"x": to_serialize(np.zeros(MEGABYTE))})
            with pytest.raises(CommClosedError, match=r"limit of|longer message"):
                await far.read()
            with pytest.raises(CommClosedError):
                await near.read()

    with settings(**{"identity": grid.issue("lab"), "largest-message": "2 MiB"}):
        run(work())


@pytest.mark.parametrize("apart", [False, True])
def test_a_reader_that_does_not_read_slows_the_writer_down_and_nothing_is_lost(apart: bool, grid: Grid) -> None:
    count = 300

    async def work() -> None:
        async with pair(apart=apart) as (near, far):
            sent = 0

            async def write() -> None:
                nonlocal sent
                for number in range(count):
                    await near.write({"number": number, "x": to_serialize(np.full(MEGABYTE, number % 256, np.uint8))})
                    sent += 1

            writing = asyncio.create_task(write())
            while not near._written._waiting:  # until the writer waits
                await asyncio.sleep(0.01)
            for number in range(count):
                message = await far.read()
                assert message["number"] == number
                assert (message["x"] == number % 256).all()
            await writing

    with settings(identity=grid.issue("lab")):
        run(work())


@pytest.mark.parametrize("apart", [False, True])
def test_closing_sends_everything_first(apart: bool, grid: Grid) -> None:
    async def work() -> None:
        async with pair(apart=apart) as (near, far):
            await near.write({"x": to_serialize(np.ones(30 * MEGABYTE, np.uint8))})
            closing = asyncio.create_task(near.close())
            assert (await far.read())["x"].sum() == 30 * MEGABYTE
            await closing
            with pytest.raises(CommClosedError):
                await far.read()
            assert far.closed()

    with settings(identity=grid.issue("lab")):
        run(work())


def test_many_links_at_once_and_messages_in_order() -> None:
    async def work() -> None:
        async def serve(comm: PhalanxComm) -> None:
            while True:
                try:
                    await comm.write(await comm.read())
                except CommClosedError:
                    return

        async def talk(address: str, who: int) -> None:
            comm = await connect(address, timeout=PATIENCE)
            for number in range(20):
                await comm.write((who, number))
            for number in range(20):
                assert tuple(await comm.read()) == (who, number)
            await comm.close()

        async with listen("phalanx://127.0.0.1:0", serve) as listener:
            await asyncio.gather(*(talk(listener.contact_address, who) for who in range(60)))

    run(work())
