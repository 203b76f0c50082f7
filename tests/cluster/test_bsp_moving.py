"""BSP programs leave machines that are slow: real executors, and a program that computes slower on some of them."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from cluster.grid import PATIENCE, PHALANX, Executor, Grid, program_folders

from laboratory.processes import Process, until

#: A machine is slow where its name, or a process where its number, is among the arguments; that changes no result.
PROGRAM = """
import random, socket, sys, time
from phalanx import bsp

machine, slow = socket.gethostname(), set(sys.argv[2:])
with bsp.begin(checkpoint=1000):
    p, n = bsp.pid(), bsp.nprocs()
    place = bytearray([p] * 8)
    bsp.push_reg(place)
    state = bsp.State(step=0, random=random.Random(p))
    first = True
    while state.step < int(sys.argv[1]):
        bsp.checkpoint(state)
        if first:
            print(f"{p} on {machine} begins at {state.step}.")
            first = False
        bsp.put((p + 1) % n, bytes([(place[0] * 31 + state.random.randrange(99)) % 256]), place, state.step % 8)
        time.sleep(0.3 if slow & {machine, str(p)} else 0.02)
        state.step += 1
        if machine in slow and f"{machine} asks" in slow and state.step == 5:
            bsp.leave_machine()
    bsp.sync()
    print(f"{p} ends with {place.hex()}")
