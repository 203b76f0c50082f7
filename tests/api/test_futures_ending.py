"""How calls and interpreters end: shutdown, close, the end of the program, a manager that nobody has any more.

After CPython's own tests of executors (Lib/test/test_concurrent_futures: test_shutdown).
"""

from __future__ import annotations

import concurrent.futures
import gc
import threading
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import phalanx as px
import pytest
from api import tasks
from api.conftest import Script
from conftest import Eventually


def started(manager: px.Manager, eventually: Eventually) -> list[Path]:
    """The interpreters as folders of /proc, when all are there."""
    eventually(lambda: len(manager.summary().interpreters) == manager.interpreters)
    return [Path(f"/proc/{it.pid}") for it in manager.summary().interpreters]


def test_no_call_after_shutdown() -> None:
    manager = px.Manager(contract=px.ParDegree(1))
    assert manager.submit(tasks.double, 1).result() == 2
    manager.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        manager.submit(tasks.double, 1)
    with pytest.raises(RuntimeError, match="after shutdown"):
        manager.map(tasks.double, [1])


def test_shutdown_waits_for_calls_and_ends_interpreters(eventually: Eventually) -> None:
    manager = px.Manager(contract=px.ParDegree(2))
    interpreters = started(manager, eventually)
    calls = [manager.submit(tasks.nap, 0.005) for _ in range(40)]
    manager.shutdown()
    assert all(call.done() for call in calls)
    assert not any(folder.exists() for folder in interpreters)


def test_a_with_block_waits_too(eventually: Eventually) -> None:
    with px.Manager(contract=px.ParDegree(2)) as manager:
        interpreters = started(manager, eventually)
        calls = [manager.submit(tasks.nap, 0.005) for _ in range(20)]
    assert [call.result() for call in calls] == [0.005] * 20
    assert not any(folder.exists() for folder in interpreters)


def test_shutdown_without_waiting_still_gives_the_results(tmp_path: Path, eventually: Eventually) -> None:
    manager = px.Manager(contract=px.ParDegree(1))
    (folder,) = started(manager, eventually)
    held = manager.submit(tasks.once_it_exists, str(tmp_path / "end"))
    calls = [manager.submit(tasks.double, number) for number in range(30)]
    manager.shutdown(wait=False)
    assert not held.done()
    with pytest.raises(RuntimeError, match="after shutdown"):
        manager.submit(tasks.double, 1)
    (tmp_path / "end").touch()
    assert [call.result(timeout=30) for call in calls] == list(range(0, 60, 2))
    eventually(lambda: not folder.exists())


@pytest.mark.parametrize("wait", [True, False])
def test_shutdown_can_cancel_what_waits(tmp_path: Path, eventually: Eventually, wait: bool) -> None:
    manager = px.Manager(contract=px.ParDegree(1))
    held: Future[Any] = manager.submit(tasks.hold, (str(tmp_path / "began"), str(tmp_path / "end")))
    eventually((tmp_path / "began").exists)
    calls: list[Future[Any]] = [manager.submit(tasks.double, number) for number in range(40)]
    threading.Timer(0.1, (tmp_path / "end").touch).start()
    manager.shutdown(wait=wait, cancel_futures=True)
    assert not any(call.running() for call in calls if call.cancelled())
    assert not concurrent.futures.wait([*calls, held], timeout=30).not_done
    assert sum(call.cancelled() for call in calls) >= 35
    assert held.exception() is None
    assert all(call.exception() is None for call in calls if not call.cancelled())
    manager.shutdown()


def test_close_ends_everything_at_once(tmp_path: Path, eventually: Eventually) -> None:
    manager = px.Manager(contract=px.ParDegree(2))
    interpreters = started(manager, eventually)
    calls = [manager.submit(tasks.nap, 1000) for _ in range(10)]
    eventually(lambda: calls[0].running())
    waiting = threading.Thread(target=lambda: calls[0].exception(timeout=60))
    waiting.start()
    manager.close()
    assert not any(folder.exists() for folder in interpreters)
    waiting.join(timeout=30)
    assert not waiting.is_alive()
    assert len(concurrent.futures.wait(calls, timeout=30).done) == 10
    for call in calls:
        assert call.cancelled() or isinstance(call.exception(), RuntimeError)
    eventually(lambda: "phalanx-futures" not in {thread.name for thread in threading.enumerate()})


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_ctrl_c_in_a_with_block_waits_for_no_call(error: type[BaseException], eventually: Eventually) -> None:
    seconds = 1000 if error is KeyboardInterrupt else 0.1
    with pytest.raises(error), px.Manager(contract=px.ParDegree(1)) as manager:  # noqa: PT012 the block is the point
        call = manager.submit(tasks.nap, seconds)
        eventually(call.running)
        raise error
    assert call.done()
    assert (call.exception() is None) == (error is ValueError)


def test_a_manager_that_nobody_has_any_more_ends(eventually: Eventually) -> None:
    manager = px.Manager(contract=px.ParDegree(2))
    interpreters = started(manager, eventually)
    assert manager.submit(tasks.double, 1).result() == 2
    assert next(manager.compute(tasks.double, range(1000))) == 0
    del manager
    gc.collect()
    eventually(lambda: not any(folder.exists() for folder in interpreters))
    eventually(lambda: "phalanx-futures" not in {thread.name for thread in threading.enumerate()})


