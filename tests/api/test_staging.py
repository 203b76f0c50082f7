"""What cannot travel (programs, tasks, results) is an error that says so, and harms nothing else."""

from __future__ import annotations

import functools
import importlib
import multiprocessing
import sys
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import cloudpickle
import phalanx as px
import pytest
from api import tasks
from phalanx import security
from phalanx._tokens import Token, dumps_code


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
    name = r"the program .*\.<locals>\.locked cannot be pickled"
    with pytest.raises(px.StagingError, match=name):
        manager.submit(locked, 1).result()
    with pytest.raises(px.StagingError, match=name):
        list(manager.map(locked, [1]))


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


@pytest.fixture
def only_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module that interpreters cannot import, registered to be pickled by value."""
    (tmp_path / "only_here.py").write_text(
        "class Point:\n"
        "    def __init__(self, x):\n        self.x = x\n\n"
        "    def moved(self):\n        return Point(self.x + 1)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("only_here")
    cloudpickle.register_pickle_by_value(module)
    yield module
    cloudpickle.unregister_pickle_by_value(module)
    del sys.modules["only_here"]


def test_the_class_of_a_task_travels_by_value_where_its_module_is_registered(
    manager: px.Manager, only_here: Any
) -> None:
    points = [only_here.Point(number) for number in range(3)]
    assert [point.x for point in manager.compute(lambda point: point.moved(), points)] == [1, 2, 3]
    assert isinstance(manager.submit(tasks.identity, points[1]).result(), only_here.Point)
    assert [point.x for point in manager.map(tasks.identity, points)] == [0, 1, 2]


@functools.lru_cache(maxsize=7, typed=True)
def importable(number: int) -> int:
    return number


def test_functions_with_a_cache(manager: px.Manager) -> None:
    @functools.lru_cache(maxsize=7, typed=True)
    def fibonacci(number: int) -> int:
        """Calls itself."""
        return number if number < 2 else fibonacci(number - 1) + fibonacci(number - 2)

    fibonacci.mark = "kept"  # type: ignore[attr-defined]
    assert list(manager.compute(fibonacci, [1, 50])) == [1, 12586269025]
    assert list(manager.compute(lambda number: fibonacci(number), [50])) == [12586269025]
    assert manager.submit(lambda function, number: function(number), fibonacci, 50).result() == 12586269025
    assert list(manager.compute(importable, [3])) == [3]

    def tell(function: Any) -> tuple[Any, ...]:
        return function.cache_parameters(), function.__doc__, function.mark, function.cache_info().currsize

    fibonacci(10)
    expected = {"maxsize": 7, "typed": True}, "Calls itself.", "kept", 0  # what is cached does not travel
    assert manager.submit(tell, fibonacci).result() == expected
    assert manager.submit(functools.cache(functools.partial(pow, 2)), 5).result() == 32


def test_functions_that_choose_by_a_type(manager: px.Manager) -> None:
    @functools.singledispatch
    def depth(item: object) -> int:
        """Of lists in lists."""
        return 0

    class Depth:
        @functools.singledispatchmethod
        def of(self, item: object) -> int:
            return depth(item)

        @of.register
        def _(self, item: str) -> int:
            return -1

    @depth.register
    def _(item: list) -> int:  # type: ignore[type-arg]
        return 1 + max(map(depth, item), default=0)

    depth.mark = "kept"  # type: ignore[attr-defined]
    assert list(manager.map(depth, [1, [], [[2]]])) == [0, 1, 2]
    # An implementation that is registered later is known to the next call.
    depth.register(tuple, lambda item: len(item))
    told = manager.submit(lambda: (depth((1, 2)), Depth().of("x"), Depth().of([]), depth.__doc__, depth.mark)).result()  # type: ignore[attr-defined]
    assert told == (2, -1, 1, "Of lists in lists.", "kept")


def test_a_mark_inside_of_a_cache_is_seen(manager: px.Manager) -> None:
    @functools.cache
    @px.secure_code
    def marked(number: int) -> int:
        return number

    assert dumps_code((marked,)).marked_code
    assert not dumps_code((tasks.double,)).marked_code


def appended(shared: Any, item: Any) -> int:
    shared.append(item)
    return len(shared[0])  # a proxy itself


def test_proxies_of_a_manager_of_multiprocessing(manager: px.Manager) -> None:
    with multiprocessing.Manager() as server:
        outer, inner = server.list(), server.list([1, 2])
        outer.append(inner)
        assert manager.submit(appended, outer, "a").result() == 2
        assert list(manager.compute(functools.partial(appended, outer), ["b"])) == [2]
        assert list(manager.compute(lambda item: appended(outer, item), ["c"])) == [2]
        assert outer[1:] == ["a", "b", "c"]
        assert list(manager.submit(tasks.identity, inner).result()) == [1, 2]


def test_the_key_of_a_manager_of_multiprocessing_stays_on_this_machine() -> None:
    def leads() -> Any:
        return None

    with multiprocessing.Manager() as server, px.Manager(contract=px.ParDegree(1)) as manager:
        shared = server.list()
        key = bytes(multiprocessing.current_process().authkey)
        assert key in Token((shared,)).pickled
        security.leads_elsewhere(leads)  # as a manager with executors does
        assert key not in Token((shared,)).pickled
        with pytest.raises(px.StagingError, match="does not travel from a program that has interpreters on other"):
            manager.submit(len, shared).result()
        del leads
        assert manager.submit(len, shared).result() == 0
