"""Managers and asyncio: ``async for`` over results, ``await`` of a call, ``async with``."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import aclosing
from itertools import count
from typing import TYPE_CHECKING, Any

import phalanx as px
import pytest
from api import tasks

from laboratory.processes import until

if TYPE_CHECKING:
    from api.conftest import Script


def readers() -> list[threading.Thread]:
    """The threads that read results for event loops."""
    return [thread for thread in threading.enumerate() if thread.name == "phalanx-results"]


def run(test: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Runs a coroutine, and checks that it leaves no thread behind."""
    result = asyncio.run(asyncio.wait_for(test(), 60))
    until(lambda: not readers(), timeout=30, what="the end of the readers")
    return result


class Taken:
    """Endless tasks that count how many were taken."""

    def __init__(self) -> None:
        self.number = 0

    def __iter__(self) -> Iterator[int]:
        for self.number in count(1):
            yield self.number


@pytest.mark.parametrize("size", [0, 1, 10, 5000])
def test_results_come_in_order_without_a_thread_each(manager: px.Manager, size: int) -> None:
    async def read() -> list[int]:
        found, most = [], 0
        async for result in manager.compute(tasks.double, range(size)):
            found.append(result)
            most = max(most, len(readers()))
        assert most <= 1
        return found

    assert run(read) == list(range(0, 2 * size, 2))


def test_several_computations_and_other_tasks_go_on_at_once(manager: px.Manager) -> None:
    async def read(first: int) -> int:
        return sum([result async for result in manager.compute(tasks.double, range(first, first + 100))])

    async def tick(ticks: list[int]) -> None:
        while True:
            ticks.append(1)
            await asyncio.sleep(0.001)

    async def both() -> list[int]:
        ticks: list[int] = []
        ticking = asyncio.ensure_future(tick(ticks))
        sums = await asyncio.gather(*map(read, range(0, 500, 100)))
        async for _ in manager.compute(tasks.nap, [0.1]):
            pass
        assert len(ticks) > 10  # the loop was not kept waiting
        ticking.cancel()
        return sums

    assert run(both) == [sum(range(2 * first, 2 * first + 200, 2)) for first in range(0, 500, 100)]


def test_tasks_are_taken_as_results_are_read(manager: px.Manager) -> None:
    taken = Taken()

    async def read() -> None:
        async with aclosing(manager.compute(tasks.slowly, taken).__aiter__()) as results:
            for _ in range(3):
                await anext(results)
            loop, before = asyncio.get_running_loop(), -1
            end = loop.time() + 30
            while taken.number != before:  # it comes to rest, though the stream is endless
                assert loop.time() < end
                before = taken.number
                await asyncio.sleep(0.7)

    run(read)


@pytest.mark.parametrize("way", ["break", "cancel", "aclose", "drop"])
def test_a_computation_that_is_left_ends(manager: px.Manager, way: str) -> None:
    taken = Taken()

    async def read() -> None:
        results = manager.compute(tasks.nap, (0.01 for _ in taken))
        async for _ in results:
            if way == "break":
                break
            if way == "aclose":
                await results.aclose()
            if way == "cancel":
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
        if way == "drop":
            raise AssertionError

    async def leave() -> None:
        if way == "drop":
            await anext(manager.compute(tasks.nap, (0.01 for _ in taken)).__aiter__())
            gc.collect()
        elif way == "cancel":
            with pytest.raises(asyncio.CancelledError):
                await asyncio.ensure_future(read())
        else:
            await read()
        # The loop runs on, so it is not its end that ends the computation.
        end = asyncio.get_running_loop().time() + 30
        while readers():
            assert asyncio.get_running_loop().time() < end
            await asyncio.sleep(0.01)

    run(leave)
    assert manager.submit(tasks.double, 4).result(timeout=30) == 8


