"""Copies of which several machines take shares, each over a line of its own: who carries what, and who is killed."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest
from cluster.grid import PATIENCE, Executor, Grid
from cluster.test_transfer import begin, report

from laboratory.processes import Process, until

SIZE = 60_000_000
RATE = 3_000_000.0  # bytes/s of each line: a copy takes seconds, so that somebody can be killed in the middle


class Site:
    """Machines that see one folder."""

    def __init__(self, grid: Grid, folder: Path, names: list[str]) -> None:
        self.folder = folder
        folder.mkdir()
        options = ["--export", f"{folder}:rw", "--no-spaces"]
        self.machines = [grid.executor(grid.desk.lab.host(name), options=options) for name in names]
        for machine in self.machines:
            machine.host.cable.shape(rate=RATE)

    @property
    def others(self) -> str:
        return ",".join(machine.address for machine in self.machines[1:])

    def at(self, name: str) -> str:
        return f"{self.machines[0].address}:{self.folder / name}"


def source(folder: Path) -> Path:
    path = folder / "big"
    path.write_bytes(random.Random(1).randbytes(SIZE))
    return path


def assert_whole(copied: Path, original: Path) -> None:
    assert copied.read_bytes() == original.read_bytes()
    assert copied.stat().st_mtime_ns == original.stat().st_mtime_ns
    assert not list(copied.parent.glob(".*phalanx*"))


def received(machine: Executor) -> int:
    """Bytes that a machine has received so far."""
    return counters(machine)[0]


def crossed(machine: Executor) -> int:
    """Bytes that a machine has received and sent so far."""
    return sum(counters(machine))


def counters(machine: Executor) -> tuple[int, int]:
    """Bytes received and sent (proc(5), net/dev)."""
    lines = machine.host.run(["cat", "/proc/net/dev"]).stdout().splitlines()[2:]
    each = [line.partition(":")[2].split() for line in lines if not line.lstrip().startswith("lo:")]
    return sum(int(one[0]) for one in each), sum(int(one[8]) for one in each)


def wait_for_shares(folder: Path, count: int, copy: Process) -> None:
    """Until so many machines have kept what is there of their shares of `big`, and a fifth of it is there."""
    part = folder / ".big.phalanx-part"

    def kept() -> bool:
        assert copy.code is None, copy.report()
        states = len(list(folder.glob(".big.phalanx-state-?")))
        return states >= count and part.stat().st_blocks * 512 >= SIZE / 5

    until(kept, timeout=PATIENCE, what="states of shares")


def test_every_machine_carries_its_share_over_its_own_line(grid: Grid, tmp_path: Path) -> None:
    near, far = Site(grid, tmp_path / "near", ["near1", "near2"]), Site(grid, tmp_path / "far", ["far1", "far2"])
    original = source(near.folder)
    said = report(begin(grid, near.at("big"), far.at("big"), "--stripes", f"{near.others}/{far.others}"))
    assert (said["files"], said["bytes"], said["stripes"], said["level"]) == (1, SIZE, 2, "private")
    assert_whole(far.folder / "big", original)
    for machine in (*near.machines, *far.machines):
        assert SIZE * 0.4 < crossed(machine) < SIZE * 0.7


@pytest.mark.parametrize("victim", ["first", "second"])
def test_a_target_that_is_killed_is_named_and_the_other_brings_its_share(
    grid: Grid, tmp_path: Path, victim: str
) -> None:
    far = Site(grid, tmp_path / "far", ["far1", "far2"])
    original = source(grid.desk.home)
    copy = begin(grid, str(original), far.at("big"), "--stripes", far.others)
    wait_for_shares(far.folder, 2, copy)
    killed = far.machines[0 if victim == "first" else 1]
    killed.process.signal(signal.SIGKILL)
    said = report(copy)
    assert (said["files"], said["stripes"]) == (1, 1)
    assert [lost["machines"] for lost in said["lost_stripes"]] == [killed.address]
    assert_whole(far.folder / "big", original)


def test_a_source_that_is_cut_off_is_named_and_the_others_share_again(grid: Grid, tmp_path: Path) -> None:
    near = Site(grid, tmp_path / "near", ["near1", "near2", "near3"])
    original, here = source(near.folder), grid.desk.home
    copy = begin(grid, near.at("big"), "big", "--stripes", near.others)
    wait_for_shares(here, 3, copy)
    near.machines[1].host.cable.silence()
    said = report(copy)
    assert (said["files"], said["stripes"]) == (1, 2)
    assert [lost["machines"] for lost in said["lost_stripes"]] == [near.machines[1].address]
    assert_whole(here / "big", original)


def test_a_copy_in_shares_goes_on_after_kill_9_of_its_user(grid: Grid, tmp_path: Path) -> None:
    near, far = Site(grid, tmp_path / "near", ["near1", "near2"]), Site(grid, tmp_path / "far", ["far1", "far2"])
    original = source(near.folder)
    words = near.at("big"), far.at("big"), "--stripes", f"{near.others}/{far.others}"
    copy = begin(grid, *words)
    wait_for_shares(far.folder, 2, copy)
    copy.signal(signal.SIGKILL)
    assert copy.wait(timeout=PATIENCE) != 0
    assert not (far.folder / "big").exists()
    before = sum(map(received, far.machines))
    assert report(begin(grid, *words))["files"] == 1
    assert_whole(far.folder / "big", original)
    assert sum(map(received, far.machines)) - before < SIZE * 0.95, "what was there was not sent again"
