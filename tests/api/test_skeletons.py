"""Map, Reduce, Scan, Loop and Graph, nested in each other, against what programs mean when they are computed here."""

from __future__ import annotations

import functools
import itertools
import operator
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import phalanx as px
import pytest
from api import tasks
from api.meaning import affine, in_order, meaning, mixed, random_program, some
from conftest import Eventually
from phalanx import _folding

from laboratory.processes import until


def outcomes(manager: px.Manager, program: Any, stream: list[Any], **options: Any) -> list[Any]:
    return list(manager.compute(program, stream, **options))


def raised_by(manager: px.Manager, program: Any, task: Any) -> BaseException:
    with pytest.raises(Exception) as raised:  # noqa: PT011
        outcomes(manager, program, [task])
    return raised.value


@pytest.mark.parametrize("seed", range(40))
def test_a_random_program_gives_what_it_means(manager: px.Manager, seed: int) -> None:
    dice = random.Random(seed)
    program = random_program(dice, 1 + seed % 4)
    stream = [dice.randrange(1000) for _ in range(25)]
    expected = [meaning(program, task) for task in stream]
    assert outcomes(manager, program, stream) == expected, program
    assert sorted(outcomes(manager, program, stream, ordered=False)) == sorted(expected), program


def test_a_map_without_split_and_join_is_of_lists(manager: px.Manager) -> None:
    assert outcomes(manager, px.Map(tasks.square), [[1, 2], (3,), range(4)]) == [[1, 4], [9], [0, 1, 4, 9]]
    assert outcomes(manager, px.Map(tasks.square), [[], {}]) == [[], []]
    assert outcomes(manager, px.Map(px.Map(tasks.square)), [[[1], [], [2, 3]]]) == [[[1], [], [4, 9]]]


def test_parts_of_one_task_are_fired_at_all_interpreters(manager: px.Manager) -> None:
    def pid_after_a_nap(_: int) -> int:
        time.sleep(0.05)
        return os.getpid()

    (fired,) = outcomes(manager, px.Map(pid_after_a_nap), [range(8)])
    assert len(set(fired)) == 2


def test_a_map_of_many_small_parts_is_coalesced() -> None:
    with px.Manager(contract=px.ParDegree(2)) as manager:
        (squares,) = manager.compute(px.Map(tasks.square), [range(100_000)])
        assert squares == [number * number for number in range(100_000)]


