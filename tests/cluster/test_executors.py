"""Programs on remote executors: same results, private links, and only members of the grid take part."""

from __future__ import annotations

import secrets

import pytest
from cluster.grid import PATIENCE, PHALANX, Executor, Farm, Grid

from laboratory.lab import Lab
from laboratory.processes import until


def test_a_program_gives_the_same_on_this_machine_and_on_others(grid: Grid) -> None:
    here = grid.farm([], degree=2)
    here.complete()
    there = grid.farm(grid.executors("left", "right"))
    summary = there.complete()
    assert {result["machine"] for result in here.facts("result")} == {"desk"}
    assert {result["machine"] for result in there.facts("result")} == {"left", "right"}
    assert summary["tasks"] == 100
    assert len(summary["interpreters"]) == 4
    assert sum(interpreter["tasks"] for interpreter in summary["interpreters"]) == 100


def test_links_here_are_clear_and_links_to_others_private(grid: Grid) -> None:
    here = grid.farm([], degree=2).complete()
    there = grid.farm(grid.executors("left"), degree=2).complete()
    assert {interpreter["level"] for interpreter in here["interpreters"]} == {"clear"}
    assert {interpreter["level"] for interpreter in there["interpreters"]} == {"private"}


def test_neither_tasks_nor_results_nor_code_can_be_read_on_the_way(grid: Grid) -> None:
    task, code = secrets.token_hex(500), secrets.token_hex(500)
    executors = grid.executors("left")
    with grid.desk.cable.capture() as capture:
        farm = grid.farm(executors, degree=2, task_marker=task, code_marker=code)
        farm.complete()
    assert farm.facts("result")[0]["marker"] == task
    # All of it did pass here, in random hex digits that nothing can press below half their length.
    to_and_fro = sorted(len(payload) for payload in capture.flows().values())
    assert sum(to_and_fro) > 100 * len(task)
    for secret in (task, code):
        assert not capture.saw(secret[:32].encode())


def test_an_executor_without_identity_does_not_start_and_says_what_to_do(lab: Lab) -> None:
    executor = lab.host("left").run([PHALANX, "executor", "--listen", "127.0.0.1:0"], check=False)
    assert executor.code not in (0, None)
    assert "phalanx grid issue" in executor.stderr()
    assert "Traceback" not in executor.stderr()


def refused(farm: Farm) -> str:
    """The program must end with an identity error, and nothing of it have run; returns what it says."""
    kind, text = farm.failure()
    assert kind in ("IdentityError", "RecruitError"), farm.process.report()
    assert farm.fired() == []
    return text


def test_an_executor_of_another_grid_is_refused(grid: Grid) -> None:
    stranger = Grid(grid.desk, "other").issue("left")
    executor = grid.executor(grid.desk.lab.host("left"), identity=stranger)
    text = refused(grid.farm([executor], degree=1))
    assert executor.address in text
    assert "certificate" in text


def test_a_user_in_an_executors_place_is_refused(grid: Grid) -> None:
    """A user's certificate must not let its holder collect the tasks of others."""
    impostor = grid.issue("mallory", role="user")
    left = grid.desk.lab.host("left")
    # The command itself may refuse to serve so; then the error is there.
    process = left.popen([PHALANX, "executor", "--listen", f"{left.address}:7400", f"--identity={impostor}"])
    until(lambda: process.code is not None or process.lines(), timeout=PATIENCE, what="a word from it")
    if process.code is None:
        assert "executor" in refused(grid.farm([Executor(left, process, 7400)], degree=1))
    else:
        assert "executor" in process.stderr()
        assert "Traceback" not in process.stderr()


@pytest.mark.parametrize("who", ["another grid's user", "an executor"])
def test_a_manager_that_is_no_user_of_the_grid_runs_nothing(grid: Grid, who: str) -> None:
    executors = grid.executors("left")
    other = Grid(grid.desk, "other")
    if who == "an executor":
        farm = grid.farm(executors, degree=1, identity=str(grid.issue("right")))
    else:
        farm = other.farm(executors, degree=1)
    refused(farm)
    grid.farm(executors, degree=1).complete()  # its own users are served as before


def test_a_manager_without_identity_is_told_so(grid: Grid) -> None:
    farm = grid.farm(grid.executors("left"), degree=1, identity=str(grid.desk.home / "nothing.pem"))
    assert "nothing.pem" in refused(farm)


def test_an_executor_serves_only_the_users_it_accepts(grid: Grid) -> None:
    left = grid.executor(grid.desk.lab.host("left"), options=["--accept", "alice"])
    alice, bob = (str(grid.issue(name, role="user")) for name in ("alice", "bob"))
    assert "the user bob is not among those accepted here" in refused(grid.farm([left], degree=1, identity=bob))
    grid.farm([left], degree=1, identity=alice).complete()


def test_a_module_that_a_machine_lacks_is_named_with_the_machine(grid: Grid) -> None:
    (grid.desk.home / "only_here.py").write_text("answer = 42\n")
    grid.farm([], degree=1, module="only_here").complete()
    left = grid.executors("left")[0]
    farm = grid.farm([left], degree=1, module="only_here")
    kind, text = farm.failure()
    assert kind == "StagingError"
    assert "only_here" in text
    assert left.address in text or "left" in text
    assert farm.fired() == []
