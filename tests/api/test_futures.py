"""A manager is an executor of the standard library: calls, results, exceptions, cancelling, callbacks.

After CPython's own tests of `concurrent.futures` (Lib/test/test_concurrent_futures: executor, process_pool).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from functools import partial
from pathlib import Path
from typing import Any

import phalanx as px
import pytest
from api import tasks
from conftest import Eventually


class Held:
    """Calls that keep all interpreters of the manager busy until `release`."""

    def __init__(self, manager: px.Manager, folder: Path) -> None:
        self._end = folder / "end"
        began = [folder / f"began-{number}" for number in range(manager.interpreters)]
        self.calls = [manager.submit(tasks.hold, (str(path), str(self._end))) for path in began]
        self.began = lambda: all(path.exists() for path in began)

    def release(self) -> None:
        self._end.touch()


@pytest.fixture
def unknown() -> Callable[[int], int]:
    """Doubles; nobody knows how long that takes, so not many calls are sent ahead of answers."""
    return lambda number: 2 * number


@pytest.fixture
def held(manager: px.Manager, tmp_path: Path, eventually: Eventually) -> Any:
    calls = Held(manager, tmp_path)
    eventually(calls.began)
    yield calls
    calls.release()
    concurrent.futures.wait(calls.calls, timeout=30)


def test_it_is_an_executor(manager: px.Manager) -> None:
    assert isinstance(manager, concurrent.futures.Executor)
    assert isinstance(manager.submit(tasks.double, 1), Future)


def test_submit(manager: px.Manager) -> None:
    assert manager.submit(pow, 2, 8).result() == 256
    assert manager.submit(tasks.nap, 0).result(timeout=30) == 0
    assert manager.submit(lambda: "no arguments").result() == "no arguments"


def test_submit_with_keywords(manager: px.Manager) -> None:
    def all_of(*args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    assert manager.submit(tasks.divide, 6, denominator=3).result() == 2
    assert manager.submit(all_of, 1, self=2, fn=3).result() == ((1,), {"self": 2, "fn": 3})
    with pytest.raises(TypeError):
        manager.submit(fn=all_of, arg=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        manager.submit()  # type: ignore[call-arg]


def test_an_exception_of_a_call_is_that_of_its_future(manager: px.Manager) -> None:
    future = manager.submit(tasks.divide, 1, 0)
    error = future.exception(timeout=30)
    assert type(error) is ZeroDivisionError
    assert isinstance(error.__cause__, px.RemoteTraceback)
    assert "return numerator / denominator" in error.__cause__.traceback
    with pytest.raises(ZeroDivisionError):
        future.result()
    assert manager.submit(tasks.divide, 1, 1).exception() is None


def test_what_cannot_be_called_is_an_exception_of_the_future(manager: px.Manager) -> None:
    assert isinstance(manager.submit(5, 1).exception(timeout=30), TypeError)  # type: ignore[arg-type]
    assert isinstance(manager.submit(tasks.double).exception(timeout=30), TypeError)  # type: ignore[call-arg]


def test_a_skeleton_is_no_function(manager: px.Manager) -> None:
    hint = r"Farm\(double\) is a skeleton and no function: manager.compute"
    with pytest.raises(px.ProgramError, match=hint):
        manager.submit(px.Farm(tasks.double), 1).result(timeout=30)  # type: ignore[arg-type]
    with pytest.raises(px.ProgramError, match=hint):
        list(manager.map(px.Farm(tasks.double), [1]))  # type: ignore[call-overload]


def test_arguments_that_cannot_be_pickled(manager: px.Manager) -> None:
    lock = threading.Lock()
    futures = [manager.submit(tasks.identity, lock if number == 3 else number) for number in range(6)]
    error = futures[3].exception(timeout=30)
    assert isinstance(error, px.StagingError)
    assert "lock" in str(error)
    assert [future.result(30) for future in futures if future is not futures[3]] == [0, 1, 2, 4, 5]


def test_map(manager: px.Manager) -> None:
    assert list(manager.map(pow, range(10), range(10))) == list(map(pow, range(10), range(10)))
    assert list(manager.map(pow, range(10), range(5, 20), chunksize=3)) == list(map(pow, range(10), range(5, 15)))
    assert list(manager.map(tasks.double, [])) == []
    assert list(manager.map(tasks.double, range(2000), chunksize=100)) == list(range(0, 4000, 2))


def test_map_gives_results_up_to_an_exception(manager: px.Manager) -> None:
    results = manager.map(divmod, [1, 1, 1, 1], [2, 3, 0, 5])
    assert [next(results), next(results)] == [(0, 1), (0, 1)]
    with pytest.raises(ZeroDivisionError):
        next(results)
    with pytest.raises(StopIteration):
        next(results)


def test_map_with_a_timeout(manager: px.Manager, held: Held) -> None:
    with pytest.raises(concurrent.futures.TimeoutError):
        list(manager.map(tasks.double, [1], timeout=0.05))
    held.release()
    assert list(manager.map(tasks.nap, [0, 0.01], timeout=30)) == [0, 0.01]


def test_map_begins_before_its_results_are_read(manager: px.Manager, tmp_path: Path, eventually: Eventually) -> None:
    results = manager.map(Path.touch, [tmp_path / "one", tmp_path / "two"])
    eventually((tmp_path / "two").exists)
    assert list(results) == [None, None]


def test_a_result_that_is_not_there_in_time(held: Held) -> None:
    for ask in (held.calls[0].result, held.calls[0].exception):
        began = time.monotonic()
        with pytest.raises(concurrent.futures.TimeoutError):
            ask(timeout=0.2)
        assert time.monotonic() - began >= 0.19
        with pytest.raises(concurrent.futures.TimeoutError):
            ask(timeout=0)
    held.release()
    assert held.calls[0].result(timeout=30) is None


def test_the_states_of_a_call(
    manager: px.Manager, held: Held, unknown: Callable[[int], int], eventually: Eventually
) -> None:
    queued = [manager.submit(unknown, number) for number in range(50)]
    assert all(call.running() and not call.done() for call in held.calls)
    assert not any(call.done() for call in queued)
    assert not queued[-1].running()
    held.release()
    eventually(lambda: all(call.done() for call in queued))
    assert not any(call.running() or call.cancelled() for call in queued)
    assert not any(call.running() or call.cancelled() for call in held.calls)


def test_a_queued_call_can_be_cancelled_and_a_running_one_cannot(
    manager: px.Manager, held: Held, unknown: Callable[[int], int]
) -> None:
    queued = [manager.submit(unknown, number) for number in range(50)]
    assert not any(call.cancel() for call in held.calls)
    for call in queued[30:]:
        assert call.cancel()
        assert call.cancel()  # again
        assert call.cancelled()
        assert call.done()
        assert not call.running()
        with pytest.raises(CancelledError):
            call.result()
        with pytest.raises(CancelledError):
            call.exception(timeout=30)
    held.release()
    assert [call.result(timeout=30) for call in queued[:30]] == list(range(0, 60, 2))
    assert not queued[0].cancel()


def test_a_cancelled_call_is_not_made(manager: px.Manager, tmp_path: Path, held: Held) -> None:
    calls = [manager.submit(lambda number: (tmp_path / f"call-{number}").touch(), number) for number in range(40)]
    cancelled = {number for number, call in enumerate(calls) if call.cancel()}
    assert len(cancelled) >= 35
    held.release()
    done = concurrent.futures.wait(calls, timeout=30).done
    assert len(done) == 40
    assert not any((tmp_path / f"call-{number}").exists() for number in cancelled)


def test_callbacks(manager: px.Manager, held: Held, unknown: Callable[[int], int], eventually: Eventually) -> None:
    called: list[tuple[str, Any]] = []
    late = manager.submit(tasks.double, 21)
    late.add_done_callback(lambda future: called.append(("late", future.result())))
    late.add_done_callback(lambda future: called.append(("second", future.done())))
    failing = manager.submit(tasks.inverse, 0)
    failing.add_done_callback(lambda future: called.append(("failing", type(future.exception()))))
    queued = [manager.submit(unknown, 1) for _ in range(20)]
    queued[-1].add_done_callback(lambda future: called.append(("cancelled", future.cancelled())))
    assert queued[-1].cancel()
    assert called == [("cancelled", True)]
    held.release()
    eventually(lambda: len(called) == 4)
    assert called.index(("late", 42)) < called.index(("second", True))
    assert ("failing", ZeroDivisionError) in called
    late.add_done_callback(lambda future: called.append(("at once", future.result())))
    assert called[-1] == ("at once", 42)


def test_a_callback_that_raises_harms_nobody(
    manager: px.Manager, held: Held, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    called: list[int] = []
    future = manager.submit(tasks.double, 4)
    future.add_done_callback(lambda _: tasks.inverse(0))
    future.add_done_callback(lambda done: called.append(done.result()))
    held.release()
    eventually(lambda: called == [8])
    assert "ZeroDivisionError" in caplog.text
    assert manager.submit(tasks.double, 5).result(timeout=30) == 10


def test_a_callback_that_exits_harms_no_other_call(manager: px.Manager, held: Held) -> None:
    future = manager.submit(tasks.double, 4)
    future.add_done_callback(lambda _: sys.exit(1))
    held.release()
    assert not concurrent.futures.wait([future], timeout=30).not_done
    following = [manager.submit(tasks.double, number) for number in range(10)]
    assert not concurrent.futures.wait(following, timeout=30).not_done


class NoException(Exception):
    """Unpickled, it is a text."""

    def __reduce__(self) -> Any:
        return str, ("a text",)


def raise_no_exception(_: int) -> None:
    raise NoException("odd")


def test_an_exception_that_becomes_something_else_harms_no_other_call(manager: px.Manager) -> None:
    odd = manager.submit(raise_no_exception, 1)
    assert not concurrent.futures.wait([odd], timeout=30).not_done
    assert "odd" in str(odd.exception())
    assert not concurrent.futures.wait([manager.submit(tasks.double, 1)], timeout=30).not_done


class Calling:
    """Makes a call of its own while it is pickled."""

    manager: px.Manager
    made: list[Future[int]]

    def __reduce__(self) -> Any:
        Calling.made.append(Calling.manager.submit(tasks.double, 21))
        Calling.made.append(Calling.manager.submit(partial(tasks.double), 22))
        return int, (1,)


def test_pickling_an_argument_may_make_calls(manager: px.Manager) -> None:
    Calling.manager, Calling.made = manager, []
    assert manager.submit(tasks.double, Calling()).result(timeout=30) == 2  # type: ignore[arg-type]
    assert [made.result(timeout=30) for made in Calling.made] == [42, 44]


def test_large_functions_do_not_pile_up(manager: px.Manager) -> None:
    for number in range(12):
        large = partial(second, os.urandom(10 << 20))
        assert manager.submit(large, number).result(timeout=60) == number
    staged = manager._submissions._staged.values()
    assert sum(calls.program.size for calls in staged) <= 64 << 20


def second(_: bytes, number: int) -> int:
    return number


def test_a_callback_may_make_the_next_call_and_wait_for_it(manager: px.Manager, eventually: Eventually) -> None:
    reached: list[int] = []

    def follow(future: Future[int]) -> None:
        reached.append(future.result())
        if len(reached) < 20:
            following = manager.submit(tasks.increment, future.result())
            assert following.result(timeout=30) == future.result() + 1
            following.add_done_callback(follow)

    manager.submit(tasks.increment, 0).add_done_callback(follow)
    eventually(lambda: len(reached) == 20, timeout=30)
    assert reached == list(range(1, 21))


def test_calls_from_many_threads(manager: px.Manager) -> None:
    def call(offset: int) -> list[int]:
        futures = [manager.submit(tasks.double, number + offset) for number in range(50)]
        return [future.result(timeout=60) for future in reversed(futures)]

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        for offset, results in enumerate(threads.map(call, range(16))):
            assert results == [2 * (number + offset) for number in reversed(range(50))]


def test_many_threads_wait_for_one_result(manager: px.Manager, held: Held) -> None:
    future = manager.submit(tasks.double, 3)
    with concurrent.futures.ThreadPoolExecutor(6) as threads:
        asked = [threads.submit(future.result, 30) for _ in range(6)]
        held.release()
        assert [one.result() for one in asked] == [6] * 6


def test_more_functions_than_are_kept_staged(manager: px.Manager, held: Held) -> None:
    adders: list[Callable[[int], int]] = [partial(int.__add__, number) for number in range(150)]
    futures = [manager.submit(adder, 1000) for adder in adders]
    held.release()
    assert [future.result(timeout=60) for future in futures] == [number + 1000 for number in range(150)]
    assert manager.submit(adders[0], 5).result(timeout=30) == 5


def test_a_function_with_state_is_staged_as_it_is_now(manager: px.Manager) -> None:
    state = {"factor": 1}

    def scale(number: int) -> int:
        return state["factor"] * number

    results = []
    for factor in range(5):
        state["factor"] = factor
        results.append(manager.submit(scale, 10).result(timeout=30))
    assert results == [0, 10, 20, 30, 40]


def test_compute_and_submit_side_by_side(manager: px.Manager) -> None:
    results = manager.compute(tasks.slowly, range(300))
    futures = [manager.submit(tasks.double, number) for number in range(300)]
    for number, (result, future) in enumerate(zip(results, futures, strict=True)):
        assert (result, future.result(timeout=30)) == (number, 2 * number)


def test_nothing_is_kept_of_a_call_that_is_done(manager: px.Manager, eventually: Eventually) -> None:
    """After CPython's test_no_stale_references and test_free_reference."""

    class Thing:
        def method(self) -> int:
            return 5

    thing = Thing()
    future = manager.submit(tasks.identity, thing)
    results = manager.map(tasks.identity, [Thing(), Thing()])
    given = [weakref.ref(thing), weakref.ref(future.result(timeout=30))]

    def freed() -> bool:
        gc.collect()
        return not any(reference() for reference in given)

    del thing, future
    eventually(freed)
    for result in results:
        given.append(weakref.ref(result))
        del result
        eventually(freed)