def test_the_messages_of_many_small_parts(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with px.Manager(contract=px.ParDegree(2), journal=journal) as manager:
        outcomes(manager, px.Map(tasks.square, join=sum), [range(100_000)])
        outcomes(manager, px.Reduce(operator.add), [range(100_000)])
        outcomes(manager, px.Scan(operator.add), [range(100_000)])
    assert journal.read_text().count('"fact":"fired"') < 3000


def test_tens_of_thousands_of_small_maps(manager: px.Manager) -> None:
    stream = [list(range(number % 4)) for number in range(20_000)]
    assert outcomes(manager, px.Map(tasks.square, join=sum), stream) == [sum(n * n for n in task) for task in stream]


def test_a_reduction_keeps_the_order(manager: px.Manager) -> None:
    for length in (1, 2, 3, 10, 1000, 30_000):
        pairs = [(number % 7, number % 1009) for number in range(length)]
        assert outcomes(manager, px.Reduce(affine), [pairs]) == [functools.reduce(affine, pairs)]
        assert outcomes(manager, px.Scan(affine), [pairs]) == [list(itertools.accumulate(pairs, affine))]


def slow_affine(first: tuple[int, int], second: tuple[int, int]) -> tuple[int, int]:
    time.sleep(0.005)
    return affine(first, second)


def test_coarse_functions_are_folded_as_a_tree(manager: px.Manager) -> None:
    pairs = [(number % 7, number) for number in range(40)]
    for _ in range(2):  # when the function was never called, and when its grain is known
        assert outcomes(manager, px.Reduce(slow_affine), [pairs] * 2) == [functools.reduce(affine, pairs)] * 2
        assert outcomes(manager, px.Scan(slow_affine), [pairs] * 2) == [list(itertools.accumulate(pairs, affine))] * 2


def pids(_: Any, __: Any) -> Any:
    time.sleep(0.01)
    return {os.getpid()} | (_ if isinstance(_, set) else set()) | (__ if isinstance(__, set) else set())


def test_a_tree_has_branches_at_several_interpreters(manager: px.Manager) -> None:
    def fired() -> int:
        return len(outcomes(manager, px.Reduce(pids), [range(60)])[0])

    until(lambda: fired() == 2, timeout=60, what="both")  # once, each has to import this module before
    assert fired() == 2


def test_an_empty_reduction_needs_an_initial_value(manager: px.Manager) -> None:
    assert outcomes(manager, px.Reduce(operator.add, initial=5), [[], [1], [1, 2]]) == [5, 6, 8]
    assert outcomes(manager, px.Reduce(operator.or_, initial=None), [[]]) == [None]
    error = raised_by(manager, px.Reduce(operator.add), [])
    assert isinstance(error, TypeError)
    assert "initial" in str(error)
    assert outcomes(manager, px.Scan(operator.add), [[], [4]]) == [[], [4]]


def test_loops(manager: px.Manager) -> None:
    def small(number: int) -> bool:
        return number < 100

    assert outcomes(manager, px.Loop(tasks.double, while_=small), [1, 99, 100, 101]) == [128, 198, 100, 101]
    doubled = px.Map(tasks.double, split=lambda number: [number, number], join=max)
    for body in (doubled, px.Pipeline(doubled, tasks.identity, fuse=False), px.Loop(doubled, while_=small)):
        assert outcomes(manager, px.Loop(body, while_=small), [1, 99, 100, 101]) == [128, 198, 100, 101]


def test_graphs(manager: px.Manager) -> None:
    nodes: dict[str, Any] = {
        "sum": (operator.add, "task", "task"),
        "parts": (px.Map(tasks.square, split=range), "task"),
        "total": (sum, "parts"),
        "all": (lambda *tokens: tokens, "total", "sum", "task", "parts"),
        "zip": (px.Map(sum, split=zip), "parts", "parts"),
        "end": (lambda *tokens: tokens, "all", "zip"),
    }
    for result in nodes:
        graph = px.Graph(nodes, result=result)
        if result not in ("zip", "end"):
            assert outcomes(manager, graph, list(range(5))) == [meaning(graph, task) for task in range(5)]
    assert outcomes(manager, px.Graph(nodes, result="end"), [3]) == [((5, 6, 3, [0, 1, 4]), [0, 2, 8])]


def test_branches_of_a_graph_are_fired_side_by_side(manager: px.Manager, tmp_path: Path) -> None:
    """Each branch waits for the other to begin."""

    def meet(own: str, other: str) -> str:
        (tmp_path / own).touch()
        return tasks.once_it_exists(str(tmp_path / other))

    left, right = (lambda _: meet("left", "right")), (lambda _: meet("right", "left"))
    graph = px.Graph({"l": (left, "task"), "r": (right, "task"), "end": (operator.eq, "l", "r")}, result="end")
    assert outcomes(manager, graph, [0]) == [False]


def test_what_is_no_program_is_an_error_at_once() -> None:
    def bad(message: str, make: Any, *args: Any, **kwargs: Any) -> None:
        with pytest.raises(px.ProgramError, match=message):
            make(*args, **kwargs)

    bad("no skeleton", px.Map, 5)
    bad("split", px.Map, abs, split=5)
    bad("join", px.Map, abs, join="sum")
    bad("two arguments", px.Reduce, tasks.double)
    bad("two arguments", px.Reduce, "sum")
    bad("two arguments", px.Scan, tasks.double)
    bad("condition", px.Loop, abs, while_=True)
    bad("no skeleton", px.Loop, None, while_=bool)
    bad("cycle: a → b → a|cycle: b → a → b", px.Graph, {"a": (abs, "b"), "b": (abs, "a")}, result="a")
    bad("input 'c'", px.Graph, {"a": (abs, "c")}, result="a")
    bad("result 'c'", px.Graph, {"a": (abs, "task")}, result="c")
    bad("name of the task", px.Graph, {"task": (abs, "task")}, result="task")
    bad("result", px.Graph, {}, result="task")
    bad("nodes are a dict", px.Graph, [("a", abs, "task")], result="a")
    bad("is to be", px.Graph, {"a": (abs,)}, result="a")
    bad("is to be", px.Graph, {"a": [abs, "task"]}, result="a")
    bad("does not take", px.Graph, {"a": (tasks.double, "task", "task")}, result="a")
    bad("does not take", px.Graph, {"a": (tasks.divide, "task")}, result="a")
    bad("takes one", px.Graph, {"a": (px.Loop(abs, while_=bool), "task", "task")}, result="a")
    bad(
        "instructions",
        lambda: px.Manager(contract=px.ParDegree(1)).compute(px.Pipeline(*[abs] * 20_000, fuse=False), []),
    )


def test_skeletons_say_what_they_are() -> None:
    program = px.Pipeline(px.Map(tasks.double), px.Reduce(mixed), px.Loop(px.Farm(abs), while_=bool))
    assert repr(program) == "Pipeline(Map(double), Reduce(mixed), Loop(Farm(abs), while_=bool))"
    assert repr(px.Graph({"a": (px.Scan(mixed), "task")}, result="a")) == "Graph(a)"


def test_an_exception_in_a_part_is_its_tasks(manager: px.Manager) -> None:
    program = px.Map(px.Map(tasks.inverse))
    results = manager.compute(program, [[[1], [2, 4]], [[5, 0], [0], [1]], [[1]]])
    assert next(results) == [[1.0], [0.5, 0.25]]
    with pytest.raises(ZeroDivisionError) as raised:
        next(results)
    cause = raised.value.__cause__
    assert isinstance(cause, px.RemoteTraceback)
    assert (cause.index, cause.task) == (1, "0")
    assert outcomes(manager, program, [[[1]]]) == [[[1.0]]]


@pytest.mark.parametrize(
    ("program", "task"),
    [
        (px.Map(abs, split=tasks.inverse), 0),
        (px.Map(abs, join=lambda parts: parts[9]), [1]),
        (px.Map(abs), 5),
        (px.Reduce(tasks.divide), [1, 0]),
        (px.Scan(tasks.divide), [1, 0, *range(100)]),
        (px.Scan(tasks.divide), 7),
        (px.Loop(px.Map(abs), while_=tasks.inverse), 0),
        (px.Loop(tasks.inverse, while_=lambda number: number < 5), 0),
        (px.Graph({"a": (tasks.inverse, "task"), "b": (abs, "task"), "c": (mixed, "a", "b")}, result="c"), 0),
    ],
)
def test_exceptions_wherever_they_are_raised(manager: px.Manager, program: Any, task: Any) -> None:
    with pytest.raises(Exception) as expected:  # noqa: PT011
        meaning(program, task)
    error = raised_by(manager, program, task)
    assert type(error) is type(expected.value)
    assert isinstance(error.__cause__, px.RemoteTraceback)


def raising_later() -> Iterator[int]:
    yield from range(50_000)
    raise LookupError("behind many parts")


def test_a_split_may_raise_after_many_parts(manager: px.Manager) -> None:
    error = raised_by(manager, px.Map(abs, split=lambda _: raising_later()), 0)
    assert isinstance(error, LookupError)
    assert outcomes(manager, px.Map(tasks.increment, split=range), [3]) == [[1, 2, 3]]


def test_a_split_without_an_end_is_an_error(manager: px.Manager) -> None:
    error = raised_by(manager, px.Map(abs, split=itertools.count), 0)
    assert isinstance(error, ValueError)
    assert "1048576 parts" in str(error)


def test_parts_of_a_split_may_be_the_same_array_again(manager: px.Manager) -> None:
    def rows(count: int) -> Iterator[Any]:
        row = np.zeros(20_000)
        for number in range(count):
            row[:] = number
            yield row

    for ordered in (True, False):
        program = px.Map(np.sum, split=rows, join=lambda sums: [float(value) for value in sums])
        assert outcomes(manager, program, [5] * 4, ordered=ordered) == [[number * 20_000.0 for number in range(5)]] * 4


def test_arrays_are_joined(manager: px.Manager) -> None:
    picture = np.arange(300_000, dtype=np.float64).reshape(300, 1000)
    program = px.Map(np.sqrt, split=lambda whole: np.array_split(whole, 7), join=np.concatenate)
    (result,) = outcomes(manager, program, [picture])
    assert np.array_equal(result, np.sqrt(picture))


def test_what_cannot_be_pickled_inside_a_task(manager: px.Manager) -> None:
    for program in (px.Map(abs, split=lambda _: [threading.Lock()]), px.Map(lambda _: threading.Lock())):
        error = raised_by(manager, program, [1])
        assert isinstance(error, px.StagingError)
        assert "cannot be pickled" in str(error)


def test_private_links_carry_them_too() -> None:
    picture = np.arange(100_000.0)
    program = px.Map(px.Map(np.sum, split=lambda half: np.split(half, 5)), split=lambda whole: np.split(whole, 2))
    with px.Manager(contract=px.ParDegree(2), policy="all") as manager:
        assert outcomes(manager, program, [picture] * 3) == [meaning(program, picture)] * 3
        assert outcomes(manager, px.Scan(operator.add), [range(50_000)]) == [list(itertools.accumulate(range(50_000)))]
        assert {it.level for it in manager.summary().interpreters} == {"private"}


def test_items_without_an_end_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_folding, "MOST_ITEMS", 1000)
    assert len(_folding.items_of(range(1000))) == 1000
    with pytest.raises(ValueError, match="more than 1000 items"):
        _folding.items_of(itertools.count())


