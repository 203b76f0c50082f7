"""Every link private: the same programs give the same results, and the summary says what protection cost."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from itertools import count, islice

import numpy as np
import phalanx as px
import pytest
from api import tasks


@pytest.fixture(scope="module")
def private(manager: px.Manager) -> Iterator[px.Manager]:
    with px.Manager(contract=px.ParDegree(2), policy="all") as opened:
        list(opened.compute(tasks.nap, [0.01] * 50))
        yield opened


def test_every_link_is_private(private: px.Manager) -> None:
    assert {it.level for it in private.summary().interpreters} == {"private"}


def test_links_on_one_machine_are_clear_by_default(manager: px.Manager) -> None:
    list(manager.compute(tasks.double, range(100)))
    assert {it.level for it in manager.summary().interpreters} == {"clear"}
    assert {it.protection for it in manager.summary().interpreters} == {0}


def test_the_same_results(private: px.Manager) -> None:
    program = px.Pipeline(tasks.double, px.Farm(tasks.increment), fuse=False)
    expected = [2 * number + 1 for number in range(3000)]
    assert list(private.compute(program, range(3000))) == expected
    assert list(islice(private.compute(program, count()), 3000)) == expected
    assert sorted(private.compute(program, iter(range(3000)), ordered=False)) == expected
    assert list(private.map(tasks.double, range(50))) == list(range(0, 100, 2))
    with pytest.raises(ZeroDivisionError):
        list(private.compute(tasks.inverse, [0]))


def test_arrays_of_all_sizes(private: px.Manager) -> None:
    sizes = [0, 1, 1000, 8191, 8192, 8193, 100_000, 3_000_001]
    stream = [np.arange(size) % 251 for size in sizes]
    for array, result in zip(stream, private.compute(lambda array: array + 1, stream), strict=True):
        assert result.flags.writeable
        np.testing.assert_array_equal(result, array + 1)


def test_texts_around_the_size_of_a_record(private: px.Manager) -> None:
    stream = [b"x" * size for size in range(16_000, 16_800, 7)] + [b"y" * (1 << 22)]
    assert list(private.compute(tasks.identity, stream)) == stream


def test_what_protection_cost_is_in_the_summary(private: px.Manager) -> None:
    before = sum(it.protection for it in private.summary().interpreters)
    assert all(len(data) == 1 << 20 for data in private.compute(tasks.identity, [bytes(1 << 20)] * 20))
    assert sum(it.protection for it in private.summary().interpreters) > before > 0


def test_killed_interpreters_cost_no_result() -> None:
    with px.Manager(contract=px.ParDegree(2), policy="all") as manager:
        results = manager.compute(tasks.slowly, range(300))
        seen = list(islice(results, 100))
        os.kill(manager.summary().interpreters[0].pid, signal.SIGKILL)
        assert [*seen, *results] == list(range(300))
        assert {it.level for it in manager.summary().interpreters} == {"private"}
        assert manager.summary().lost == 1


def test_a_task_that_forks_does_not_answer_twice(private: px.Manager) -> None:
    """A second answer would be sealed with the nonce of the first."""

    def fork(task: int) -> int:
        pid = os.fork()
        if pid == 0:
            sys.exit(0)
        os.waitpid(pid, 0)
        return task

    lost = private.summary().lost
    assert list(private.compute(fork, range(20))) == list(range(20))
    assert private.summary().lost == lost
