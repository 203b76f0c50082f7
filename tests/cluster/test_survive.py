"""MPI programs on executors that save files of their own survive whatever is killed, frozen or cut off."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from cluster.grid import PATIENCE, PHALANX, Executor, Grid, program_folders, remove_program_folders

from laboratory.namespaces import kill_all
from laboratory.processes import Process, freeze, until

HEAT = Path(__file__).parents[2] / "examples" / "message_passing" / "mpi_heat.py"
STEPS = ("--steps", "300", "--every", "10", "--nap", "0.01")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The checksum of the plate on one machine, without losses or checkpoints."""
    command = [str(PHALANX), "mpirun", "-n", "4", "--no-prefix", str(HEAT), "--steps", "300", "--every", "0"]
    folder = tmp_path_factory.mktemp("undisturbed")
    run = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=120)
    return str(re.findall(r"^after step 300: (\w+)$", run.stdout, re.MULTILINE)[0])


def kept(grid: Grid) -> Path:
    """Where the launcher keeps the checkpoints."""
    return grid.desk.home / "kept"


def heat(grid: Grid, executors: Sequence[Executor], *words: str) -> Process:
    """Start the program on the desk."""
    hosts = ",".join(executor.address for executor in executors)
    options = [
        "--survive",
        "--checkpoints",
        str(kept(grid)),
        "--hosts",
        hosts,
        "-n",
        "4",
        "--no-prefix",
        "--patience",
        "1",
        "--restarts",
        "9",
        *words,
    ]
    home = {"HOME": str(grid.desk.home)}
    return grid.desk.popen([PHALANX, "mpirun", *options, HEAT, *STEPS], env={**grid.env, **home})


def begun(process: Process) -> list[int]:
    """With which step each start of the program has begun."""
    return [int(step) for step in re.findall(r"^restart \d+: begins at step (\d+)$", process.stdout(), re.MULTILINE)]


def wait_for_starts(process: Process, count: int) -> None:
    def started() -> bool:
        assert process.code is None, process.report()
        return len(begun(process)) >= count

    until(started, timeout=PATIENCE, what=f"{count} starts")


def ranks_on(executor: Executor) -> list[int]:
    """The ranks' processes on a machine."""
    return [pid for pid in executor.host.pids() if is_rank(pid)]


def is_rank(pid: int) -> bool:
    try:
        return b"\0PHALANX_RANK=" in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def end_rank(executor: Executor, number: signal.Signals) -> None:
    ranks = until(lambda: ranks_on(executor), timeout=PATIENCE, what="a rank")
    (freeze if number == signal.SIGSTOP else lambda pid: os.kill(pid, number))(ranks[-1])


def kill_rank(executor: Executor) -> None:
    end_rank(executor, signal.SIGKILL)


def freeze_rank(executor: Executor) -> None:
    end_rank(executor, signal.SIGSTOP)


def kill_executor(executor: Executor) -> None:
    executor.process.signal(signal.SIGKILL, group=True)


def close_executor(executor: Executor) -> None:
    executor.process.signal(signal.SIGTERM)


def freeze_machine(executor: Executor) -> None:
    for pid in executor.host.pids():
        freeze(pid)


def cut_cable(executor: Executor) -> None:
    executor.host.cable.silence()


def crash_machine(executor: Executor) -> None:
    executor.host.cable.silence()
    kill_all(executor.host.namespace)


FAULTS: list[Callable[[Executor], None]] = [
    kill_rank,
    freeze_rank,
    kill_executor,
    close_executor,
    freeze_machine,
    cut_cable,
    crash_machine,
]


@pytest.mark.parametrize("fault", FAULTS)
def test_the_result_is_the_same_whatever_is_lost(
    grid: Grid, undisturbed: str, fault: Callable[[Executor], None]
) -> None:
    """Each of three machines has two places: two of them are enough for four ranks."""
    chosen = random.Random(fault.__name__)
    executors = grid.executors("left", "middle", "right")
    process = heat(grid, executors)
    wait_for_starts(process, 1)
    until(lambda: process.code is not None or [*kept(grid).glob("step-*")], timeout=PATIENCE, what="a checkpoint")
    victim = chosen.choice([it for it in executors if ranks_on(it)])
    fault(victim)
    assert process.wait(timeout=PATIENCE) == 0, process.report()
    assert re.findall(r"^after step 300: (\w+)$", process.stdout(), re.MULTILINE) == [undisturbed], process.report()
    assert len(begun(process)) == 2, process.report()
    assert begun(process)[-1] > 0, process.report()
    assert "the program goes on from step" in process.stderr()
    assert not kept(grid).exists()
    for executor in executors:
        until(lambda: not ranks_on(executor) or executor is victim, timeout=PATIENCE, what="no rank")  # noqa: B023
    if fault in (kill_rank, freeze_rank, close_executor):
        until(lambda: not program_folders(), timeout=PATIENCE, what="no folder")
    remove_program_folders()


def test_a_program_waits_for_machines_that_come_back(grid: Grid, undisturbed: str) -> None:
    executors = grid.executors("left", "right")
    process = heat(grid, executors)
    wait_for_starts(process, 1)
    cut_cable(executors[1])
    process_said = "the program waits for places"
    until(lambda: process_said in process.stderr(), timeout=PATIENCE, what="that it waits")
    executors[1].host.cable.mend()
    assert process.wait(timeout=PATIENCE) == 0, process.report()
    assert re.findall(r"^after step 300: (\w+)$", process.stdout(), re.MULTILINE) == [undisturbed], process.report()
    until(lambda: not program_folders(), timeout=PATIENCE, what="no folder")


def test_ctrl_c_ends_a_program_that_waits_for_machines(grid: Grid) -> None:
    executors = grid.executors("left", "right")
    process = heat(grid, executors)
    wait_for_starts(process, 1)
    kill_executor(executors[0])
    until(lambda: "the program waits for places" in process.stderr(), timeout=PATIENCE, what="that it waits")
    process.signal(signal.SIGINT)
    assert process.wait(timeout=PATIENCE) == 130, process.report()
    remove_program_folders()