def test_a_loop_that_is_closed_without_a_word_ends_its_reader(manager: px.Manager) -> None:
    loop = asyncio.new_event_loop()
    results = manager.compute(tasks.slowly, count()).__aiter__()
    assert loop.run_until_complete(anext(results)) == tasks.slowly(0)
    assert readers()
    loop.close()
    until(lambda: not readers(), timeout=30, what="the end of the reader")
    assert manager.submit(tasks.double, 4).result(timeout=30) == 8


def test_a_reader_that_waits_can_be_cancelled(manager: px.Manager) -> None:
    ready = threading.Event()

    def never() -> Iterator[int]:
        ready.wait()  # no task comes, so no result does
        yield 0

    async def read() -> None:
        async for _ in manager.compute(tasks.double, never()):
            raise AssertionError

    async def cancel() -> None:
        task = asyncio.ensure_future(read())
        while not readers():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(cancel)
    ready.set()


def test_errors_come_in_the_place_of_their_results(manager: px.Manager) -> None:
    async def read() -> list[float]:
        found = []
        with pytest.raises(ZeroDivisionError) as caught:  # noqa: PT012
            async for result in manager.compute(lambda n: 1 / n, [4, 2, 0, 5]):
                found.append(result)
        assert isinstance(caught.value.__cause__, px.errors.RemoteTraceback)
        assert caught.value.__cause__.index == 2
        return found

    assert run(read) == [0.25, 0.5]


def test_a_call_is_awaited(manager: px.Manager) -> None:
    async def call() -> Any:
        assert await manager.submit(pow, 2, 5) == 32
        with pytest.raises(ZeroDivisionError):
            await manager.submit(divmod, 1, 0)
        return await asyncio.gather(*(manager.submit(tasks.double, number) for number in range(100)))

    assert run(call) == list(range(0, 200, 2))
    with pytest.raises(RuntimeError, match="no running event loop"):
        next(manager.submit(tasks.double, 1).__await__())


def test_a_call_whose_awaiting_task_is_cancelled_is_cancelled(manager: px.Manager) -> None:
    async def cancel() -> None:
        naps = [manager.submit(tasks.nap, 0.2) for _ in range(20)]
        waiting = asyncio.ensure_future(asyncio.wait_for(naps[-1], 60))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert naps[-1].cancelled()
        for nap in naps:
            nap.cancel()

    run(cancel)


def test_async_with_waits_for_calls_and_the_loop_goes_on() -> None:
    async def both() -> None:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.01)

        ticking = asyncio.ensure_future(tick())
        async with px.Manager(contract=px.ParDegree(1)) as manager:
            assert await manager.submit(tasks.double, 1) == 2
            nap = manager.submit(tasks.nap, 0.3)
            before = ticks
        assert nap.result(timeout=0) == 0.3
        assert ticks > before + 2
        ticking.cancel()
        with pytest.raises(RuntimeError):
            manager.submit(tasks.double, 1)

    run(both)


@pytest.mark.parametrize("inside", [True, False], ids=["inside", "while it ends"])
def test_a_cancelled_task_ends_its_manager_at_once(inside: bool) -> None:
    async def work(begun: asyncio.Event) -> None:
        async with px.Manager(contract=px.ParDegree(1)) as manager:
            await manager.submit(tasks.double, 1)
            manager.submit(tasks.nap, 1000)
            begun.set()
            if inside:
                await asyncio.sleep(1000)

    async def cancel() -> None:
        begun = asyncio.Event()
        task = asyncio.ensure_future(work(begun))
        await begun.wait()
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(cancel)


def test_ctrl_c_ends_an_async_program_and_all_that_it_started(script: Script) -> None:
    source = """
        import asyncio, time
        import phalanx as px

        async def main():
            async with px.Manager(contract=px.ParDegree(2)) as manager:
                async for result in manager.compute(lambda n: time.sleep(0.01) or n, iter(int, 1)):
                    print("reading", flush=True)

        asyncio.run(main())
    """
    program = script(source)
    program.line("reading", timeout=60)
    program.signal(signal.SIGINT)
    until(lambda: program.code is not None, timeout=30, what="the end of the program")
    assert "KeyboardInterrupt" in program.stderr().splitlines()[-1]
