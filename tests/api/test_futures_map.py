"""`Manager.map`: the standard library's semantics, without a future for each call.

After CPython's own tests (Lib/test/test_concurrent_futures: executor) and those of Python 3.14's `buffersize`.
"""

from __future__ import annotations

import concurrent.futures
import gc
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
import phalanx as px
import pytest
from api import tasks
from api.test_ctrl_c import Interrupting
from conftest import Eventually


def add(a: int, b: int, c: int = 0) -> int:
    return a + b + c


def fired(manager: px.Manager, journal: Path) -> int:
    manager.close()  # writes the journal's rest
    return journal.read_text().count('"fired"')


def test_a_chunksize_is_checked_and_changes_no_result(manager: px.Manager) -> None:
    for chunksize in (0, -1):
        with pytest.raises(ValueError, match="chunksize must be >= 1"):
            manager.map(tasks.double, [1], chunksize=chunksize)
    for chunksize in (1, 7, 256, 10**9):
        assert list(manager.map(tasks.double, range(500), chunksize=chunksize)) == list(range(0, 1000, 2))


@pytest.mark.parametrize("kind", [list, iter])
@pytest.mark.parametrize("chunksize", [1, 7])
def test_at_most_chunksize_calls_travel_together(tmp_path: Path, kind: Callable[[Any], Any], chunksize: int) -> None:
    with px.Manager(contract=px.ParDegree(2), journal=tmp_path / "journal") as manager:
        assert list(manager.map(tasks.identity, kind(range(3000)), chunksize=chunksize)) == list(range(3000))
    facts = map(json.loads, (tmp_path / "journal").read_text().splitlines())
    together = [fact["tasks"] for fact in facts if fact["fact"] == "fired"]
    assert sum(together) >= 3000
    assert max(together) <= chunksize


def test_the_calls_of_a_map_travel_together(tmp_path: Path) -> None:
    with px.Manager(contract=px.ParDegree(2), journal=tmp_path / "journal") as manager:
        assert sum(manager.map(tasks.identity, range(50_000))) == sum(range(50_000))
        assert fired(manager, tmp_path / "journal") < 5_000


def test_calls_submitted_one_after_the_other_travel_together(tmp_path: Path) -> None:
    with px.Manager(contract=px.ParDegree(2), journal=tmp_path / "journal") as manager:
        futures = [manager.submit(tasks.identity, number) for number in range(20_000)]
        assert sum(future.result() for future in concurrent.futures.as_completed(futures)) == sum(range(20_000))
        assert fired(manager, tmp_path / "journal") < 4_000


@pytest.mark.parametrize("kind", [list, tuple, set, dict.fromkeys, iter, lambda it: (n for n in it), np.array])
def test_iterables_of_every_kind(manager: px.Manager, kind: Callable[[Any], Any]) -> None:
    assert list(manager.map(tasks.double, kind(range(300)))) == list(range(0, 600, 2))


def test_several_iterables_up_to_the_end_of_the_shortest(manager: px.Manager) -> None:
    assert list(manager.map(add, range(100), [1] * 50, iter(range(70)))) == [2 * n + 1 for n in range(50)]
    assert list(manager.map(add, (1, 2), [])) == []
    assert list(manager.map(add)) == []


def test_iterables_are_taken_as_they_are_when_map_is_called(manager: px.Manager) -> None:
    numbers = list(range(5000))
    results = manager.map(tasks.identity, numbers)
    numbers.clear()
    assert list(results) == list(range(5000))


def test_large_arrays(manager: px.Manager) -> None:
    arrays = [np.full(100_000, value) for value in range(12)]
    for number, result in enumerate(manager.map(np.add, arrays, range(12))):
        assert (result == 2 * number).all()


def test_an_iterator_may_wait_for_the_first_call(manager: px.Manager, tmp_path: Path, eventually: Eventually) -> None:
    def paths() -> Iterator[Path]:
        for number in range(3):
            yield tmp_path / str(number)
            eventually((tmp_path / str(number)).exists, timeout=30)

    assert list(manager.map(Path.touch, paths())) == [None] * 3


