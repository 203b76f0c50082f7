"""`concurrent.futures.wait` and `as_completed` on the calls of a manager.

After CPython's own tests (Lib/test/test_concurrent_futures: test_wait, test_as_completed).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent import futures
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION, Future
from pathlib import Path
from typing import Any

import phalanx as px
import pytest
from api import tasks


@pytest.fixture
def gate(manager: px.Manager, tmp_path: Path) -> Any:
    """Makes calls that end when the file that bears their name is touched."""
    names: list[Path] = []

    def call(
        name: str, function: Callable[[str], str] = tasks.once_it_exists
    ) -> tuple[Future[str], Callable[[], None]]:
        names.append(tmp_path / name)
        return manager.submit(function, str(tmp_path / name)), (tmp_path / name).touch

    yield call
    for path in names:
        path.touch()


def done() -> Future[int]:
    future: Future[int] = Future()
    future.set_result(1)
    return future


def test_the_first_one_that_completes(manager: px.Manager, gate: Any) -> None:
    waiting, _ = gate("never")
    quick = manager.submit(tasks.double, 3)
    finished, pending = futures.wait([waiting, quick], return_when=FIRST_COMPLETED, timeout=30)
    assert (finished, pending) == ({quick}, {waiting})


def test_one_that_has_completed_before(gate: Any) -> None:
    waiting, _ = gate("never")
    finished, pending = futures.wait({waiting, completed := done()}, return_when=FIRST_COMPLETED, timeout=30)
    assert (finished, pending) == ({completed}, {waiting})


def test_the_first_exception(manager: px.Manager, gate: Any) -> None:
    waiting, _ = gate("never")
    good, bad = manager.submit(tasks.double, 2), manager.submit(tasks.inverse, 0)
    finished, pending = futures.wait([good, bad, waiting], return_when=FIRST_EXCEPTION, timeout=30)
    assert bad in finished
    assert waiting in pending
    assert finished | pending == {good, bad, waiting}


def wait_for(path: str) -> str:
    """A function of its own, whose calls are thought to take as long as its calls before."""
    return tasks.once_it_exists(path)


def test_others_do_not_wait_behind_one_that_goes_on(manager: px.Manager, tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    manager.submit(wait_for, str(tmp_path / "there")).result(timeout=30)
    waiting = manager.submit(wait_for, str(tmp_path / "late"))
    others: list[Future[Any]] = [manager.submit(tasks.double, number) for number in range(60)]
    others += [manager.submit(tasks.inverse, number) for number in range(1, 20)]
    try:
        assert futures.wait(others, timeout=30).not_done == set()
        assert not waiting.done()
    finally:
        (tmp_path / "late").touch()


def test_all_of_them(manager: px.Manager) -> None:
    calls: list[Future[Any]] = [manager.submit(divmod, 2, number % 3) for number in range(12)]
    finished, pending = futures.wait([*calls, *calls, done()], return_when=ALL_COMPLETED, timeout=30)
    assert not pending
    assert len(finished) == 13


def test_not_all_of_them_in_time(manager: px.Manager, gate: Any) -> None:
    waiting, open_gate = gate("late")
    quick = manager.submit(tasks.double, 2)
    quick.result(timeout=30)
    finished, pending = futures.wait([waiting, quick], timeout=0.05)
    assert (finished, pending) == ({quick}, {waiting})
    open_gate()
    assert futures.wait([waiting, quick], timeout=30).not_done == set()


def test_cancelled_ones_are_done(manager: px.Manager, gate: Any) -> None:
    def never_called(path: str) -> str:  # of such a function, few calls are sent before the first has come back
        return tasks.once_it_exists(path)

    gates = [gate(str(number), never_called) for number in range(20)]
    cancelled = {call for call, _ in gates if call.cancel()}
    assert cancelled
    for _, open_gate in gates:
        open_gate()
    assert futures.wait([call for call, _ in gates], timeout=30).not_done == set()


def test_as_completed(manager: px.Manager, gate: Any) -> None:
    first, open_first = gate("first")
    second, open_second = gate("second")
    completed = futures.as_completed([second, first, done()], timeout=30)
    assert next(completed).result() == 1
    open_first()
    assert next(completed) is first
    open_second()
    assert next(completed) is second
    with pytest.raises(StopIteration):
        next(completed)


def test_as_completed_in_time(gate: Any) -> None:
    waiting, _ = gate("never")
    completed = futures.as_completed([waiting, ready := done()], timeout=0.05)
    assert next(completed) is ready
    with pytest.raises(futures.TimeoutError, match=r"1 \(of 2\) futures unfinished"):
        next(completed)


def test_as_completed_names_nobody_twice(manager: px.Manager) -> None:
    call = manager.submit(tasks.double, 1)
    assert list(futures.as_completed([call, call], timeout=30)) == [call]


def test_as_completed_of_many(manager: px.Manager) -> None:
    calls: dict[futures.Future[int], int] = {manager.submit(tasks.slowly, number): number for number in range(200)}
    assert sorted(calls[call] for call in futures.as_completed(calls, timeout=60)) == list(range(200))