def test_functions_with_plain_state_are_staged_once_and_told_apart(manager: px.Manager) -> None:
    """Nothing travels for the same one again, and equal numbers of different types are different state."""
    number = 0

    def counted(_: object) -> int:
        return number

    assert manager.submit(counted, None).result(timeout=30) == 0
    number = 7
    assert manager.submit(counted, None).result(timeout=30) == 7
    for value in (0.0, -0.0, 0, False, 1, 1.0, True, "1"):
        for _ in range(2):
            assert repr(manager.submit(partial(first, value), 2).result(timeout=30)) == repr(value)
            assert repr(manager.submit(partial(first, other=2, one=value)).result(timeout=30)) == repr(value)
    staged = len(manager._submissions._staged)
    for _ in range(20):
        assert manager.submit(partial(first, "1"), 2).result(timeout=30) == "1"
        assert manager.submit(counted, None).result(timeout=30) == 7
        assert manager.submit(pow, 2, 3).result(timeout=30) == 8
    assert len(manager._submissions._staged) <= staged + 1


def first(one: Any, other: Any) -> Any:
    return one


def test_a_method_goes_with_its_object_as_it_is_now(manager: px.Manager) -> None:
    numbers = tasks.Numbers([1, 2])
    assert manager.submit(numbers.total, 1).result(timeout=30) == 4
    staged = len(manager._submissions._staged)
    assert [manager.submit(numbers.total, n).result(timeout=30) for n in range(3)] == [3, 4, 5]
    assert len(manager._submissions._staged) == staged
    numbers.numbers.append(10)
    assert manager.submit(numbers.total, 1).result(timeout=30) == 14
    numbers.total = tasks.double  # type: ignore[method-assign,assignment]
    assert manager.submit(tasks.Numbers.total, numbers, 1).result(timeout=30) == 14
    assert manager.submit(numbers.total, 1).result(timeout=30) == 2


