"""Dask's collections on interpreters: the same results as without, in the same little memory."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from itertools import count
from operator import add, neg
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakSet

import dask
import dask.array
import dask.bag
import numpy as np
import phalanx as px
import pytest
from api import tasks
from dask import delayed
from dask._task_spec import Alias, Task, TaskRef
from dask.callbacks import Callback
from phalanx.adapters.dask import fused, get

Get = Callable[..., Any]


@pytest.fixture
def grid(manager: px.Manager) -> Iterator[px.Manager]:
    """Two interpreters that compute every collection of the test."""
    with dask.config.set(scheduler=get(manager)):
        yield manager


def test_an_array(grid: px.Manager) -> None:
    before = grid.summary().tasks
    numbers = dask.array.arange(10_000, chunks=1000).reshape(100, 100).rechunk(50)
    product, mean = dask.compute(numbers @ numbers.T, numbers.mean())
    expected = np.arange(10_000).reshape(100, 100)
    np.testing.assert_array_equal(product, expected @ expected.T)
    assert mean == expected.mean()
    assert grid.summary().tasks > before


def test_an_array_of_this_program(grid: px.Manager) -> None:
    array = np.random.default_rng(0).random((1000, 300))
    pieces = dask.array.from_array(array, chunks=250)
    np.testing.assert_array_equal((pieces + 1).compute(), array + 1)
    kept = (pieces + 1).persist()
    np.testing.assert_allclose(kept.sum(axis=0).compute(), (array + 1).sum(axis=0))


def test_a_bag(grid: px.Manager) -> None:
    words = dask.bag.from_sequence(["the", "idle", "desktops", "of", "the", "lab"], npartitions=3)
    assert words.map(str.upper).filter(lambda word: len(word) > 3).compute() == ["IDLE", "DESKTOPS"]
    assert dict(words.frequencies().compute())["the"] == 2


def test_functions_that_are_delayed(grid: px.Manager) -> None:
    pids = dask.compute(*(delayed(tasks.my_pid)(number) for number in range(10)))
    assert set(pids) <= {it.pid for it in grid.summary().interpreters}
    total = delayed(sum)([delayed(lambda n: n * n)(number) for number in range(50)])
    assert total.compute() == sum(n * n for n in range(50))


def test_a_graph_of_tuples(grid: px.Manager) -> None:
    graph = {"one": 1, "two": (add, "one", "one"), "three": (add, "two", (neg, -1)), "all": ["two", "same"]}
    graph["same"] = "three"
    found = get(grid)(graph, ["three", ["all", "one"], "same"])
    assert found == (3, ([2, 3], 1), 3)
    assert get(grid)(graph, "two") == 2


def test_a_chain_is_one_call(grid: px.Manager) -> None:
    before = grid.summary().tasks
    number = delayed(1)
    for _ in range(20):
        number = delayed(tasks.increment)(number)
    assert number.compute() == 21
    assert grid.summary().tasks == before + 1


def test_what_is_asked_for_is_not_lost_in_a_chain() -> None:
    graph = {"a": 1, "b": (neg, "a"), "c": (neg, "b"), "d": (neg, "c"), "nobody's": (neg, "d")}
    found = fused(graph, ["b", ["d"]])
    assert {"b", "d"} <= found.keys()
    assert "nobody's" not in found


def test_aliases_that_are_named_after_what_they_stand_for(grid: px.Manager) -> None:
    # As in the graphs of dask.dataframe.from_delayed.
    graph = {"a": Alias("b"), "b": Alias("c"), "c": Task("c", tasks.increment, 1), "d": Task("d", neg, TaskRef("a"))}
    assert get(grid)(graph, ["a", "d"]) == (2, -2)
    assert get(grid)(graph, ["d"]) == (-2,)
    assert get(grid)(graph, ["a"]) == (2,)


def test_tasks_are_computed_side_by_side(grid: px.Manager, tmp_path: Path) -> None:
    def meet(mine: Path, other: Path) -> str:
        mine.touch()
        return tasks.once_it_exists(str(other))

    left, right = tmp_path / "left", tmp_path / "right"
    assert dask.compute(delayed(meet)(left, right), delayed(meet)(right, left)) == (str(right), str(left))


class Tracked:
    """Tells how many of its kind are alive in this process."""

    alive: ClassVar[WeakSet[Tracked]] = WeakSet()

    def __init__(self, number: int) -> None:
        self.number = number

    def __setstate__(self, state: dict[str, int]) -> None:
        self.__dict__.update(state)
        self.alive.add(self)

    def plus(self, number: int) -> int:
        return self.number + number


def test_results_that_nobody_needs_any_more_are_released(grid: px.Manager) -> None:
    alive = []
    made = [delayed(Tracked)(number) for number in range(60)]
    # Each is used twice, so that it cannot become one task with its use.
    total = delayed(sum)([delayed(Tracked.plus)(each, more) for each in made for more in (0, 1)])
    with Callback(posttask=lambda *_: alive.append(len(Tracked.alive))):
        assert total.compute() == 2 * sum(range(60)) + 60
    assert 0 < max(alive) < 20
    assert not Tracked.alive


@pytest.mark.parametrize("wrong", ["a", "b"])
def test_an_exception_has_the_remote_traceback(grid: px.Manager, wrong: str) -> None:
    graph = {"a": (tasks.inverse, 0 if wrong == "a" else 1), "b": (tasks.divide, "a", 0)}
    with pytest.raises(ZeroDivisionError) as caught:
        get(grid)(graph, "b")
    remote = caught.value.__cause__
    assert isinstance(remote, px.RemoteTraceback)
    assert f"in {'inverse' if wrong == 'a' else 'divide'}" in remote.traceback


def test_an_error_ends_the_computation_and_what_was_not_begun_is_not(grid: px.Manager, tmp_path: Path) -> None:
    def work(number: int) -> None:
        (tmp_path / str(number)).touch()
        if number == 1:
            raise RuntimeError("one of them")
        time.sleep(0.05)  # all together take far longer than a busy machine needs to hear of the error

    with pytest.raises(RuntimeError, match="one of them"):
        dask.compute(*(delayed(work)(number) for number in range(300)))
    assert dask.compute(*(delayed(tasks.double)(number) for number in range(4))) == (0, 2, 4, 6)
    assert not all((tmp_path / str(number)).exists() for number in range(300))


def test_a_task_may_be_computed_again_here_to_find_its_error(grid: px.Manager) -> None:
    def where_am_i() -> None:
        raise RuntimeError(str(os.getpid()))

    with pytest.raises(RuntimeError, match=str(os.getpid())):
        delayed(where_am_i)().compute(rerun_exceptions_locally=True)


def test_what_cannot_be_pickled(grid: px.Manager) -> None:
    import threading

    with pytest.raises(px.StagingError, match="lock"):
        delayed(tasks.identity)(threading.Lock()).compute()


def test_what_dask_is_configured_for_otherwise(grid: px.Manager) -> None:
    with dask.config.set(chunksize=5, num_workers=3):
        assert dask.compute(*(delayed(neg)(number) for number in range(40))) == tuple(range(0, -40, -1))


def test_a_collection_without_tasks(grid: px.Manager) -> None:
    assert get(grid)({"a": 1}, ["a"]) == (1,)
    assert get(grid)({"a": 1}, []) == ()


def test_interpreters_that_are_killed_change_nothing() -> None:
    array = dask.array.arange(40_000, chunks=500)

    def slowed(block: Any) -> Any:
        time.sleep(0.005)
        return block * 2

    done = count(1)
    with px.Manager(contract=px.ParDegree(2)) as manager:

        def kill(*_: object) -> None:
            if next(done) in (10, 40):
                os.kill(next(it.pid for it in manager.summary().interpreters if it.state == "working"), signal.SIGKILL)

        with Callback(posttask=kill):
            total = array.map_blocks(slowed).sum().compute(scheduler=get(manager))
        assert manager.summary().lost == 2
    assert total == 2 * sum(range(40_000))


def test_a_manager_that_is_closed() -> None:
    with px.Manager(contract=px.ParDegree(1)) as manager:
        pass
    with pytest.raises(RuntimeError, match="after shutdown"):
        delayed(tasks.double)(1).compute(scheduler=get(manager))


def test_a_manager_that_is_closed_in_the_middle() -> None:
    with px.Manager(contract=px.ParDegree(2)) as manager:
        done = count(1)
        with Callback(posttask=lambda *_: manager.close() if next(done) == 10 else None), pytest.raises(RuntimeError):
            dask.compute(*(delayed(tasks.slowly)(number) for number in range(200)), scheduler=get(manager))
