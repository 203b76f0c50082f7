"""Timeouts, retries, priorities, and calls that are cancelled while they run: real interpreters, ended and replaced."""

from __future__ import annotations

import concurrent.futures
import ctypes
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import phalanx as px
import pytest
from api.executors import Executors
from conftest import Eventually
from phalanx.errors import CulpritError, ProgramError, RemoteTraceback, TaskTimeoutError

#: Seconds that a call sleeps that is to be ended.
LONG = 3600
#: A timeout that is exceeded, in seconds.
SHORT = 0.3
#: A timeout that is not exceeded, however busy the machine is, in seconds.
AMPLE = 300


@pytest.fixture
def manager() -> Iterator[px.Manager]:
    with px.Manager(contract=px.ParDegree(2)) as opened:
        yield opened


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def programs_with_tasks(manager: px.Manager) -> int:
    """Programs of which the engine has taken tasks."""
    return sum(run["fed"] > 0 for run in json.loads(manager._native.shown())["runs"])


def hang(path: str) -> None:
    """Tells which process it is in, and does not return."""
    Path(path).write_text(str(os.getpid()), encoding="ascii")
    time.sleep(LONG)


def hang_in_c(path: str) -> None:
    """As `hang`, in C code that keeps Python's lock and cannot be interrupted."""
    Path(path).write_text(str(os.getpid()), encoding="ascii")
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    ctypes.PyDLL(None).sleep(LONG)


