"""Ranks of different machines: messages over links, who may join, and what is left when one is lost."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest
from cluster.grid import PATIENCE, PHALANX, Executor, Grid, program_folders, remove_program_folders

from laboratory.lab import Host
from laboratory.processes import Process, until

MARKER = b"nobody on the way is to read this"
PROGRAM = Path(__file__).with_name("rank_links.py")
LISTENS = "0A"  # in /proc/net/tcp
PREAMBLE_OF_RANK_3 = b"phlnx\x01\x09" + (3).to_bytes(4, "little") + bytes(12)


@pytest.fixture
def executors(grid: Grid) -> list[Executor]:
    """Two machines with two places each."""
    return grid.executors("left", "right")


def run(
    grid: Grid, executors: Sequence[Executor], *words: str, command: str = "mpirun", options: Sequence[str] = ()
) -> Process:
    """Start the program on the executors, from the desk."""
    hosts = grid.desk.home / "hosts.txt"
    hosts.write_text("".join(f"{one.host.address} {one.port}\n" for one in executors))
    start = [str(PHALANX), command, "--hosts", str(hosts), "--env", f"MARKER={MARKER.decode()}", *options]
    return grid.desk.popen([*start, "-n", "4", "python", str(PROGRAM), *words], env=grid.env)


def finished(process: Process, code: int = 0) -> Process:
    assert process.wait(timeout=PATIENCE) == code, process.report()
    return process


def test_programs_pass_messages_and_nobody_on_the_way_reads_them(grid: Grid, executors: list[Executor]) -> None:
    with executors[1].host.cable.capture() as capture:
        done = finished(run(grid, executors, "everything"))
    assert sorted(done.lines()) == [
        f"[{rank}] done on {name} 2" for rank, name in enumerate(["left", "left", "right", "right"])
    ]
    links = [flow for flow, payload in capture.flows().items() if len(payload) > 4_000_000]
    assert len(links) >= 2, "the arrays went by here"
    assert not capture.saw(MARKER)


def test_supersteps_pass_messages(grid: Grid, executors: list[Executor]) -> None:
    with executors[1].host.cable.capture() as capture:
        done = finished(run(grid, executors, "supersteps", command="bsprun"))
    assert sorted(done.lines()) == [f"[{rank}] done" for rank in range(4)]
    assert not capture.saw(MARKER)


def test_on_a_trusted_network_messages_are_as_they_are(grid: Grid) -> None:
    """So the tests above would see what is not protected."""
    executors = [
        grid.executor(grid.desk.lab.host(name), options=["--trusted", "10.0.0.0/8"]) for name in ("left", "right")
    ]
    hosts = grid.desk.home / "trusting.txt"
    hosts.write_text("".join(f"{one.host.address} {one.port}\n" for one in executors) + "trusted 10.0.0.0/8\n")
    with executors[1].host.cable.capture() as capture:
        finished(run(grid, executors, "everything", options=["--hosts", str(hosts)]))
    assert capture.saw(MARKER)


def listeners(host: Host) -> set[int]:
    """The ports at which ranks on the host listen."""
    for pid in host.pids():
        with suppress(OSError):
            rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
            return {int(row[1].split(":")[1], 16) for row in rows if row[3] == LISTENS}
    return set()


def test_strangers_neither_join_nor_keep_others_from_joining(
    grid: Grid, executors: list[Executor], tmp_path: Path
) -> None:
    """Hundreds of them: silent ones, and those that say they are rank 3."""
    process, (left, _) = run(grid, executors, "late", str(tmp_path / "now")), executors
    until(lambda: len(listeners(left.host)) == 3, timeout=PATIENCE, what="two ranks that listen, beside the executor")
    ports = listeners(left.host) - {left.port}
    with ExitStack() as stack:
        calls = [(left.host.address, port) for port in ports for _ in range(100)]
        strangers = [stack.enter_context(grid.desk.connect(*call)) for call in calls]
        for stranger in strangers[::2]:
            with suppress(OSError):
                stranger.sendall(PREAMBLE_OF_RANK_3 + b"\x16\x03\x01\x00\x05hello")
        (tmp_path / "now").touch()
        assert len(finished(process).lines()) == 4


def pids(process: Process) -> dict[int, int]:
    """The ranks' numbers in the system, once all have said them."""

    def said() -> dict[int, int]:
        assert process.code is None, process.report()
        found = re.findall(r"^\[\d\] pid (\d+) (\d+)$", process.stdout(), re.MULTILINE)
        return {int(rank): int(pid) for rank, pid in found}

    until(lambda: len(said()) == 4, timeout=PATIENCE, what="four ranks")
    return said()


