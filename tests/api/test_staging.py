"""What cannot travel (programs, tasks, results) is an error that says so, and harms nothing else."""

from __future__ import annotations

import sys
import threading
from itertools import islice
from pathlib import Path
from typing import Any

import phalanx as px
import pytest
from api import tasks


class NotHere:
    """Pickles well and cannot be unpickled in the process with the pid `here`."""

    def __init__(self, here: int) -> None:
        self.here = here

    def __reduce__(self) -> Any:
        return _arrive, (self.here,)


def _arrive(here: int) -> NotHere:
    if tasks.my_pid(None) == here:
        raise ValueError("not here")
    return NotHere(here)


class NotThere(NotHere):
    """Cannot be unpickled anywhere else."""

    def __reduce__(self) -> Any:
        return _return, (self.here,)


def _return(here: int) -> NotThere:
    if tasks.my_pid(None) != here:
        raise ValueError("not there")
    return NotThere(here)


def test_a_program_that_cannot_be_pickled_is_an_error_at_once(manager: px.Manager) -> None:
    lock = threading.Lock()

    def locked(number: int) -> int:
        with lock:
            return number

    with pytest.raises(px.StagingError, match=r"locked.*cannot be pickled"):
        manager.compute(px.Pipeline(tasks.double, locked), [1])
    with pytest.raises(px.StagingError, match="cannot be pickled"):
        manager.compute(lambda number: manager.interpreters, [1])
    assert isinstance(manager.submit(locked, 1).exception(), px.StagingError)


@pytest.mark.parametrize("lazy", [False, True])
def test_a_task_that_cannot_be_pickled_is_named_after_the_results_before_it(manager: px.Manager, lazy: bool) -> None:
    stream: list[Any] = [1, 2, "three", (n for n in "generator"), 5, 6]
    results = manager.compute(tasks.identity, iter(stream) if lazy else stream)
    assert list(islice(results, 3)) == [1, 2, "three"]
    with pytest.raises(px.StagingError, match=r"the task <generator .* cannot be pickled"):
        next(results)
    assert list(results) == []
    assert list(manager.compute(tasks.double, [1])) == [2]


def test_a_stream_that_waits_for_results_does_not_hide_a_task_that_cannot_be_pickled(
    manager: px.Manager,
) -> None:
    read, never = threading.Event(), threading.Event()

    def feedback() -> Any:
        yield 1
        read.wait(30)
        yield threading.Lock()
        never.wait(30)

    results = manager.compute(tasks.identity, feedback())
    assert next(results) == 1
    read.set()
    with pytest.raises(px.StagingError, match="lock"):
        next(results)
    never.set()


def test_a_result_that_cannot_be_pickled_is_an_exception_of_its_task(manager: px.Manager) -> None:
    def sometimes(number: int) -> Any:
        return (n for n in range(number)) if number == 30 else number

    results = manager.compute(sometimes, range(100))
    assert list(islice(results, 30)) == list(range(30))
    with pytest.raises(px.StagingError, match=r"the result <generator .* cannot be pickled") as raised:
        next(results)
    assert isinstance(raised.value.__cause__, px.RemoteTraceback)
    assert (raised.value.__cause__.index, raised.value.__cause__.task) == (30, "30")


def test_a_task_that_cannot_be_unpickled_there_is_an_exception_of_this_task(manager: px.Manager) -> None:
    stream = [1, 2, NotThere(tasks.my_pid(None)), 4]
    results = manager.compute(tasks.identity, stream)
    assert list(islice(results, 2)) == [1, 2]
    with pytest.raises(px.StagingError, match=r"this-machine cannot unpickle a task: ValueError: not there"):
        next(results)


def test_a_result_that_cannot_be_unpickled_here_is_an_error_in_its_place(manager: px.Manager) -> None:
    here = tasks.my_pid(None)
    results = manager.compute(lambda number: NotHere(here) if number == 2 else [number], range(5))
    assert list(islice(results, 2)) == [[0], [1]]
    with pytest.raises(px.StagingError, match=r"a result cannot be unpickled here: ValueError: not here"):
        next(results)


def test_a_result_that_cannot_be_unpickled_here_costs_no_other_call(manager: px.Manager) -> None:
    here = tasks.my_pid(None)
    futures = [manager.submit(lambda n: NotHere(here) if n == 2 else [n], number) for number in range(5)]
    assert isinstance(futures[2].exception(timeout=30), px.StagingError)
    assert [future.result(timeout=30) for future in futures if future is not futures[2]] == [[0], [1], [3], [4]]


class Ending:
    """Raises StopIteration when it is unpickled, if it is empty."""

    def __init__(self, items: list[int]) -> None:
        self.items = items

    def __setstate__(self, state: dict[str, list[int]]) -> None:
        self.items = state["items"]
        next(iter(self.items))


def test_a_stop_iteration_while_unpickling_does_not_pass_for_the_end(manager: px.Manager) -> None:
    given = manager.compute(lambda one: one.items, [Ending([number] if number != 5 else []) for number in range(20)])
    assert list(islice(given, 5)) == [[number] for number in range(5)]
    with pytest.raises(px.StagingError, match="StopIteration"):
        next(given)
    results = manager.compute(lambda number: Ending([number] if number != 5 else []), range(20))
    assert [one.items for one in islice(results, 5)] == [[number] for number in range(5)]
    with pytest.raises(px.StagingError, match="StopIteration"):
        next(results)


def test_a_module_that_is_missing_there_is_named_with_the_machine(
    manager: px.Manager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_here.py").write_text("def thrice(number):\n    return 3 * number\n")
    monkeypatch.syspath_prepend(str(tmp_path))  # the manager's interpreters began without it
    from only_here import thrice  # type: ignore[import-not-found]

    try:
        with pytest.raises(px.StagingError, match=r"this-machine lacks the module 'only_here'"):
            list(manager.compute(thrice, [1]))
        with px.Manager(contract=px.ParDegree(1)) as other:
            assert list(other.compute(thrice, [1])) == [3]
    finally:
        del sys.modules["only_here"]


def test_modules_of_a_relative_path_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "beside.py").write_text("def thrice(number):\n    return 3 * number\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    from beside import thrice  # type: ignore[import-not-found]

    try:
        with px.Manager(contract=px.ParDegree(1)) as other:
            assert list(other.compute(thrice, [1])) == [3]
    finally:
        del sys.modules["beside"]