def test_a_long_first_call_holds_up_no_other(manager: px.Manager, tmp_path: Path) -> None:
    last = tmp_path / "last"
    functions: list[Callable[[str], Any]] = [tasks.once_it_exists, *[str] * 2000, lambda path: Path(path).touch()]
    results = list(manager.map(lambda function: function(str(last)), functions))
    assert results == [str(last)] * 2001 + [None]


def test_an_iterable_that_raises(manager: px.Manager, tmp_path: Path, eventually: Eventually) -> None:
    def paths() -> Iterator[Path]:
        yield tmp_path / "one"
        yield tmp_path / "two"
        raise LookupError("no third one")

    with pytest.raises(LookupError, match="no third one"):
        manager.map(Path.touch, paths())
    eventually((tmp_path / "two").exists)  # as the standard's: what was submitted is called


def test_an_argument_that_cannot_be_pickled_raises_in_its_place(
    manager: px.Manager, tmp_path: Path, eventually: Eventually
) -> None:
    def touch(number: Any) -> Any:
        (tmp_path / str(number)).touch()
        return number

    results = manager.map(touch, [0, 1, threading.Lock(), 3, threading.Lock(), *range(5, 40)])
    eventually(lambda: len(list(tmp_path.iterdir())) == 38, timeout=30)
    assert list(islice(results, 2)) == [0, 1]
    with pytest.raises(px.StagingError, match="lock"):
        next(results)
    assert list(results) == []


def test_a_function_that_cannot_be_pickled(manager: px.Manager) -> None:
    lock = threading.Lock()
    results = manager.map(lambda _: lock, [1, 2])
    with pytest.raises(px.StagingError, match="lock"):
        next(results)
    assert list(manager.map(lambda _: lock, [])) == []


def test_a_result_that_cannot_be_pickled(manager: px.Manager) -> None:
    results = manager.map(lambda number: threading.Lock() if number == 2 else number, range(4))
    assert list(islice(results, 2)) == [0, 1]
    with pytest.raises(px.StagingError, match="lock"):
        next(results)


def test_an_exception_in_its_place_far_into_a_map(manager: px.Manager) -> None:
    results = manager.map(tasks.inverse, [*range(1, 3000), 0, 1])
    assert sum(1 for _ in islice(results, 2999)) == 2999
    with pytest.raises(ZeroDivisionError) as raised:
        next(results)
    assert isinstance(raised.value.__cause__, px.RemoteTraceback)
    assert list(results) == []


def test_a_map_that_is_closed_begins_no_more_calls(manager: px.Manager, tmp_path: Path) -> None:
    def touch(number: int) -> int:
        (tmp_path / str(number)).touch()
        return tasks.slowly(number)

    results = manager.map(touch, range(5000))
    assert next(results) == 0
    results.close()
    assert manager.submit(tasks.double, 1).result(timeout=30) == 2
    assert len(list(tmp_path.iterdir())) < 4000
    assert list(results) == []


def test_a_timeout_ends_a_map(manager: px.Manager, tmp_path: Path) -> None:
    calls: list[tuple[Any, ...]] = [(abs, -1), (tasks.once_it_exists, str(tmp_path / "end"))]
    results = manager.map(lambda call: call[0](*call[1:]), calls, timeout=2)
    assert next(results) == 1
    with pytest.raises(concurrent.futures.TimeoutError):
        next(results)
    assert list(results) == []
    (tmp_path / "end").touch()


def test_results_that_are_there_come_after_the_time() -> None:
    manager = px.Manager(contract=px.ParDegree(2))
    results = manager.map(tasks.double, range(100), timeout=0)
    manager.shutdown()  # waits for all
    assert list(results) == list(range(0, 200, 2))


