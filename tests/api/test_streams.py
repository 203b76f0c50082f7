"""Streams of tasks: of any kind, endless ones too, and only as far ahead as results are read."""

from __future__ import annotations

import itertools
import operator
import queue
import resource
import threading
from array import array
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import phalanx as px
import pytest
from api import tasks
from conftest import Eventually


class Counted:
    """An endless stream that counts what is taken from it."""

    def __init__(self, task: Any = None) -> None:
        self.taken = 0
        self._task = task

    def __iter__(self) -> Counted:
        return self

    def __next__(self) -> Any:
        self.taken += 1
        return self.taken if self._task is None else self._task


def generated(count: int) -> Iterator[int]:
    yield from range(count)


@pytest.mark.parametrize("ordered", [True, False])
def test_any_iterable_is_a_stream(manager: px.Manager, ordered: bool, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("one\ntwo\n")

    def computed(stream: Iterable[Any]) -> list[Any]:
        results = list(manager.compute(tasks.identity, stream, ordered=ordered))
        return results if ordered else sorted(results)

    for stream in ([3, 1, 2], (3, 1, 2), {1, 2, 3}, {1: "a", 2: "b"}, "text", b"bytes", range(9), [], ()):
        assert computed(stream) == (list(stream) if ordered else sorted(stream))
    for count in (0, 1, 2, 1000):
        assert computed(generated(count)) == list(range(count))
    assert computed(iter([])) == []
    assert computed(map(abs, [-1, -2])) == [1, 2]
    with (tmp_path / "lines").open() as lines:
        assert computed(lines) == ["one\n", "two\n"]


def test_results_come_in_the_order_of_a_long_stream(manager: px.Manager) -> None:
    expected = 0
    for result in manager.compute(tasks.double, range(60_000)):
        assert result == 2 * expected
        expected += 1
    assert expected == 60_000


def test_results_come_in_order_whatever_the_tasks_take(manager: px.Manager) -> None:
    naps = [0.03, 0.0, 0.001, 0.02, 0.0, 0.0, 0.01] * 6
    assert list(manager.compute(tasks.nap, iter(naps))) == naps


def test_unordered_results_come_as_they_are_there(manager: px.Manager, tmp_path: Path) -> None:
    first, others = str(tmp_path / "first"), [str(tmp_path / f"other-{n}") for n in range(20)]
    for path in others:
        Path(path).touch()
    results = manager.compute(tasks.once_it_exists, [first, *others], ordered=False)
    assert sorted(islice(results, 20)) == sorted(others)
    Path(first).touch()
    assert list(results) == [first]


@pytest.mark.parametrize("ordered", [True, False])
def test_an_endless_stream(manager: px.Manager, ordered: bool) -> None:
    results = manager.compute(tasks.double, itertools.count(), ordered=ordered)
    some = list(islice(results, 3000))
    assert len(set(some)) == 3000
    assert some == list(range(0, 6000, 2)) or not ordered


def test_tasks_are_not_taken_far_ahead_of_a_reader_that_stops(manager: px.Manager) -> None:
    stream = Counted()
    results = manager.compute(tasks.identity, stream)
    assert next(results) == 1
    # Time for the stream to be taken as far as it ever is, and a bit of work to see that nothing is blocked.
    for _ in range(3):
        assert len(list(manager.compute(tasks.slowly, range(100)))) == 100
        assert stream.taken < 160_000
    assert list(islice(results, 100)) == list(range(2, 102))


def test_tasks_are_taken_a_fraction_of_a_second_ahead_of_a_slow_reader(manager: px.Manager) -> None:
    stream = Counted(0.005)
    for read, _ in enumerate(islice(manager.compute(tasks.nap, stream), 200), 1):
        assert stream.taken - read < 300


def test_few_large_tasks_are_taken_ahead(manager: px.Manager) -> None:
    stream = Counted(bytes(1 << 20))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for read, result in enumerate(islice(manager.compute(tasks.identity, stream), 300), 1):
        assert len(result) == 1 << 20
        assert stream.taken - read < 150
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10  # kilobytes


@pytest.mark.parametrize("length", [1, 100_000])
def test_a_stream_may_use_its_task_again_for_the_next_one(manager: px.Manager, length: int) -> None:
    def reusing() -> Iterator[Any]:
        row, line = array("q", [0] * length), [0]
        for number in range(200):
            row[0] = line[0] = number
            yield row if number % 2 else line

    assert list(manager.compute(operator.itemgetter(0), reusing())) == list(range(200))


@pytest.mark.parametrize("ordered", [True, False])
def test_a_task_may_depend_on_the_result_of_the_last_one(manager: px.Manager, ordered: bool) -> None:
    read: queue.Queue[int] = queue.Queue()

    def feedback() -> Iterator[int]:
        yield 0
        for _ in range(30):
            yield read.get(timeout=30)

    results = []
    for result in manager.compute(tasks.increment, feedback(), ordered=ordered):
        results.append(result)
        read.put(result)
    assert results == list(range(1, 32))


def test_the_results_of_one_compute_are_the_tasks_of_another(manager: px.Manager) -> None:
    inner = manager.compute(tasks.double, range(2000))
    assert list(manager.compute(tasks.increment, inner)) == [2 * number + 1 for number in range(2000)]


def test_computes_in_many_threads(manager: px.Manager) -> None:
    def work(offset: int) -> bool:
        program = px.Pipeline(tasks.double, lambda number: number + offset)
        return list(manager.compute(program, generated(500))) == [2 * number + offset for number in range(500)]

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(work, range(16)))