def test_a_function_that_names_what_cannot_be_pickled(manager: px.Manager) -> None:
    names = {"__name__": "__main__", "lock": threading.Lock()}
    exec("def locked(number):\n    return lock", names)
    for _ in range(2):
        assert isinstance(manager.submit(names["locked"], 1).exception(), px.StagingError)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [1, 3, 40, 3000])
def test_futures_are_the_standard_librarys_in_every_way(manager: px.Manager, count: int) -> None:
    async def gather() -> list[int]:
        loop = asyncio.get_running_loop()
        wrapped = [asyncio.wrap_future(manager.submit(tasks.double, number)) for number in range(count)]
        return await asyncio.gather(*wrapped, loop.run_in_executor(manager, tasks.double, 50))

    assert asyncio.run(gather()) == [*range(0, 2 * count, 2), 100]
    futures: list[concurrent.futures.Future[int]] = [manager.submit(tasks.double, number) for number in range(count)]
    called: list[int] = []
    for future in futures:
        future.add_done_callback(lambda done: called.append(done.result()))
    for future in concurrent.futures.as_completed(futures, timeout=30):
        assert future.done()
        assert not future.cancel()
        assert "finished" in repr(future)
        with pytest.raises(concurrent.futures.InvalidStateError):
            future.set_result(0)
    manager.submit(tasks.double, 0).result(timeout=30)
    concurrent.futures.wait([manager.submit(tasks.double, 0)], timeout=30)
    assert sorted(called) == list(range(0, 2 * count, 2))


def test_a_few_calls_of_a_burst_are_not_held_up_by_long_ones(manager: px.Manager, held: Held) -> None:
    others = [manager.submit(tasks.double, number) for number in range(30)]
    held.release()
    assert not concurrent.futures.wait(others, timeout=30).not_done


def test_calls_that_wait_for_others_to_travel_with_go_when_no_more_come(manager: px.Manager, tmp_path: Path) -> None:
    """One interpreter is busy with a call of a burst that ends when the burst's last one was made, at the other."""
    end = str(tmp_path / "end")
    first = manager.submit(once_or_touch, end, False)
    others = [manager.submit(once_or_touch, end, None) for _ in range(50)]
    last = manager.submit(once_or_touch, end, True)
    assert not concurrent.futures.wait([first, *others, last], timeout=50).not_done
    assert first.exception() is None


def once_or_touch(path: str, last: bool | None) -> None:
    if last:
        Path(path).touch()
    elif last is False:
        tasks.once_it_exists(path)