def ended(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("what", ["rank", "executor", "cable"])
def test_the_loss_of_a_rank_ends_the_program(grid: Grid, executors: list[Executor], what: str) -> None:
    process = run(grid, executors, "lose", "wait")
    ranks = pids(process)
    if what == "rank":
        os.kill(ranks[3], signal.SIGKILL)
        cause, code = "rank 3 on right was killed by signal 9 (SIGKILL)", 137
    elif what == "executor":
        executors[1].process.signal(signal.SIGKILL, group=True)
        cause, code = "rank 2 on right is lost: its machine is gone", 1
    else:
        executors[1].host.cable.silence()
        cause, code = "rank 2 on right is lost: its machine does not answer", 1
    finished(process, code)
    assert f"phalanx: {cause}" in process.stderr()
    for rank in ranks.values():  # those on a machine that hears nothing end too
        until(partial(ended, rank), timeout=PATIENCE, what=f"the end of process {rank}")
    if what == "executor":
        remove_program_folders()
    until(lambda: not program_folders(), timeout=PATIENCE, what="the end of the program's folders")


@pytest.mark.parametrize("how", ["receive", "together"])
def test_survivors_go_on_where_they_are_let(grid: Grid, executors: list[Executor], how: str) -> None:
    process = run(grid, executors, "lose", how, options=["--keep-going"])
    os.kill(pids(process)[3], signal.SIGKILL)
    lines = finished(process).lines()
    lost = [line for line in lines if " lost " in line]
    assert len(lost) == 3, lines
    assert all("rank 3 on right was killed by signal 9 (SIGKILL)" in line for line in lost), lines
    assert sum("survivors 3" in line for line in lines) == 3
    assert "rank 3 on right was killed by signal 9 (SIGKILL); the others go on" in process.stderr()


def cut(one: Host, other: Host) -> None:
    """The two no longer reach each other, without a word; all others do."""
    for near, far in ((one, other), (other, one)):
        nobody = ["lladdr", "02:00:00:00:00:01", "nud", "permanent", "dev", "eth0"]
        near.run(["ip", "neigh", "replace", far.address, *nobody])


@pytest.mark.parametrize("what", ["rank", "executor", "cut"])
def test_those_who_are_left_shrink_and_go_on(grid: Grid, executors: list[Executor], what: str, tmp_path: Path) -> None:
    process = run(grid, executors, "recover", str(tmp_path / "now"), options=["--keep-going"])
    ranks, (left, right) = pids(process), executors
    if what == "rank":
        os.kill(ranks[3], signal.SIGKILL)
        cause, lost = "rank 3 on right was killed by signal 9 (SIGKILL)", [3]
    elif what == "executor":
        right.process.signal(signal.SIGKILL, group=True)
        cause, lost = "rank 2 on right is lost: its machine is gone", [2, 3]
    else:
        cut(left.host, right.host)
        cause, lost = " is lost: no connection between it and rank ", [2, 3]
    stay = sorted(rank for rank in ranks if rank not in lost)

    def settled() -> bool:
        assert process.code is None, process.report()
        return all(f"[{rank}] left {len(stay)}\n" in process.stdout() for rank in stay)

    until(settled, timeout=PATIENCE, what="those who are left")
    (tmp_path / "now").touch()
    finished(process, 1 if what == "cut" else 0)  # those who were left out end with an error of their own
    assert [line for line in sorted(process.lines()) if "survivors" in line] == [
        f"[{rank}] survivors {len(stay)}" for rank in stay
    ]
    assert cause in process.stdout()
    if what == "executor":
        remove_program_folders()
    if what == "cut":  # whose words come first is not said
        assert all(f" at {host.address}" in process.stdout() for host in (left.host, right.host))
        assert "others cannot reach this process, and go on without it" in process.report()
    until(lambda: not program_folders(), timeout=30, what="no folder")
