"""Tasks whose unpickling ends the process: interpreters are lost, the user's program never is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import dask
import joblib
import phalanx as px
import phalanx.adapters.joblib
import pytest
from api import tasks
from phalanx.adapters.dask import get


@pytest.fixture
def own_manager() -> Iterator[px.Manager]:
    with px.Manager(contract=px.ParDegree(2)) as manager:
        yield manager


FATAL = [tasks.FatalState, tasks.FatalReduce]


def check(error: BaseException | None, task: str) -> None:
    assert isinstance(error, px.CulpritError), repr(error)
    assert task in str(error)
    assert len(error.losses) == 3
    assert all("SIGSEGV" in loss for loss in error.losses), error.losses
    assert error.size > 0


@pytest.mark.parametrize("fatal", FATAL)
@pytest.mark.parametrize("collection", [list, tuple, iter])
def test_a_task_of_a_computation(
    own_manager: px.Manager, fatal: type[tasks.FatalState], collection: Callable[[Iterable[Any]], Iterable[Any]]
) -> None:
    stream = [1, 2, fatal(), 4]
    results = own_manager.compute(tasks.identity, collection(stream))
    assert [next(results), next(results)] == [1, 2]
    with pytest.raises(px.CulpritError) as raised:
        next(results)
    known = collection is not iter
    check(raised.value, "Fatal(5)" if known else "a token of about")
    assert raised.value.index == 2
    assert raised.value.task is (stream[2] if known else None)


@pytest.mark.parametrize("fatal", FATAL)
def test_a_call(own_manager: px.Manager, fatal: type[tasks.FatalState]) -> None:
    task = fatal()
    future = own_manager.submit(tasks.identity, task)
    error = future.exception(timeout=60)
    check(error, "task 0, a call of identity, ended every interpreter that fired it: ((Fatal(5),), {}) (")
    assert isinstance(error, px.CulpritError)
    assert error.task == ((task,), {})
    assert own_manager.submit(tasks.double, 4).result(timeout=60) == 8


def test_a_call_of_map(own_manager: px.Manager) -> None:
    results = own_manager.map(tasks.identity, [1, tasks.FatalState()])
    assert next(results) == 1
    with pytest.raises(px.CulpritError, match=r"task 1, a call of identity, .*: a token of about"):
        next(results)


def test_a_token_between_two_stages(own_manager: px.Manager) -> None:
    """What the first stage gives ends the interpreters that fire the second; the task itself does no harm."""
    program = px.Pipeline(tasks.fatal, tasks.identity, fuse=False)
    with pytest.raises(px.CulpritError) as raised:
        list(own_manager.compute(program, [3]))
    check(raised.value, ": 3 (")
    assert raised.value.task == 3


def test_a_batch_of_joblib(own_manager: px.Manager) -> None:
    with joblib.parallel_config("phalanx", manager=own_manager), pytest.raises(px.CulpritError, match="identity"):
        joblib.Parallel()(joblib.delayed(tasks.identity)(tasks.FatalState()) for _ in range(2))


def test_a_task_of_dask(own_manager: px.Manager) -> None:
    with pytest.raises(px.CulpritError):
        dask.delayed(tasks.identity)(tasks.FatalState()).compute(scheduler=get(own_manager))