def test_there_are_never_too_many_chunks() -> None:
    cut = _folding.chunks(list(range(200_000)), 2)
    assert len(cut) <= _folding.MOST_CHUNKS
    assert _folding.joined(cut) == list(range(200_000))


@pytest.mark.parametrize("ordered", [True, False])
def test_interpreters_killed_while_parts_are_everywhere(ordered: bool, eventually: Eventually) -> None:
    def slow(number: int) -> int:
        time.sleep(0.001)
        return number + 1

    program = px.Map(px.Pipeline(px.Map(slow, split=some, join=in_order), slow, fuse=False), join=in_order)
    stream = [list(range(number, number + 9)) for number in range(30)]
    expected = [meaning(program, task) for task in stream]
    results: list[int] = []
    killed: list[int] = []
    with px.Manager(contract=px.ParDegree(2)) as manager:
        for result in manager.compute(program, stream, ordered=ordered):
            results.append(result)
            if len(results) in (2, 10, 20):
                eventually(lambda: manager.summary().lost == len(killed))
                working = eventually(lambda: [it for it in manager.summary().interpreters if it.state == "working"])
                killed.append(working[0].pid)
                os.kill(killed[-1], signal.SIGKILL)
        eventually(lambda: manager.summary().lost == 3)
    assert (results if ordered else sorted(results)) == (expected if ordered else sorted(expected))


