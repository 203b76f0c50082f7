"""The memory that a program allows each of its interpreters: which ones end, and what their errors say."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import cloudpickle
import phalanx as px
import pytest
from api.executors import Executors
from phalanx.errors import ContractError, CulpritError
from skips import require

cloudpickle.register_pickle_by_value(sys.modules[__name__])
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of memory need Linux")
MB = 1_000_000
#: How the loss of an interpreter is told, on this machine and where an executor watches. Where the kernel holds the
#: limit, the interpreter has used all of it.
EXCEEDED = r"/\d+ was ended: it used (\d+\.\d [MG]B of memory|all of its memory), and its limit is 150\.0 MB"


def fill(size: int) -> int:
    """Fills memory, page by page, and waits a little."""
    kept = bytearray()
    while len(kept) < size:
        kept += bytes(MB)
    time.sleep(1)
    return len(kept)


def fill_once(path: str) -> int:
    """Uses too much when it is first called, and returns its process later."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
        fill(2000 * MB)
    return os.getpid()


def fill_elsewhere(size: int) -> int:
    """Fills the memory of a process that it starts."""
    code = f"import time; kept = b'x' * {size}; time.sleep(20)"
    return subprocess.run([sys.executable, "-c", code], check=True).returncode


def fork_beside(size: int) -> int:
    """Forks a process that shares what this one has, and waits for it."""
    kept = b"x" * size
    child = os.fork()
    if child == 0:
        time.sleep(1)
        os._exit(0)
    os.waitpid(child, 0)
    return len(kept)


def process() -> int:
    time.sleep(0.05)
    return os.getpid()


def append_and_wait(path: str, seconds: float) -> int:
    """Notes that it was called, and returns how often that was until it ended."""
    with Path(path).open("a") as file:
        file.write("x")
    time.sleep(seconds)
    return len(Path(path).read_text())


@pytest.fixture
def limited() -> Iterator[px.Manager]:
    with px.Manager(contract=px.ParDegree(1), memory="150 MB") as manager:
        yield manager


def test_an_interpreter_that_uses_too_much_is_replaced_and_the_error_says_why(limited: px.Manager) -> None:
    before = limited.submit(process).result(60)
    with pytest.raises(CulpritError, match=r"this-machine" + EXCEEDED) as raised:
        limited.submit(fill, 2000 * MB).result(60)
    assert len(raised.value.losses) == 3
    after = limited.submit(process).result(60)
    assert after != before
    assert limited.summary().lost == 3


def test_others_go_on(tmp_path: Path) -> None:
    with px.Manager(contract=px.ParDegree(2), memory="150 MB") as manager:
        long = manager.submit(append_and_wait, str(tmp_path / "calls"), 6)
        with pytest.raises(CulpritError):
            manager.submit(fill, 2000 * MB).result(60)
        assert long.result(60) == 1
        assert (tmp_path / "calls").read_text() == "x"


def test_a_task_that_uses_too_much_once_is_fired_again(limited: px.Manager, tmp_path: Path) -> None:
    assert limited.submit(fill_once, str(tmp_path / "called")).result(60) > 0
    assert limited.summary().lost == 1


def test_retries_begin_anew_after_three_interpreters(limited: px.Manager) -> None:
    with pytest.raises(CulpritError):
        limited.submit(px.options(fill, retries=1), 2000 * MB).result(120)
    assert limited.summary().lost == 6


def test_processes_that_a_task_starts_count(limited: px.Manager) -> None:
    with pytest.raises(CulpritError, match=EXCEEDED):
        limited.submit(fill_elsewhere, 200 * MB).result(60)


def test_pages_that_forked_processes_share_count_once(limited: px.Manager) -> None:
    assert limited.submit(fork_beside, 90 * MB).result(60) == 90 * MB
    assert limited.summary().lost == 0


def test_without_a_limit_there_is_none() -> None:
    with px.Manager(contract=px.ParDegree(1)) as manager:
        assert manager.submit(fill, 300 * MB).result(60) == 300 * MB


#: Begins an executor that sees no control groups, so that it watches.
WITHOUT_GROUPS = ["unshare", "--mount", "sh", "-c", 'umount --recursive --lazy /sys/fs/cgroup; exec "$@"', "sh"]


@pytest.fixture(scope="module", params=[[], WITHOUT_GROUPS], ids=["as the system can", "by watching"])
def grid(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Executors]:
    if request.param:
        require("root")
    with Executors(tmp_path_factory.mktemp("memory"), request.param) as grid:
        yield grid


@pytest.fixture(scope="module")
def address(grid: Executors) -> str:
    words = ("--program-memory", "400MB", "--accept", "ada")
    return grid.start("labpc", *words, env={"PHALANX_ALLOW_ROOT": "1"})


def test_executors_end_the_one_that_uses_too_much(grid: Executors, address: str) -> None:
    one = px.ParDegree(1)
    with (
        px.Manager(address, identity=grid.identity, contract=one, memory=150 * MB) as limited,
        px.Manager(address, identity=grid.identity, contract=one) as other,
    ):
        before = other.submit(process).result(60)
        with pytest.raises(CulpritError, match=r"labpc" + EXCEEDED):
            limited.submit(fill, 2000 * MB).result(60)
        assert limited.submit(process).result(60) > 0
        assert other.submit(fill, 250 * MB).result(60) == 250 * MB
        assert other.submit(process).result(60) == before


def test_the_limit_of_the_owner_stays_the_upper_bound(grid: Executors, address: str) -> None:
    words = r"used more than the 400\.0 MB of memory that its machine gives it"
    with (
        px.Manager(address, identity=grid.identity, contract=px.ParDegree(1), memory="1 TB") as manager,
        pytest.raises(CulpritError, match=words),
    ):
        manager.submit(fill, 2000 * MB).result(60)


@pytest.mark.parametrize("memory", [0, -1, 1.5, True, "", "1 MB", "63999999", "2 XB", 1 << 63, "9" * 40, b"2 GB"])
def test_what_no_interpreter_could_work_with_is_refused(memory: object) -> None:
    with pytest.raises(ContractError, match=r"memory|write"):
        px.Manager(memory=memory)  # type: ignore[arg-type]
