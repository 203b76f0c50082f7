"""Whatever is killed, frozen or cut off: every result comes once, or an error says what was lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster.grid import PATIENCE, Executor, Farm, Grid

from laboratory.namespaces import kill_all
from laboratory.processes import freeze, until


def gone(pids: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def interpreter(farm: Farm, executor: Executor) -> int:
    """The pid of one that has delivered something and runs on `executor`'s machine."""
    name = executor.host.name
    return until(lambda: farm.interpreters(name), timeout=PATIENCE, what=f"a result from {name}").pop()


def newcomer(farm: Farm, known: set[int]) -> int:
    """The pid of one that has delivered something and is not among `known`."""
    return until(lambda: farm.interpreters() - known, timeout=PATIENCE, what=f"one not among {known}").pop()


def kill_interpreter(farm: Farm, executor: Executor) -> None:
    os.kill(interpreter(farm, executor), signal.SIGKILL)


def freeze_interpreter(farm: Farm, executor: Executor) -> None:
    freeze(interpreter(farm, executor))


def kill_executor(farm: Farm, executor: Executor) -> None:
    executor.process.signal(signal.SIGKILL)


def freeze_executor(farm: Farm, executor: Executor) -> None:
    executor.process.freeze()


def freeze_machine(farm: Farm, executor: Executor) -> None:
    for pid in executor.host.pids():
        freeze(pid)


def crash_machine(farm: Farm, executor: Executor) -> None:
    """Power off: everything stops at once and says no good-bye."""
    executor.host.cable.silence()
    kill_all(executor.host.namespace)


def silence(farm: Farm, executor: Executor) -> None:
    executor.host.cable.silence()


def tear_cable(farm: Farm, executor: Executor) -> None:
    executor.host.cable.cut()


Fault = Callable[[Farm, Executor], None]
FAULTS: list[Fault] = [
    kill_interpreter,
    freeze_interpreter,
    kill_executor,
    freeze_executor,
    freeze_machine,
    crash_machine,
    silence,
    tear_cable,
]


@pytest.mark.parametrize("fault", FAULTS)
def test_every_result_comes_once_and_in_order_whatever_is_lost(grid: Grid, fault: Fault) -> None:
    left, right = grid.executors("left", "right")
    farm = grid.farm([left, right], seconds=0.1)
    farm.results(at_least=20)
    fault(farm, left)
    summary = farm.complete()
    assert summary["tasks"] == 100
    # Interpreters own their links to the manager, so these may go on without their executor.
    assert summary["lost"] >= 1 or fault in (kill_executor, freeze_executor)


@pytest.mark.parametrize("fault", [kill_executor, silence])
def test_a_machine_that_is_lost_at_the_very_start_costs_no_result(grid: Grid, fault: Fault) -> None:
    left, right = grid.executors("left", "right")
    farm = grid.farm([left, right])
    farm.fired(at_least=1)
    fault(farm, left)
    farm.complete()


@pytest.mark.parametrize("fault", [kill_interpreter, freeze_machine, silence])
def test_small_tasks_of_which_many_travel_together_come_once_too(grid: Grid, fault: Fault) -> None:
    left, right = grid.executors("left", "right")
    # Long enough that the fault comes while it runs, on a busy machine too: 10 000 tasks took 1.3 s.
    farm = grid.farm([left, right], seconds=0, count=40_000)
    farm.results(at_least=1)
    fault(farm, left)
    farm.complete()


def test_a_machine_that_comes_back_has_ended_what_it_ran_and_serves_again(grid: Grid) -> None:
    left, right = grid.executors("left", "right")
    farm = grid.farm([left, right], seconds=0.1)
    orphan = interpreter(farm, left)
    left.host.cable.silence()
    farm.complete()
    until(lambda: gone([orphan]), timeout=PATIENCE, what="the end of the interpreter that lost its manager")
    left.host.cable.mend()
    grid.farm([left], degree=2).complete()


def test_one_interpreter_after_another_dies_and_each_is_replaced(grid: Grid) -> None:
    farm = grid.farm(grid.executors("left", "right"), count=600)
    farm.results(at_least=60)
    victim = min(farm.interpreters())
    for _ in range(3):
        seen = farm.interpreters()
        os.kill(victim, signal.SIGKILL)
        victim = newcomer(farm, seen)
    summary = farm.complete()
    assert summary["lost"] == 3
    assert summary["replaced"] == 3


def test_a_task_that_kills_its_interpreters_is_named(grid: Grid) -> None:
    kind, text = grid.farm(grid.executors("left"), degree=2, culprit=17).failure()
    assert kind == "CulpritError"
    assert "170" in text or "17" in text


@pytest.mark.parametrize("fault", [crash_machine, silence, freeze_machine, kill_executor])
def test_when_all_machines_are_gone_the_program_ends_and_names_the_losses(grid: Grid, fault: Fault) -> None:
    executors = grid.executors("left", "right")
    farm = grid.farm(executors, seconds=0.1, count=1000, patience=1)
    farm.results(at_least=10)
    for executor in executors:
        fault(farm, executor)
        if fault is kill_executor:
            kill_all(executor.host.namespace)
    kind, text = farm.failure()
    assert kind == "LostError"
    for executor in executors:
        assert executor.address in text or executor.host.name in text


@pytest.mark.parametrize("how", ["ctrl-c", "interrupt", "kill"])
def test_the_end_of_the_manager_is_the_end_of_its_interpreters(grid: Grid, how: str) -> None:
    executors = grid.executors("left", "right")
    farm = grid.farm(executors, seconds=1000)
    working = [pid for _, pid in farm.fired(at_least=4)]
    if how == "kill":
        farm.process.signal(signal.SIGKILL)
    else:
        farm.process.signal(signal.SIGINT, group=how == "ctrl-c")
    assert farm.process.wait(timeout=30) != 0
    until(lambda: gone(working), timeout=30, what=f"the end of the interpreters {working}")
    grid.farm(executors).complete()  # the executors serve the next


def test_the_end_of_an_executor_is_the_end_of_its_interpreters(grid: Grid) -> None:
    left = grid.executors("left")[0]
    farm = grid.farm([left], degree=2, seconds=1000, patience=1)
    farm.fired(at_least=2)
    left.process.signal(signal.SIGINT)
    left.process.wait(timeout=30)
    until(lambda: not left.host.pids(), timeout=30, what="the end of all processes on the machine")
    assert farm.failure()[0] == "LostError"
