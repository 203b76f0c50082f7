"""Machines that cannot be recruited are named at once, and those that can do the work."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from cluster.grid import PATIENCE, Executor, Grid

from laboratory.lab import Lab
from laboratory.processes import until


def stop(executor: Executor) -> None:
    """The machine is there, the executor is not."""
    executor.process.signal(signal.SIGTERM)
    executor.process.wait()


def freeze(executor: Executor) -> None:
    """The kernel still answers, nobody reads."""
    executor.process.freeze()


def silence(executor: Executor) -> None:
    executor.host.cable.silence()


Trouble = Callable[[Executor], None]
TROUBLES: list[Trouble] = [stop, freeze, silence]


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_machine_that_does_not_answer_is_named(grid: Grid, trouble: Trouble) -> None:
    left = grid.executors("left")[0]
    trouble(left)
    kind, text = grid.farm([left], degree=2).failure()
    assert kind == "RecruitError"
    assert left.address in text


@pytest.mark.parametrize("trouble", TROUBLES)
def test_the_others_are_recruited_if_they_meet_the_contract(grid: Grid, trouble: Trouble) -> None:
    left, right = grid.executors("left", "right")
    trouble(left)
    met = grid.farm([left, right], degree=2)
    met.complete()
    assert {result["machine"] for result in met.facts("result")} == {"right"}
    kind, text = grid.farm([left, right], degree=3).failure()
    assert kind == "ContractError"
    assert left.address in text


def test_ctrl_c_ends_a_manager_that_waits_for_an_answer(grid: Grid) -> None:
    left = grid.executors("left")[0]
    freeze(left)
    with left.host.cable.capture() as capture:
        farm = grid.farm([left], degree=2)
        until(capture.flows, timeout=PATIENCE, what="the manager's knocking")
        farm.process.signal(signal.SIGINT)
        assert farm.process.wait(timeout=30) != 0


def test_two_managers_share_a_machine(grid: Grid) -> None:
    executors = grid.executors("left")
    one, other = grid.farm(executors, degree=1), grid.farm(executors, degree=1)
    one.complete()
    other.complete()


def test_a_machine_that_is_full_is_named(grid: Grid) -> None:
    executors = grid.executors("left")
    first = grid.farm(executors, degree=2, count=6, seconds=2)
    first.fired(at_least=2)
    kind, text = grid.farm(executors, degree=2).failure()
    assert kind == "RecruitError"
    assert executors[0].address in text
    assert "all 2 interpreters of this machine are in use" in text
    first.complete()


def test_what_a_contract_releases_serves_others(grid: Grid) -> None:
    (left,) = grid.executors("left")
    service = len(left.host.pids())

    def interpreters(number: int) -> None:
        both = service + 2 * number  # each has a keeper
        until(lambda: len(left.host.pids()) == both, timeout=PATIENCE, what=f"{number} interpreters")

    first = grid.farm([left], throughput=8, seconds=0.03, slow=20, count=500)
    interpreters(2)  # 0.3 s a task, 8 a second
    interpreters(1)  # 0.03 s a task
    grid.farm([left], degree=1).complete()
    summary = first.complete()
    assert summary["lost"] == 0
    assert sorted({it["state"] for it in summary["interpreters"]}) == ["released", "working"]


def test_a_manager_behind_a_nat_recruits_outside(lab: Lab) -> None:
    grid = Grid(lab.host("desk", lab.nat("office")))
    grid.farm(grid.executors("left"), degree=2).complete()


def test_a_long_and_bad_line_changes_no_result(grid: Grid) -> None:
    executors = grid.executors("left", "right")
    grid.desk.cable.shape(delay=0.03, loss=0.02)
    assert grid.farm(executors, count=300).complete()["tasks"] == 300


def test_interpreters_are_spread_over_the_machines_evenly(grid: Grid) -> None:
    executors = grid.executors("left", "middle", "right", "far")
    for _ in range(5):  # whoever recruits at the same time chooses at the same time
        farm = grid.farm(executors, degree=4)
        names = [interpreter["name"] for interpreter in farm.complete()["interpreters"]]
        assert sorted(name.split("/")[0] for name in names) == ["far", "left", "middle", "right"]
