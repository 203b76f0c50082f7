"""Whatever ends or freezes interpreters on this machine: every result comes once, or an error says what was lost."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import phalanx as px
import pytest
from api import tasks
from api.conftest import Script, gone
from conftest import Eventually

from laboratory.processes import freeze

DEGREE = 2


@pytest.fixture
def own_manager() -> Any:
    with px.Manager(contract=px.ParDegree(DEGREE)) as manager:
        yield manager


def pids(manager: px.Manager, state: str = "working") -> list[int]:
    return [it.pid for it in manager.summary().interpreters if it.state == state]


def first_time(path: Path, otherwise: Callable[[int], int], fault: Callable[[], Any]) -> Callable[[int], int]:
    """A task that does something terrible when it is fired first, and never again."""

    def fire(number: int) -> int:
        marker = path / str(number)
        if number % 20 == 10 and not marker.exists():
            marker.touch()
            fault()
        return otherwise(number)

    return fire


@pytest.mark.parametrize("ordered", [True, False])
def test_interpreters_that_are_killed_cost_no_result(own_manager: px.Manager, ordered: bool) -> None:
    results = []
    for result in own_manager.compute(tasks.slowly, range(600), ordered=ordered):
        results.append(result)
        if len(results) % 120 == 60:
            os.kill(pids(own_manager)[0], signal.SIGKILL)
    assert (results if ordered else sorted(results)) == list(range(600))
    summary = own_manager.summary()
    assert summary.tasks == 600
    assert summary.lost >= 3  # one may be killed twice before the first is noticed


def test_all_interpreters_killed_at_once(own_manager: px.Manager) -> None:
    results = own_manager.compute(tasks.slowly, range(300))
    some = list(islice(results, 100))
    for pid in pids(own_manager):
        os.kill(pid, signal.SIGKILL)
    assert [*some, *results] == list(range(300))
    assert own_manager.summary().lost == DEGREE


def test_interpreters_killed_when_they_have_nothing_to_do(own_manager: px.Manager, eventually: Eventually) -> None:
    for _ in range(2):
        eventually(lambda: len(pids(own_manager)) == DEGREE)
        for pid in pids(own_manager):
            os.kill(pid, signal.SIGKILL)
        assert list(own_manager.compute(tasks.double, range(50))) == list(range(0, 100, 2))
    eventually(lambda: len(pids(own_manager)) == DEGREE)
    assert own_manager.summary().replaced == 2 * DEGREE


@pytest.mark.parametrize("fuse", [True, False])
def test_tasks_that_end_their_interpreter_once(own_manager: px.Manager, tmp_path: Path, fuse: bool) -> None:
    fatal = first_time(tmp_path, tasks.double, lambda: os._exit(7))
    program = px.Pipeline(tasks.identity, px.Farm(fatal), tasks.increment, fuse=fuse)
    assert list(own_manager.compute(program, range(100))) == [2 * number + 1 for number in range(100)]
    losses = [it.cause for it in own_manager.summary().interpreters if it.state == "lost"]
    assert [loss.partition(",")[0] for loss in map(str, losses)] == ["died: exited with status 7"] * 5


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_call_whose_interpreter_is_killed_is_made_again(
    own_manager: px.Manager, tmp_path: Path, fault: signal.Signals
) -> None:
    fatal = first_time(tmp_path, tasks.double, lambda: tasks.killed_by(fault))
    assert list(own_manager.map(fatal, range(30))) == list(range(0, 60, 2))
    (lost,) = (it for it in own_manager.summary().interpreters if it.state == "lost")
    assert str(lost.cause).startswith(f"died: killed by signal {fault.value} ({fault.name})")


def test_large_tasks_and_results_of_killed_interpreters(own_manager: px.Manager) -> None:
    stream = (bytes([number]) * (1 << 20) for number in range(60))
    for number, result in enumerate(own_manager.compute(lambda data: data + data, stream)):
        assert result == bytes([number]) * (2 << 20)
        if number in (10, 30):
            os.kill(pids(own_manager)[0], signal.SIGKILL)


def test_the_culprit_is_named_after_the_results_before_it(own_manager: px.Manager) -> None:
    def fire(number: int) -> int:
        return tasks.double(number) if number != 170 else os._exit(5)

    results = own_manager.compute(fire, range(100, 300))
    assert list(islice(results, 70)) == list(range(200, 340, 2))
    with pytest.raises(px.CulpritError) as raised:
        next(results)
    assert (raised.value.index, raised.value.task) == (70, 170)
    assert str(raised.value).count("exited with status 5") == 3
    assert list(results) == []
    assert list(own_manager.compute(fire, [1])) == [2]


def test_other_tasks_of_an_unordered_run_are_not_suspected(own_manager: px.Manager, tmp_path: Path) -> None:
    """Killers travel in one batch with small innocent tasks; each of those is computed before or after."""

    def fire(number: int) -> int:
        if number in (500, 501):
            tasks.killed_by(signal.SIGKILL)
        return number

    seen: list[int] = []
    with pytest.raises(px.CulpritError) as raised:
        seen.extend(own_manager.compute(fire, range(1000), ordered=False))
    assert len(seen) == len(set(seen))
    assert raised.value.index in (500, 501)


def test_a_call_that_is_the_culprit_spoils_no_other(own_manager: px.Manager) -> None:
    calls = [own_manager.submit(tasks.double, number) for number in range(20)]
    fatal = own_manager.submit(os._exit, 3)
    calls += [own_manager.submit(tasks.double, number) for number in range(20, 40)]
    error = fatal.exception(timeout=60)
    assert isinstance(error, px.CulpritError)
    assert "exited with status 3" in str(error)
    assert [call.result(timeout=60) for call in calls] == list(range(0, 80, 2))


def test_a_program_that_cannot_be_loaded_alive_is_a_culprit(own_manager: px.Manager) -> None:
    class Fatal:
        def __reduce__(self) -> Any:
            return os._exit, (4,)

        def __call__(self, number: int) -> int:
            return number

    with pytest.raises(px.CulpritError, match="exited with status 4"):
        list(own_manager.compute(Fatal(), [1]))


def test_a_frozen_interpreter_is_noticed_and_replaced(own_manager: px.Manager, eventually: Eventually) -> None:
    results = own_manager.compute(tasks.slowly, range(300))
    some = list(islice(results, 50))
    frozen = pids(own_manager)[0]
    freeze(frozen)
    assert [*some, *results] == list(range(300))  # others may have done what it held before it was given up
    eventually(lambda: pids(own_manager, "lost") == [frozen])
    (lost,) = (it for it in own_manager.summary().interpreters if it.state == "lost")
    assert "silent" in str(lost.cause)
    eventually(lambda: len(pids(own_manager)) == DEGREE)
    eventually(lambda: gone([Path(f"/proc/{frozen}")]), what="the end of the frozen one")


def test_an_interpreter_that_keeps_python_busy_is_not_taken_for_a_frozen_one(own_manager: px.Manager) -> None:
    """Code in C that does not let other Python threads run for longer than a frozen interpreter may be silent."""

    def busy(seconds: int) -> int:
        return int(ctypes.PyDLL(None).sleep(seconds))

    assert list(own_manager.compute(busy, [2, 2])) == [0, 0]
    assert own_manager.summary().lost == 0


# Beside so many busy loops a process of the lowest priority mostly waits for ten seconds between two time slices.
LOOPS, MOST_LOOPS = 12, 60


@contextmanager
def starved(pid: int) -> Iterator[Callable[[], None]]:
    """Meanwhile the process gets the processor only where busy loops leave it, which is hardly ever; what is given adds
    one."""
    processor = min(os.sched_getaffinity(0))
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setscheduler(int(thread.name), os.SCHED_IDLE, os.sched_param(0))
        os.sched_setaffinity(int(thread.name), {processor})
    loops: list[subprocess.Popen[bytes]] = []

    def more() -> None:
        if len(loops) < MOST_LOOPS:
            loops.append(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            os.sched_setaffinity(loops[-1].pid, {processor})

    try:
        for _ in range(LOOPS):
            more()
        yield more
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def test_a_starved_interpreter_is_not_taken_for_a_frozen_one(own_manager: px.Manager) -> None:
    results = own_manager.compute(tasks.slowly, range(100_000), stragglers=False, ordered=False)
    assert len(list(islice(results, 50))) == 50
    victim = pids(own_manager)[0]

    def done() -> int:
        return next(it.tasks for it in own_manager.summary().interpreters if it.pid == victim)

    def is_silent() -> bool:
        """Whether nothing comes from it for longer than a frozen one may be silent."""
        before, end = done(), time.monotonic() + 2
        while time.monotonic() < end:
            next(results)
            if done() != before:
                more()
                return False
        return True

    # Beside much other load the system gives who mostly sleeps its turn, and it is silent for less.
    is_alone = os.getloadavg()[0] < 2 * len(os.sched_getaffinity(0))
    with starved(victim) as more:
        end = time.monotonic() + 60
        while not (was_silent := is_silent()) and time.monotonic() < end:
            pass
    assert was_silent or not is_alone
    assert own_manager.summary().lost == 0
    results.close()


def test_a_program_that_was_suspended_loses_nothing(script: Script, eventually: Eventually) -> None:
    program = script("""
        import time
        import phalanx as px
        def slowly(number):
            time.sleep(0.01)
            return number
        with px.Manager(contract=px.ParDegree(2)) as manager:
            for number, result in enumerate(manager.compute(slowly, range(300))):
                assert number == result
                print(number, flush=True)
            print("lost", manager.summary().lost)
    """)
    program.line("20")
    program.freeze()
    with pytest.raises(AssertionError, match="waited"):  # longer than an interpreter may be silent
        eventually(lambda: "299" in program.lines(), timeout=2.5)
    program.thaw()
    assert program.wait() == 0, program.report()
    assert program.lines()[-1] == "lost 0"


@pytest.fixture
def no_interpreter_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Every new Python ends at once, until what is returned is called."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import os\nos._exit(9)\n")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return (folder / "sitecustomize.py").unlink


@pytest.mark.usefixtures("no_interpreter_starts")
def test_interpreters_that_cannot_start_are_an_error_that_names_why(own_manager: px.Manager) -> None:
    with pytest.raises(px.RecruitError, match="did not start: died: exited with status 9"):
        list(own_manager.compute(tasks.double, [1]))
    for _ in range(2):
        with pytest.raises(px.RecruitError, match="exited with status 9"):
            own_manager.submit(tasks.double, 1).result(timeout=30)


def test_a_manager_recovers_when_interpreters_can_start_again(
    no_interpreter_starts: Callable[[], None], own_manager: px.Manager
) -> None:
    futures = [own_manager.submit(tasks.double, number) for number in range(5)]
    assert {type(future.exception(timeout=30)) for future in futures} == {px.RecruitError}
    with pytest.raises(px.RecruitError):
        list(own_manager.compute(tasks.double, iter([1])))
    no_interpreter_starts()
    assert list(own_manager.compute(tasks.double, [1])) == [2]
    assert own_manager.submit(tasks.double, 1).result(timeout=30) == 2