def test_a_map_that_nobody_reads_is_computed(manager: px.Manager, tmp_path: Path, eventually: Eventually) -> None:
    manager.map(Path.touch, [tmp_path / str(number) for number in range(50)])
    gc.collect()
    eventually(lambda: len(list(tmp_path.iterdir())) == 50, timeout=30)


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_buffersize_bounds_what_is_taken(manager: px.Manager, size: int) -> None:
    taken = count()
    results = manager.map(tasks.double, (next(taken) for _ in range(20)), buffersize=size)
    assert next(taken) == min(size, 20)
    assert next(results) == 0
    assert next(taken) <= size + 2
    assert len(list(results)) <= 19


def test_a_buffersize_is_checked(manager: px.Manager) -> None:
    for size in (0, -1):
        with pytest.raises(ValueError, match="buffersize must be None or > 0"):
            manager.map(tasks.double, [1], buffersize=size)
    with pytest.raises(TypeError, match="buffersize must be an integer or None"):
        manager.map(tasks.double, [1], buffersize=1.5)  # type: ignore[call-overload]
    endless = manager.map(tasks.double, count(), buffersize=4)
    assert list(islice(endless, 10)) == list(range(0, 20, 2))
    endless.close()


def test_a_culprit_in_its_place(eventually: Eventually) -> None:
    def crash(number: int) -> int:
        if number == 40:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    with px.Manager(contract=px.ParDegree(2)) as manager:
        results = manager.map(crash, range(80))
        assert list(islice(results, 40)) == list(range(40))
        with pytest.raises(px.CulpritError):
            next(results)
        assert list(manager.map(tasks.double, range(50))) == list(range(0, 100, 2))


def test_shutdown_waits_for_maps() -> None:
    manager = px.Manager(contract=px.ParDegree(2))
    results = manager.map(tasks.slowly, range(300))
    manager.shutdown()
    assert list(results) == list(range(300))
    with pytest.raises(RuntimeError, match="after shutdown"):
        manager.map(tasks.double, [1])


def test_shutdown_can_cancel_the_rest_of_a_map(tmp_path: Path) -> None:
    manager = px.Manager(contract=px.ParDegree(2))
    results = manager.map(tasks.nap, [0.01] * 1000)
    assert next(results) == 0.01
    manager.shutdown(cancel_futures=True)
    left = 0
    with pytest.raises(CancelledError):  # noqa: PT012 what came before is counted
        for _ in results:
            left += 1
    assert left < 990
    assert list(results) == []


def test_close_ends_a_map_at_once() -> None:
    manager = px.Manager(contract=px.ParDegree(2))
    results = manager.map(tasks.nap, [0, 1000, 1000])
    assert next(results) == 0
    threading.Timer(0.1, manager.close).start()
    with pytest.raises(RuntimeError, match="closed"):
        next(results)


def test_ctrl_c_at_any_moment_of_a_map_harms_no_other(script: Any) -> None:
    program = script(
        """
        import sys
        from contextlib import suppress

        import phalanx as px
        from api import tasks
        from api.test_ctrl_c import interrupting

        with px.Manager(contract=px.ParDegree(2)) as manager:
            for moment in range(1, 150):
                with suppress(KeyboardInterrupt):
                    try:
                        sys.setprofile(interrupting(moment))
                        results = list(manager.map(tasks.double, range(20)))
                    finally:
                        sys.setprofile(None)
                    assert results == list(range(0, 40, 2)), results
            assert list(manager.map(tasks.double, range(3000))) == list(range(0, 6000, 2))
        print("whole")
    """,
        PYTHONPATH=str(Path(__file__).parents[1]),
    )
    assert program.wait() == 0, program.report()
    assert program.lines() == ["whole"]


def test_ctrl_c_while_arguments_are_pickled_loses_no_call(manager: px.Manager) -> None:
    Interrupting.pressed = False
    with pytest.raises(KeyboardInterrupt):
        list(manager.map(tasks.identity, map(Interrupting, range(10))))
    assert list(manager.map(tasks.identity, map(Interrupting, range(10)))) == list(range(10))