def test_interleaved_computes(manager: px.Manager) -> None:
    doubles = manager.compute(tasks.double, itertools.count())
    squares = manager.compute(tasks.square, range(300))
    negatives = manager.compute(tasks.negate, generated(300), ordered=False)
    together = list(zip(squares, doubles, negatives, strict=False))
    assert [square for square, _, _ in together] == [number * number for number in range(300)]
    assert [double for _, double, _ in together] == [2 * number for number in range(300)]
    assert sorted(-negative for _, _, negative in together) == list(range(300))


def test_a_compute_can_be_given_up_at_any_time(manager: px.Manager) -> None:
    for read in (0, 1, 10, 1000):
        results = manager.compute(tasks.double, itertools.count())
        assert list(islice(results, read)) == list(range(0, 2 * read, 2))
        results.close()
        assert list(results) == []
    for _ in manager.compute(tasks.double, range(10_000)):
        break
    assert list(manager.compute(tasks.double, range(3))) == [0, 2, 4]


def test_what_was_given_up_is_not_fired(manager: px.Manager, tmp_path: Path) -> None:
    def fire(number: int) -> int:
        (tmp_path / str(number)).touch()
        return tasks.slowly(number)

    results = manager.compute(fire, itertools.count())
    next(results)
    results.close()
    fired = len(list(tmp_path.iterdir()))
    list(manager.compute(tasks.slowly, range(50)))
    assert len(list(tmp_path.iterdir())) < fired + 300


def test_giving_up_does_not_wait_for_the_stream(manager: px.Manager, eventually: Eventually) -> None:
    waiting, go_on = threading.Event(), threading.Event()
    taken = []

    def stuck() -> Iterator[int]:
        yield 1
        waiting.set()
        go_on.wait(30)
        for number in range(10):
            taken.append(number)
            yield number

    results = manager.compute(tasks.identity, stuck())
    assert next(results) == 1
    assert waiting.wait(10)
    results.close()  # comes back although the stream does not
    go_on.set()
    eventually(lambda: not any(thread.name == "phalanx-tasks" for thread in threading.enumerate()))
    assert len(taken) <= 1


def test_an_exception_of_the_stream_comes_after_the_results_before_it(manager: px.Manager) -> None:
    def broken() -> Iterator[int]:
        yield from range(100)
        raise KeyError("no more frames")

    results: list[int] = []
    with pytest.raises(KeyError, match="no more frames") as raised:
        results.extend(manager.compute(tasks.double, broken()))
    assert results == [] or results == list(range(0, 200, 2))
    assert any(frame.name == "broken" for frame in raised.traceback)
    assert list(manager.compute(tasks.double, range(3))) == [0, 2, 4]


def test_every_result_before_an_exception_of_the_stream_can_be_read(manager: px.Manager) -> None:
    def broken() -> Iterator[int]:
        yield from range(100)
        raise KeyError("no more frames")

    for ordered in (True, False):
        stream = manager.compute(tasks.slowly, broken(), ordered=ordered)
        assert sorted(islice(stream, 100)) == list(range(100))
        with pytest.raises(KeyError, match="no more frames"):
            next(stream)


def test_what_cannot_be_iterated_is_a_type_error(manager: px.Manager) -> None:
    with pytest.raises(TypeError, match="not iterable"):
        list(manager.compute(tasks.double, 5))  # type: ignore[call-overload]


def test_nothing_is_taken_before_the_first_result_is_asked_for(manager: px.Manager) -> None:
    stream = Counted()
    results = manager.compute(tasks.identity, stream)
    assert stream.taken == 0
    assert next(results) == 1
    results.close()