def test_a_part_that_ends_its_interpreters_is_the_culprit() -> None:
    def fatal(number: int) -> int:
        if number == 13:
            os._exit(1)
        return number

    with px.Manager(contract=px.ParDegree(2)) as manager:
        results = manager.compute(px.Map(fatal), [range(10), range(10, 20)])
        assert next(results) == list(range(10))
        with pytest.raises(px.CulpritError) as raised:
            next(results)
    assert (raised.value.index, raised.value.task) == (1, range(10, 20))  # the part itself is not unpickled


def test_an_endless_stream_of_maps_is_taken_only_ahead(manager: px.Manager) -> None:
    taken = itertools.count()

    def stream() -> Iterator[range]:
        while True:
            next(taken)
            yield range(2000)

    results = manager.compute(px.Map(tasks.square, join=sum), stream())
    first = list(itertools.islice(results, 5))
    results.close()
    assert first == [sum(number * number for number in range(2000))] * 5
    assert next(taken) < 131_072


def test_code_that_cannot_be_used_there_is_an_error(manager: px.Manager) -> None:
    class Unreadable:
        def __reduce__(self) -> Any:
            return tasks.divide, (1, 0)

        def __call__(self, _: Any) -> None:
            raise AssertionError

    for program in (px.Map(Unreadable()), px.Map(abs, join=Unreadable())):
        error = raised_by(manager, program, [])
        assert isinstance(error, px.StagingError)
        assert "cannot unpickle the program" in str(error)
