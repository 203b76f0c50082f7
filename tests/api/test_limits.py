"""What the owner of an executor lets users' processes use of the machine, and how a program ends that uses more."""

from __future__ import annotations

import errno
import os
import signal
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
from phalanx.cli import _limits
from phalanx.errors import CulpritError
from phalanx.space import _serve
from skips import require

from laboratory.processes import until

cloudpickle.register_pickle_by_value(sys.modules[__name__])
MIB = 1 << 20


def fill(size: int) -> int:
    """Fills memory, page by page."""
    kept = bytearray()
    while len(kept) < size:
        kept += bytes(MIB)
    return len(kept)


def crowd() -> int:
    """Starts processes until the system refuses more. Returns how many there were."""
    for number in range(100_000):
        try:
            child = os.fork()
        except BlockingIOError:
            return number
        if child == 0:
            time.sleep(1000)
            os._exit(0)
    return 100_000


def keep_files(size: int) -> None:
    """Fills the disk with small files, and waits."""
    for number in range(size // MIB):
        Path(f"file-{number}").write_bytes(os.urandom(MIB))
    time.sleep(1000)


def one_file(size: int) -> str:
    """Writes one large file. Returns how the system refused it."""
    try:
        with Path("large").open("wb") as file:
            for _ in range(size // MIB):
                file.write(bytes(MIB))
    except OSError as error:
        Path("large").unlink()
        return errno.errorcode[error.errno or 0]
    return "written"


def hide_files(size: int) -> None:
    """Fills the disk with a file that has no name any more, and waits."""
    with Path("hidden").open("wb", buffering=0) as file:
        Path("hidden").unlink()
        with suppress(OSError):  # the disk is full
            for _ in range(size // MIB):
                file.write(os.urandom(MIB))
        time.sleep(1000)


def manager(grid: Executors, address: str, user: str = "ada") -> px.Manager:
    identity = grid.identity if user == "ada" else grid.user(user)
    return px.Manager(address, identity=identity, contract=px.ParDegree(1))


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Executors]:
    with Executors(tmp_path_factory.mktemp("limits")) as grid:
        yield grid


@pytest.fixture(scope="module")
def address(grid: Executors) -> str:
    """One user may be served where the kernel does not keep users apart, so that the test runs everywhere."""
    words = ("--memory", "512MiB", "--disk", "96MiB", "--processes", "200", "--accept", "ada")
    return grid.start("labpc", *words, env={"PHALANX_ALLOW_ROOT": "1"})


def test_a_program_that_uses_too_much_memory_is_ended_and_others_go_on(grid: Executors, address: str) -> None:
    with manager(grid, address) as first, manager(grid, address) as second:
        assert second.submit(fill, 100 * MIB).result(60) == 100 * MIB
        with pytest.raises(CulpritError, match=r"its program used more than the 268\.4 MB of memory that its machine"):
            first.submit(fill, 2000 * MIB).result(60)
        assert second.submit(fill, 100 * MIB).result(60) == 100 * MIB
        assert first.submit(len, "and so does this one").result(60) == 20


def test_a_program_starts_no_more_processes_than_its_part(grid: Executors, address: str) -> None:
    with manager(grid, address) as first, manager(grid, address) as second:
        try:
            assert 10 < first.submit(crowd).result(60) < 100
        except CulpritError as error:  # where the watch ends it, and not the kernel
            assert "processes and threads, and may have 100" in str(error)  # noqa: PT017
        assert second.submit(len, "others go on").result(60) == 12


def test_a_program_that_fills_the_disk_is_ended(grid: Executors, address: str) -> None:
    with manager(grid, address) as first, manager(grid, address) as second:
        with pytest.raises(CulpritError, match=r"used more than the 100\.7 MB of disk .* this one had most"):
            first.submit(keep_files, 150 * MIB).result(60)
        assert second.submit(one_file, 150 * MIB).result(60) == "EFBIG"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of its own, which has 64 MiB."""
    require("root")
    image, folder = tmp_path / "image", tmp_path / "disk"
    with image.open("wb") as file:
        file.truncate(64 * MIB)
    folder.mkdir()
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_program_that_fills_the_disk_with_files_without_names_is_ended(tmp_path: Path, small_disk: Path) -> None:
    with Executors(tmp_path) as grid:
        address = grid.start("small", "--disk", "64MiB", env={"PHALANX_ALLOW_ROOT": "1", "TMPDIR": str(small_disk)})
        with manager(grid, address) as first, manager(grid, address) as second:
            with pytest.raises(CulpritError, match=r"its machine is nearly full .* its program had written most"):
                first.submit(hide_files, 100 * MIB).result(60)
            assert second.submit(len, "others go on").result(60) == 12


def test_limits_are_said_at_the_start_with_how_they_are_enforced(grid: Executors, address: str) -> None:
    line = grid.started[0].line("cage: ")
    for limit in ("memory 536.9 MB, 268.4 MB for each place (by ", "processes 200 (by ", "disk 100.7 MB (by watching)"):
        assert limit in line, address


def groups(executor: int) -> set[Path]:
    """The groups that an executor of root has made beside its own. Those of others come and go meanwhile."""
    found = os.walk("/sys/fs/cgroup")  # it leaves out what is gone
    return {
        Path(folder, name) for folder, names, _ in found for name in names if name.startswith(f"phalanx-{executor}-")
    }


def test_nothing_is_left_of_a_killed_executor_after_the_next_start(tmp_path: Path) -> None:
    require("root")
    with Executors(tmp_path) as grid:
        env = {"PHALANX_ALLOW_ROOT": "1"}
        address = grid.start("killed", "--accept", "ada", env=env)
        killed = grid.started[0].pid
        if not groups(killed):
            pytest.skip("this system lets root make no control groups")
        with suppress(px.PhalanxError), manager(grid, address) as programs:
            assert programs.submit(len, "a group of its own").result(60) == 18
            grid.started[0].kill()
        grid.start("next", "--accept", "ada", env=env)
        following = grid.started[1].pid
        until(lambda: not groups(killed), timeout=60, what="the end of the groups that were left")
        assert groups(following)
        grid.started[1].signal(signal.SIGTERM)
        until(lambda: not groups(following), timeout=60, what="the end of the groups of one that ends by itself")


@pytest.mark.parametrize("word", ["", "8", "8 apples", "-1GB", "1MB"])
def test_what_is_no_size_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match=r"write|too little"):
        _limits.size(word)


@pytest.mark.parametrize("word", ["", "50", "0%", "101%", "1.5%", "x%"])
def test_what_is_no_part_of_the_processors_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="write one like 50%"):
        _limits.percent(word)


def test_the_owner_who_says_nothing_keeps_a_part_of_the_memory() -> None:
    found = _limits.settings(4)
    assert found["program_memory"] is None
    assert found["memory"] is not None
    assert 0 < found["memory"] < _serve.memory()
    assert _limits.settings(4, memory=8 << 30)["program_memory"] == 2 << 30
