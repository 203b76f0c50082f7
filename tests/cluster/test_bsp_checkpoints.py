"""BSP programs on executors that lose processes and machines go on from their last checkpoint."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Sequence
from pathlib import Path

from cluster.grid import PATIENCE, PHALANX, Executor, Grid, program_folders, remove_program_folders

from laboratory.processes import Process, until

PROGRAM = """
import os, random, socket, time
from phalanx import bsp

with bsp.begin(checkpoint=2):
    p, n = bsp.pid(), bsp.nprocs()
    place = bytearray([p] * 8)
    bsp.push_reg(place)
    state = bsp.State(step=0, random=random.Random(p))
    first = True
    while state.step < 40:
        bsp.checkpoint(state)
        if first:
            print(f"{p} {os.getpid()} {socket.gethostname()} begins at {state.step}.")
            first = False
        else:
            print(f"{p} goes on")
        bsp.put((p + 1) % n, bytes([(place[0] * 31 + state.random.randrange(99)) % 256]), place, state.step % 8)
        time.sleep(0.02)
        state.step += 1
    bsp.sync()
    print(f"{p} ends with {place.hex()}")
"""


def bsprun(grid: Grid, executors: Sequence[Executor], *words: str) -> Process:
    """Start the program on the desk."""
    (grid.desk.home / "program.py").write_text(PROGRAM)
    hosts = ",".join(executor.address for executor in executors)
    command: list[str | Path] = [PHALANX, "bsprun", "--hosts", hosts, "--no-prefix", *words, "program.py"]
    return grid.desk.popen(command, env=grid.env)


def begun(process: Process) -> list[tuple[int, str, int]]:
    """Of each start of a process: its number in the system, its machine, and the step with which it went on."""
    found = re.findall(r"^\d (\d+) (\w+) begins at (\d+)\.$", process.stdout(), re.MULTILINE)
    return [(int(pid), machine, int(step)) for pid, machine, step in found]


def wait_for_checkpoints(process: Process, starts: int) -> None:
    """Until so many processes have been started, and the last of them have made some since."""

    def gone_on() -> bool:
        since = process.stdout().rpartition("begins at")[2]
        return len(begun(process)) == starts and since.count(" goes on") >= 6

    until(gone_on, timeout=PATIENCE, what=f"{starts} processes that go on")


def ends(process: Process) -> list[str]:
    assert process.wait(timeout=PATIENCE) == 0, process.report()
    return sorted(re.findall(r"^\d ends with .*$", process.stdout(), re.MULTILINE))


def test_a_lost_process_goes_on_from_the_checkpoint_on_its_machine(grid: Grid) -> None:
    executors = grid.executors("left", "right")
    expected = ends(bsprun(grid, executors, "-n", "2"))
    process = bsprun(grid, executors, "-n", "2")
    for starts in (1, 2):
        wait_for_checkpoints(process, 2 * starts)
        os.kill(begun(process)[-1][0], signal.SIGKILL)
    assert ends(process) == expected
    again = begun(process)[2:]
    # Where the places of a killed process are not free yet another machine takes it, which has none of its checkpoints.
    assert any(machine == "right" for _, machine, _ in again) or all(step > 0 for *_, step in again), process.report()
    until(lambda: not program_folders(), timeout=30, what="no folder")


def test_a_lost_machine_is_done_without(grid: Grid) -> None:
    """All processes were there: nobody else has their checkpoints, so the program begins again."""
    executors = grid.executors("left", "right")
    expected = ends(bsprun(grid, executors, "-n", "2"))
    process = bsprun(grid, executors, "-n", "2")
    until(lambda: len(begun(process)) == 2, timeout=PATIENCE, what="all processes")
    executors[0].process.signal(signal.SIGKILL, group=True)
    assert ends(process) == expected, process.report()
    assert [machine for _, machine, _ in begun(process)[2:]] == ["right", "right"]
    remove_program_folders()


def test_a_program_for_which_too_few_places_are_left_ends_with_an_error(grid: Grid) -> None:
    executors = grid.executors("left")
    process = bsprun(grid, executors, "-n", "2")
    until(lambda: len(begun(process)) == 2, timeout=PATIENCE, what="all processes")
    executors[0].process.signal(signal.SIGKILL, group=True)
    assert process.wait(timeout=PATIENCE) == 1, process.report()
    assert "the program cannot go on: no executor is left" in process.stderr()
    remove_program_folders()


def test_the_loss_of_a_machine_loses_nothing_where_there_are_several(grid: Grid) -> None:
    executors = grid.executors("left", "middle", "right")
    expected = ends(bsprun(grid, executors, "-n", "4", "--per-host", "2"))
    process = bsprun(grid, executors, "-n", "4", "--per-host", "2")
    wait_for_checkpoints(process, 4)
    executors[1].process.signal(signal.SIGKILL, group=True)
    assert ends(process) == expected, process.report()
    assert {machine for _, machine, _ in begun(process)[4:]} == {"left", "right"}
    assert all(step > 0 for _, _, step in begun(process)[4:]), process.report()
    remove_program_folders()