def test_a_manager_that_nobody_has_any_more_answers_its_calls_first(eventually: Eventually) -> None:
    manager = px.Manager(contract=px.ParDegree(1))
    interpreters = started(manager, eventually)
    calls = [manager.submit(tasks.nap, 0.005) for _ in range(20)]
    results = manager.map(tasks.double, range(20))
    del manager
    gc.collect()
    assert [call.result(timeout=30) for call in calls] == [0.005] * 20
    assert list(results) == list(range(0, 40, 2))
    eventually(lambda: not any(folder.exists() for folder in interpreters))


def test_a_manager_in_a_callback_may_shut_itself_down(eventually: Eventually) -> None:
    manager = px.Manager(contract=px.ParDegree(1))
    interpreters = started(manager, eventually)
    manager.submit(tasks.nap, 0.01).add_done_callback(lambda _: manager.shutdown(wait=True))
    eventually(lambda: not any(folder.exists() for folder in interpreters))


def test_shutdown_races_with_new_calls(eventually: Eventually) -> None:
    """After CPython's bpo-12456 and others: whoever asks gets a result or the error, nobody waits forever."""
    for _ in range(3):
        manager = px.Manager(contract=px.ParDegree(1))
        calls: list[Future[int]] = []

        def submit(manager: px.Manager = manager, calls: list[Future[int]] = calls) -> None:
            with suppress(RuntimeError):
                while True:
                    calls.append(manager.submit(tasks.double, len(calls)))

        threads = [threading.Thread(target=submit) for _ in range(3)]
        for thread in threads:
            thread.start()
        eventually(lambda calls=calls: len(calls) > 50)  # type: ignore[misc]
        manager.shutdown()
        for thread in threads:
            thread.join(timeout=30)
        assert all(call.result(timeout=30) % 2 == 0 for call in calls)


def test_a_program_that_ends_waits_for_its_calls(script: Script) -> None:
    """After CPython's test_interpreter_shutdown: the manager is neither closed nor kept."""
    program = script("""
        import time
        import phalanx as px

        def slow(number):
            time.sleep(0.02)
            print("computed", number)
            return number

        def call_some(manager):
            for number in range(10):
                manager.submit(slow, number).add_done_callback(lambda call: print("seen", call.result()))

        kept = px.Manager(contract=px.ParDegree(1))
        call_some(kept)
        call_some(px.Manager(contract=px.ParDegree(1)))
        print("end of the script", flush=True)
    """)
    assert program.wait() == 0, program.report()
    lines = program.lines()
    assert lines.count("end of the script") == 1
    for number in range(10):
        assert lines.count(f"computed {number}") == lines.count(f"seen {number}") == 2
    assert program.stderr() == ""


def test_a_program_that_ends_with_an_exception_waits_too(script: Script) -> None:
    program = script("""
        import phalanx as px
        manager = px.Manager(contract=px.ParDegree(1))
        for number in range(20):
            manager.submit(abs, number).add_done_callback(lambda call: print(call.result()))
        raise ValueError("the end")
    """)
    assert program.wait() == 1
    assert program.lines() == [str(number) for number in range(20)]
    assert "ValueError: the end" in program.stderr()


def test_no_call_when_the_program_has_ended(script: Script) -> None:
    """After CPython's test_submit_after_interpreter_shutdown."""
    program = script("""
        import atexit

        @atexit.register
        def too_late():
            try:
                manager.submit(abs, 1)
            except RuntimeError:
                print("refused")

        import phalanx as px
        manager = px.Manager(contract=px.ParDegree(1))
        assert manager.submit(abs, -1).result() == 1
    """)
    assert program.wait() == 0, program.report()
    assert program.lines() == ["refused"]
    assert program.stderr() == ""


def test_a_program_may_end_in_the_middle_of_a_compute(script: Script) -> None:
    program = script("""
        import itertools
        import phalanx as px
        manager = px.Manager(contract=px.ParDegree(2))
        results = manager.compute(lambda number: number + 1, itertools.count())
        print(next(results), next(results))
    """)
    assert program.wait() == 0, program.report()
    assert program.lines() == ["1 2"]
    assert program.stderr() == ""


def test_a_fork_that_waits_for_a_call_takes_nothing_from_the_original(script: Script) -> None:
    program = script(
        """
        import os
        import time

        import phalanx as px

        def slow(number):
            time.sleep(1)
            return number

        with px.Manager(contract=px.ParDegree(2)) as manager:
            assert manager.submit(abs, -1).result() == 1
            future = manager.submit(slow, 7)
            child = os.fork()
            if child == 0:
                try:
                    future.result(timeout=2)
                except TimeoutError:
                    os._exit(3)
                os._exit(0)
            assert os.waitpid(child, 0)[1] >> 8 == 3
            assert future.result(timeout=30) == 7
            assert [manager.submit(abs, -n).result(timeout=30) for n in range(50)] == list(range(50))
        print("whole")
    """
    )
    assert program.wait() == 0, program.report()
    assert program.lines() == ["whole"]