def hang_once(path: str) -> int:
    """Hangs when it is first called, and returns 7 later."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return 7
    time.sleep(LONG)
    return 0


def fail(path: str, times: int, how: str = "raise") -> int:
    """Fails for the first `times` calls, and then returns the number of the call."""
    with Path(path).open("a+b") as file:
        file.write(b".")
        file.flush()
        calls = Path(path).stat().st_size
    if calls <= times:
        if how == "exit":
            os._exit(3)
        raise OSError(f"call {calls}")
    return calls


def set_variable() -> None:
    os.environ["PHALANX_X"] = "7"


def process_in(path: Path) -> int:
    return int(path.read_text(encoding="ascii"))


def begins(path: Path) -> Callable[[], bool]:
    return lambda: path.exists() and path.stat().st_size > 0


@pytest.mark.parametrize("function", [hang, hang_in_c])
def test_a_late_call_fails_and_its_interpreter_is_replaced(
    manager: px.Manager, tmp_path: Path, function: Callable[[str], None], eventually: Eventually
) -> None:
    path = tmp_path / "began"
    future = manager.submit(px.options(function, timeout=SHORT), str(path))
    with pytest.raises(TaskTimeoutError, match=r"ran longer than its timeout of 0.3 s at this-machine/\d") as caught:
        future.result()
    assert (caught.value.timeout, caught.value.task) == (SHORT, ((str(path),), {}))
    assert isinstance(caught.value, TimeoutError)
    eventually(lambda: not alive(process_in(path)))
    assert sorted(manager.map(abs, range(-50, 0))) == list(range(1, 51))
    eventually(lambda: manager.summary().replaced == 1)


def test_all_other_tasks_come_in_their_order(manager: px.Manager) -> None:
    def sleep_at(number: int) -> int:
        if number == 150:
            time.sleep(LONG)
        return number

    results = manager.compute(px.options(sleep_at, timeout=SHORT), range(200), ordered=False)
    came: list[int] = []
    with pytest.raises(TaskTimeoutError) as caught:
        came += results
    assert (caught.value.index, caught.value.task) == (150, 150)
    futures = [manager.submit(px.options(sleep_at, timeout=SHORT), number) for number in range(130, 170)]
    done = [future.exception() or future.result() for future in futures]
    late = [type(each) for each in done if not isinstance(each, int)]
    assert late == [TaskTimeoutError]
    assert [each for each in done if isinstance(each, int)] == [number for number in range(130, 170) if number != 150]


def test_time_counts_for_each_task_alone(manager: px.Manager) -> None:
    program = px.options(time.sleep, timeout=1.0)
    assert list(manager.map(program, [0.03] * 60)) == [None] * 60  # together more than the timeout


def test_waiting_does_not_count(manager: px.Manager) -> None:
    calls = [manager.submit(px.options(time.sleep, timeout=1.5), 0.2) for _ in range(30)]
    assert [call.result() for call in calls] == [None] * 30  # the last ones wait for about 3 s


def test_a_part_that_is_late_fails_its_task_only(manager: px.Manager) -> None:
    def part(number: int) -> int:
        time.sleep(LONG if number == 5 else 0)
        return number

    program = px.Map(px.options(part, timeout=SHORT), split=range, join=sum)
    assert list(manager.compute(program, [3, 4])) == [3, 6]
    with pytest.raises(TaskTimeoutError) as caught:
        list(manager.compute(program, [4, 7]))
    assert (caught.value.index, caught.value.task) == (1, 7)
    assert list(manager.compute(program, [5])) == [10]


def test_a_stage_has_its_own_timeout(manager: px.Manager) -> None:
    program = px.Pipeline(abs, px.options(time.sleep, timeout=SHORT), str)
    assert list(manager.compute(program, [0, -0.001])) == ["None", "None"]
    slow = px.Pipeline(time.sleep, px.options(str, timeout=SHORT))
    assert list(manager.compute(slow, [2 * SHORT])) == ["None"]  # only the second stage has one
    with pytest.raises(TaskTimeoutError):
        list(manager.compute(px.options(px.Pipeline(time.sleep, str), timeout=SHORT), [LONG]))


@pytest.mark.parametrize("times", [0, 1, 3])
def test_an_exception_is_tried_again(manager: px.Manager, tmp_path: Path, times: int) -> None:
    program = px.options(fail, retries=3)
    assert manager.submit(program, str(tmp_path / "calls"), times).result() == times + 1


def test_the_last_exception_is_raised(manager: px.Manager, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="call 3") as caught:
        manager.submit(px.options(fail, retries=2), str(tmp_path / "calls"), 100).result()
    assert isinstance(caught.value.__cause__, RemoteTraceback)
    assert (tmp_path / "calls").stat().st_size == 3


def test_a_late_call_is_tried_again(manager: px.Manager, tmp_path: Path) -> None:
    program = px.options(hang_once, timeout=SHORT, retries=1)
    assert list(manager.compute(program, [str(tmp_path / "a"), str(tmp_path / "b")])) == [7, 7]
    with pytest.raises(TaskTimeoutError, match="the last of 3 attempts"):
        manager.submit(px.options(hang, timeout=SHORT, retries=2), str(tmp_path / "c")).result()


def test_a_culprit_is_tried_again(manager: px.Manager, tmp_path: Path) -> None:
    program = px.options(fail, retries=1)
    assert manager.submit(program, str(tmp_path / "calls"), 4, "exit").result() == 5
    with pytest.raises(CulpritError) as caught:
        manager.submit(program, str(tmp_path / "more"), 100, "exit").result()
    assert len(caught.value.losses) == 6


def test_parts_are_tried_again_one_by_one(manager: px.Manager, tmp_path: Path) -> None:
    def part(number: int) -> int:
        return fail(str(tmp_path / f"calls-{number}"), number)

    program = px.Map(px.options(part, retries=4), split=range, join=list)
    assert list(manager.compute(program, [4])) == [[1, 2, 3, 4]]


def test_the_first_one_by_priority(tmp_path: Path, eventually: Eventually) -> None:
    def note(name: str) -> None:
        with (tmp_path / "order").open("a", encoding="ascii") as file:
            file.write(name)

    with px.Manager(contract=px.ParDegree(1)) as manager:
        began = tmp_path / "began"
        holding = manager.submit(hang, str(began))
        eventually(begins(began))
        low = [manager.submit(px.options(note, priority=-1), "c") for _ in range(5)]
        middle = [manager.submit(note, "b") for _ in range(5)]
        high = [manager.submit(px.options(note, priority=9), "a") for _ in range(5)]
        eventually(lambda: programs_with_tasks(manager) == 4, what="the engine to have calls of all four programs")
        assert manager.cancel(holding)
        concurrent.futures.wait([*low, *middle, *high])
    order = (tmp_path / "order").read_text(encoding="ascii")
    assert sorted(order) == list("aaaaabbbbbccccc")
    # The engine takes a few calls of each program at a time; the strict order is that of its own tests.
    assert order.index("a") < order.rindex("c")


@pytest.mark.parametrize("function", [hang, hang_in_c])
def test_a_running_call_is_cancelled(
    manager: px.Manager, tmp_path: Path, function: Callable[[str], None], eventually: Eventually
) -> None:
    path = tmp_path / "began"
    called: list[concurrent.futures.Future[None]] = []
    future = manager.submit(function, str(path))
    future.add_done_callback(called.append)
    eventually(begins(path))
    assert not future.cancel(), "as in the standard library"
    assert manager.cancel(future)
    assert (future.cancelled(), future.done(), called) == (True, True, [future])
    assert concurrent.futures.wait([future], timeout=0).done == {future}
    with pytest.raises(concurrent.futures.CancelledError):
        future.result()
    eventually(lambda: not alive(process_in(path)))
    assert sorted(manager.map(abs, range(-50, 0))) == list(range(1, 51))


def test_the_reader_of_a_cancelled_call_wakes(manager: px.Manager, tmp_path: Path, eventually: Eventually) -> None:
    future = manager.submit(hang, str(tmp_path / "began"))
    eventually(begins(tmp_path / "began"))
    with concurrent.futures.ThreadPoolExecutor(1) as other:
        reading = other.submit(future.exception)
        eventually(reading.running)
        assert manager.cancel(future)
        with pytest.raises(concurrent.futures.CancelledError):
            reading.result(timeout=60)


def test_others_at_the_same_interpreter_are_unharmed(tmp_path: Path, eventually: Eventually) -> None:
    with px.Manager(contract=px.ParDegree(1)) as manager:
        future = manager.submit(hang, str(tmp_path / "began"))
        eventually(begins(tmp_path / "began"))
        others = [manager.submit(abs, -number) for number in range(100)]
        assert manager.cancel(future)
        assert [other.result() for other in others] == list(range(100))


def test_what_is_done_cannot_be_cancelled(manager: px.Manager) -> None:
    future = manager.submit(abs, -1)
    assert future.result() == 1
    assert not manager.cancel(future)
    assert manager.summary().lost == 0


def test_each_of_many_short_calls_can_be_cancelled(manager: px.Manager) -> None:
    for _ in range(20):
        futures = [manager.submit(abs, -number) for number in range(200)]
        cancelled = [manager.cancel(future) for future in futures[::7]]
        assert len(cancelled) == 29
        for number, future in enumerate(futures):
            assert future.cancelled() or future.result() == number
        assert all(future.cancelled() == was for future, was in zip(futures[::7], cancelled, strict=True))
    assert list(manager.map(abs, range(-9, 0))) == list(range(9, 0, -1))


def test_a_waiting_call_is_cancelled_without_an_end(
    manager: px.Manager, tmp_path: Path, eventually: Eventually
) -> None:
    paths = [tmp_path / "first", tmp_path / "second"]
    holding = [manager.submit(hang, str(path)) for path in paths]
    for path in paths:
        eventually(begins(path))
    waiting = manager.submit(hang, str(tmp_path / "third"))
    assert manager.cancel(waiting)
    assert waiting.cancelled()
    assert manager.summary().lost == 0
    assert all(manager.cancel(each) for each in holding)
    assert manager.submit(abs, -1).result() == 1
    assert not (tmp_path / "third").exists()


def test_a_future_of_others_is_refused(manager: px.Manager) -> None:
    with pytest.raises(ValueError, match="of no call that this manager makes"):
        manager.cancel(concurrent.futures.Future())
    with px.Manager(contract=px.ParDegree(1)) as other, pytest.raises(ValueError, match="of no call"):
        manager.cancel(other.submit(abs, -1))


def test_closed_results_end_what_runs(manager: px.Manager, tmp_path: Path, eventually: Eventually) -> None:
    def quick_or_hang(path: str) -> str:
        if path:
            hang(path)
        return path

    results = manager.compute(quick_or_hang, ["", str(tmp_path / "a")])
    assert next(results) == ""
    eventually(begins(tmp_path / "a"))
    results.close()
    eventually(lambda: not alive(process_in(tmp_path / "a")))
    assert list(manager.compute(abs, range(-20, 0))) == list(range(20, 0, -1))


def test_closed_results_of_short_tasks_end_nothing(manager: px.Manager) -> None:
    results = manager.compute(abs, range(-100_000, 0))
    assert next(results) == 100_000
    results.close()
    assert list(manager.compute(abs, [-1])) == [1]
    assert manager.summary().lost == 0


@pytest.mark.parametrize(
    "given",
    [
        {"timeout": 0},
        {"timeout": -1},
        {"timeout": float("nan")},
        {"timeout": float("inf")},
        {"timeout": "2"},
        {"timeout": True},
        {"retries": -1},
        {"retries": 1.5},
        {"retries": True},
        {"retries": 10**9},
        {"priority": 0.5},
        {"priority": 10**9},
    ],
)
def test_options_without_a_meaning_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ProgramError, match=next(iter(given))):
        px.options(abs, **given)


def test_options_belong_to_programs() -> None:
    given = px.options(abs, timeout=AMPLE)
    for wrong in (
        lambda: px.options(7, timeout=1),  # type: ignore[call-overload]
        lambda: px.Map(abs, join=given),
        lambda: px.Map(abs, split=given),
        lambda: px.Reduce(px.options(max, retries=1)),
        lambda: px.Loop(abs, while_=given),
    ):
        with pytest.raises(ProgramError):
            wrong()
    assert repr(px.options(px.Farm(abs), timeout=2, retries=1)) == "options(Farm(abs), timeout=2.0, retries=1)"
    assert given(-3) == 3, "a function with options can be called here"
    with pytest.raises(ProgramError, match="skeleton"):
        px.options(px.Farm(abs), retries=1)(1)  # type: ignore[operator]


def test_options_change_no_result(manager: px.Manager) -> None:
    def give(function: Any) -> Any:
        return px.options(function, timeout=AMPLE, retries=1, priority=3)

    add = give(px.Reduce(lambda a, b: a + b))
    diamond = {"low": (give(min), "task"), "high": (give(max), "task"), "both": (give(divmod), "high", "low")}
    assert list(manager.compute(give(abs), [-1, 2])) == [1, 2]
    assert list(manager.compute(px.Pipeline(give(abs), give(str)), [-1])) == ["1"]
    assert list(manager.compute(px.Map(add, split=lambda n: [range(n)] * 3, join=list), [4])) == [[6, 6, 6]]
    assert list(manager.compute(give(px.Graph(diamond, result="both")), [[2, 9]])) == [(4, 1)]
    assert list(manager.compute(px.Loop(give(lambda n: 2 * n), while_=lambda n: n < 100), [3])) == [192]
    assert list(manager.compute(give(px.Scan(lambda a, b: a + b)), [[1, 2, 3]])) == [[1, 3, 6]]
    assert list(manager.map(give(pow), [2, 3], [5, 2])) == [32, 9]
    assert manager.submit(give(give(int)), "12", base=3).result() == 5


def test_inner_options_go_before_outer_ones(manager: px.Manager) -> None:
    inner = px.options(time.sleep, timeout=AMPLE)
    assert list(manager.compute(px.options(px.Pipeline(inner, str), timeout=SHORT), [2 * SHORT])) == ["None"]


def test_an_initializer_is_called_before_what_has_options(tmp_path: Path) -> None:
    with px.Manager(contract=px.ParDegree(1), initializer=set_variable) as opened:
        assert opened.submit(px.options(os.getenv, timeout=AMPLE), "PHALANX_X").result() == "7"
        late = opened.submit(px.options(hang, timeout=SHORT), str(tmp_path / "began"))
        assert isinstance(late.exception(), TaskTimeoutError)
        assert list(opened.compute(px.options(os.getenv, retries=1), ["PHALANX_X"])) == ["7"]  # also at the next one


def test_an_interpreter_at_an_executor_is_ended_and_its_place_is_used_again(
    tmp_path: Path, eventually: Eventually
) -> None:
    with Executors(tmp_path) as grid:
        address = grid.start("labpc", "--cage", "none", "--accept", "ada", interpreters=1)
        with px.Manager(address, identity=grid.identity, contract=px.ParDegree(1)) as manager:
            began = tmp_path / "began"
            late = manager.submit(px.options(time.sleep, timeout=SHORT), LONG)
            with pytest.raises(TaskTimeoutError, match=r"at labpc/"):
                late.result()
            assert manager.submit(abs, -1).result() == 1
            future = manager.submit(eval, f"open({str(began)!r}, 'w').write('1') and __import__('time').sleep({LONG})")
            waiting = [manager.submit(abs, -number) for number in range(20)]
            eventually(begins(began))
            assert manager.cancel(future)
            assert [call.result() for call in waiting] == list(range(20))
            summary = manager.summary()
            assert (summary.lost, summary.replaced) == (2, 2)
            assert [it.cause for it in summary.interpreters if it.cause] == [
                "was ended: a task there ran longer than its timeout of 0.3 s",
                "was ended: a task there was cancelled",
            ]