"""


def bsprun(grid: Grid, executors: Sequence[Executor], options: Sequence[str], *words: str) -> Process:
    """Start the program on the desk, a process for each of the first two executors."""
    (grid.desk.home / "program.py").write_text(PROGRAM)
    hosts = ",".join(executor.address for executor in executors)
    command: list[str | Path] = [PHALANX, "bsprun", "--hosts", hosts, "-n", "2", "--no-prefix", "--per-host", "1"]
    return grid.desk.popen([*command, *options, "program.py", *words], env=grid.env)


def begun(process: Process) -> list[tuple[int, str, int]]:
    """Of each start of a process: its number, its machine, and the step with which it went on."""
    found = re.findall(r"^(\d) on (\w+) begins at (\d+)\.$", process.stdout(), re.MULTILINE)
    return sorted((int(pid), machine, int(step)) for pid, machine, step in found)


def ends(process: Process) -> list[str]:
    assert process.wait(timeout=PATIENCE) == 0, process.report()
    return sorted(re.findall(r"^\d ends with .*$", process.stdout(), re.MULTILINE))


def said(process: Process) -> list[str]:
    """What the launcher said, numbers of measurements left out."""
    lines = [line for line in process.stderr().splitlines() if line.startswith("phalanx: ")]
    numbers = re.compile(r"(?<=last )\d+(?= steps)|\d+\.\d(?= times)")
    return [numbers.sub("…", line.removeprefix("phalanx: ")) for line in lines]


BECAUSE = "its last … steps took … times as long as those of other machines"


def test_a_slow_machine_is_left_and_the_result_is_the_same(grid: Grid) -> None:
    executors = grid.executors("left", "right", "spare")
    expected = ends(bsprun(grid, executors, [], "40"))
    process = bsprun(grid, executors, ["--move-slow", "3:4"], "40", "right")
    assert ends(process) == expected, process.report()
    starts = begun(process)
    assert [(pid, machine) for pid, machine, _ in starts] == [(0, "left"), (0, "left"), (1, "right"), (1, "spare")]
    step = starts[1][2]
    assert step == starts[3][2] > 3, "the checkpoint was made for this"
    will, goes, moved, summary = said(process)
    assert will == f"pid 1 will move from right: {BECAUSE}"
    assert re.fullmatch(r"the program goes on from superstep \d+", goes)
    assert moved == "pid 1 moved from right to spare"
    assert re.fullmatch(rf"moved: pid 1 from right to spare at superstep \d+: {BECAUSE}", summary)


def test_what_is_slow_wherever_it_is_moves_once(grid: Grid) -> None:
    """It is its work, not its machine: there are machines enough to go on for ever."""
    executors = grid.executors("left", "right", "one", "two")
    expected = ends(bsprun(grid, executors, [], "30"))
    process = bsprun(grid, executors, ["--move-slow", "3:4"], "30", "1")
    assert ends(process) == expected, process.report()
    assert [machine for pid, machine, _ in begun(process) if pid == 1] == ["one", "right"]
    assert any("it was moved before, so what it computes takes longer" in line for line in said(process))


def test_without_a_free_place_it_stays_and_that_is_said(grid: Grid) -> None:
    lab = grid.desk.lab
    executors = [grid.executor(lab.host("left"), interpreters=1), grid.executor(lab.host("right"), interpreters=1)]
    expected = ends(bsprun(grid, executors, [], "20"))
    process = bsprun(grid, executors, ["--move-slow", "3:4"], "20", "right")
    assert ends(process) == expected, process.report()
    assert len(begun(process)) == 2
    why = "it takes 1 places on other machines, and 0 are free: left has 0"
    assert said(process) == [f"pid 1 cannot move from right: {why} ({BECAUSE})"]


def test_a_program_asks_for_another_machine_itself(grid: Grid) -> None:
    executors = grid.executors("left", "right", "spare")
    expected = ends(bsprun(grid, executors, [], "30"))
    process = bsprun(grid, executors, [], "30", "left", "left asks")
    assert ends(process) == expected, process.report()
    starts = begun(process)
    assert [(pid, machine) for pid, machine, _ in starts] == [(0, "left"), (0, "spare"), (1, "right"), (1, "right")]
    assert said(process)[0] == "pid 0 will move from left: the program asks for it"


C_PROGRAM = r"""
#include <bsp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
    bsp_set_checkpoint(1000);
    bsp_begin(16);
    int step = 0, asked = 0, left = 0, pid = bsp_pid();
    unsigned sum = 0;
    char machine[65] = "";
    gethostname(machine, sizeof machine - 1);
    bsp_push_reg(&left, sizeof left);
    bsp_declare(&step, sizeof step);
    bsp_declare(&asked, sizeof asked);
    bsp_declare(&sum, sizeof sum);
    while (step < 60) {
        bsp_checkpoint();
        int value = step * 10 + pid;
        bsp_put((pid + 1) % bsp_nprocs(), &value, &left, 0, sizeof value);
        bsp_sync();
        sum = sum * 3 + (unsigned)left;
        step++;
        usleep(20000);
        if (step == 5 && pid == 1 && !asked) {
            asked = 1;
            bsp_leave_machine();
        }
    }
    bsp_sync();
    printf("%d on %s: %u\n", pid, machine, sum);
    bsp_end();
    return 0;
}
"""


def test_a_program_of_c_moves_too(grid: Grid) -> None:
    executors = grid.executors("left", "right", "spare")
    (grid.desk.home / "program.c").write_text(C_PROGRAM)
    command: list[str | Path] = [PHALANX, "bspcc", "-Wall", "-Werror", "-O1", "-o", "program", "program.c"]
    subprocess.run(command, check=True, timeout=60, cwd=grid.desk.home)
    hosts = ",".join(executor.address for executor in executors)
    words = ["bsprun", "--hosts", hosts, "-n", "2", "--no-prefix", "--per-host", "1", "./program"]
    process = grid.desk.popen([PHALANX, *words], env=grid.env)
    assert process.wait(timeout=PATIENCE) == 0, process.report()
    totals = []
    for pid in range(2):
        total = 0
        for step in range(60):
            total = (total * 3 + step * 10 + (pid - 1) % 2) & 0xFFFFFFFF
        totals.append(total)
    assert sorted(process.stdout().splitlines()) == [f"0 on left: {totals[0]}", f"1 on spare: {totals[1]}"]


def test_an_interrupt_while_it_moves_ends_all(grid: Grid) -> None:
    executors = grid.executors("left", "right", "spare")
    process = bsprun(grid, executors, ["--move-slow", "3:4"], "400", "right")
    until(lambda: "will move" in process.stderr(), timeout=PATIENCE, what="a move")
    for _ in range(2):
        process.signal(signal.SIGINT)
    assert process.wait(timeout=PATIENCE) == 130, process.report()
    until(lambda: not program_folders(), timeout=30, what="no folder")
