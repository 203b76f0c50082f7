"""Executors that are killed and started again by a supervisor: programs wait, go on, and lose nothing."""

from __future__ import annotations

import gc
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import phalanx as px
import pytest
from api import tasks
from api.conftest import Script
from api.supervised import Grid, Supervised

DEGREE = 2


@pytest.fixture
def grid(tmp_path: Path) -> Grid:
    return Grid(tmp_path)


@pytest.fixture
def executor(grid: Grid) -> Iterator[Supervised]:
    started = grid.executor("labpc")
    yield started
    started.kill()
    gc.collect()  # a manager and its futures know each other


@pytest.fixture
def open_manager(grid: Grid, executor: Supervised) -> Callable[[float], px.Manager]:
    def start(patience: float) -> px.Manager:
        contract = px.ParDegree(DEGREE)
        return px.Manager(executor.address, identity=grid.identity, contract=contract, patience=patience)

    return start


OpenManager = Callable[[float], px.Manager]


@pytest.mark.parametrize("ordered", [True, False])
def test_the_only_executor_restarts_again_and_again_under_a_computation(
    open_manager: OpenManager, executor: Supervised, ordered: bool
) -> None:
    results: list[int] = []
    with open_manager(120) as manager, executor.killed_on_progress(lambda: len(results), every=100):
        for result in manager.compute(tasks.slowly, range(500), ordered=ordered):
            results.append(result)
    assert (results if ordered else sorted(results)) == list(range(500))
    assert executor.starts >= 3


@pytest.mark.parametrize("ordered", [True, False])
def test_the_only_executor_restarts_under_tasks_of_an_iterator(
    open_manager: OpenManager, executor: Supervised, ordered: bool
) -> None:
    results: list[int] = []
    with open_manager(120) as manager, executor.killed_on_progress(lambda: len(results), every=100, times=2):
        for result in manager.compute(tasks.slowly, iter(range(400)), ordered=ordered):
            results.append(result)
    assert (results if ordered else sorted(results)) == list(range(400))
    assert executor.starts >= 2


def test_the_only_executor_restarts_under_calls(open_manager: OpenManager, executor: Supervised) -> None:
    with open_manager(120) as manager:
        futures = [manager.submit(tasks.slowly, number) for number in range(300)]
        with executor.killed_on_progress(lambda: sum(future.done() for future in futures), every=60):
            assert [future.result(timeout=120) for future in futures] == list(range(300))
        assert executor.starts >= 3


def test_the_only_executor_restarts_under_a_map(open_manager: OpenManager, executor: Supervised) -> None:
    results: list[int] = []
    with open_manager(120) as manager, executor.killed_on_progress(lambda: len(results), every=60):
        for result in manager.map(tasks.slowly, range(300)):
            results.append(result)
    assert results == list(range(300))
    assert executor.starts >= 3


def test_calls_made_while_no_executor_is_there_wait_for_it(open_manager: OpenManager, executor: Supervised) -> None:
    with open_manager(120) as manager:
        assert manager.submit(tasks.double, 1).result(timeout=60) == 2
        kill(executor, manager)
        future = manager.submit(tasks.double, 2)
        results = manager.compute(tasks.double, range(10))
        with pytest.raises(TimeoutError):
            future.result(timeout=1)
        executor.restart()
        assert list(results) == list(range(0, 20, 2))
        assert future.result(timeout=60) == 4


def test_without_patience_a_loss_is_final_and_the_next_call_tries_again(
    open_manager: OpenManager, executor: Supervised
) -> None:
    with open_manager(0.5) as manager:
        assert list(manager.compute(tasks.double, range(10))) == list(range(0, 20, 2))
        kill(executor, manager)
        for _ in range(2):
            began = time.monotonic()
            with pytest.raises(px.LostError, match=executor.address):
                list(manager.compute(tasks.double, range(10)))
            assert time.monotonic() - began >= 0.4
        assert isinstance(manager.submit(tasks.double, 1).exception(timeout=60), px.LostError)
        executor.restart()
        assert list(manager.compute(tasks.double, range(10))) == list(range(0, 20, 2))
        assert manager.submit(tasks.double, 1).result(timeout=60) == 2


def test_an_address_where_no_executor_ever_was_is_an_error_at_once(grid: Grid, executor: Supervised) -> None:
    executor.kill()
    began = time.monotonic()
    with pytest.raises(px.RecruitError, match="no executor listens there"):
        px.Manager(executor.address, identity=grid.identity, patience=600)
    assert time.monotonic() - began < 60


@pytest.mark.parametrize("patience", [-1.0, float("nan")])
def test_a_patience_that_is_none_is_refused(patience: float) -> None:
    with pytest.raises(px.ContractError, match="patience"):
        px.Manager(patience=patience)


def test_one_of_two_executors_that_restarts_is_used_again(grid: Grid, executor: Supervised, tmp_path: Path) -> None:
    other = grid.executor("other")
    hosts = tmp_path / "hosts.txt"
    hosts.write_text("".join(f"{one.address.replace(':', ' ')}\n" for one in (executor, other)))
    try:
        with px.Manager(px.Hosts(hosts), identity=grid.identity, contract=px.ParDegree(4)) as manager:
            results = manager.compute(tasks.slowly, range(1_000_000))
            expected = iter(range(1_000_000))

            def at(address: str) -> int:
                assert next(results) == next(expected)
                found = manager.summary().interpreters
                return sum(it.state == "working" and it.machine == address and it.tasks > 0 for it in found)

            until_is(lambda: at(executor.address) == 2)
            executor.kill()
            until_is(lambda: at(executor.address) == 0)
            executor.restart()
            until_is(lambda: at(executor.address) == 2)
            results.close()
    finally:
        other.kill()


def kill(executor: Supervised, manager: px.Manager) -> None:
    """Returns when the manager knows: until then interpreters may still compute something."""
    executor.kill()
    until_is(lambda: not any(it.state == "working" for it in manager.summary().interpreters))


def until_is(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, "it takes too long"


@pytest.mark.parametrize("waits_in", ["compute", "submit"])
def test_ctrl_c_ends_a_program_that_waits_for_its_executor(
    grid: Grid, executor: Supervised, script: Script, waits_in: str
) -> None:
    wait = "list(manager.compute(abs, range(100)))" if waits_in == "compute" else "manager.submit(abs, 1).result()"
    program = script(
        f"""
        import sys
        import phalanx as px
        with px.Manager(sys.argv[1], identity=sys.argv[2], contract=px.ParDegree(2), patience=600) as manager:
            print(list(manager.compute(abs, range(3))), flush=True)
            sys.stdin.readline()
            while not all(it.state == "lost" for it in manager.summary().interpreters):
                pass
            print("waits", flush=True)
            {wait}
    """,
        executor.address,
        str(grid.identity),
    )
    program.line("[0, 1, 2]")
    executor.kill()
    program.line("waits")
    program.signal(signal.SIGINT)
    assert program.wait(timeout=30) != 0
    assert "KeyboardInterrupt" in program.stderr()
