"""Waiting without a thread: futures, asyncio, notify."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections import deque
from concurrent.futures import CancelledError, Future, as_completed
from contextlib import suppress
from typing import Any

import phalanx as px
import pytest
from conftest import Eventually


def test_a_future_has_the_tuple_when_it_comes(space: px.Space, eventually: Eventually) -> None:
    space.out("here", 1)
    here, later = space.in_future("here", int), space.rd_future("later", int)
    eventually(here.done)
    assert not later.done()
    threads = threading.active_count()
    many = [space.in_future("many", number) for number in range(100)]
    assert threading.active_count() <= threads  # fewer, when one of an earlier test ends meanwhile
    space.out("later", 2)
    space.out_many([("many", number) for number in range(100)])
    assert here.result() == ("here", 1)
    assert later.result(timeout=30) == ("later", 2)
    assert {future.result()[1] for future in as_completed(many, timeout=30)} == set(range(100))
    assert space.rdp("later", int) == ("later", 2)
    eventually(lambda: space.info().unacknowledged == 0)


def test_a_future_can_be_awaited(space: px.Space, eventually: Eventually) -> None:
    async def both() -> Any:
        answer, never = space.in_future("answer", int), space.in_future("never")
        space.out("answer", 42)
        waiting = asyncio.ensure_future(asyncio.wait_for(never, 60))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return await answer

    assert asyncio.run(both()) == ("answer", 42)
    space.out("never")
    assert space.inp("never") == ("never",)  # the cancelled future takes nothing
    eventually(lambda: space.info().unacknowledged == 0)


def test_a_future_that_is_cancelled_takes_nothing(space: px.Space) -> None:
    future = space.in_future("x")
    assert future.cancel()
    assert future.cancelled()
    assert future.cancel()
    with pytest.raises(CancelledError):
        future.result()
    space.out("x")
    assert space.in_("x") == ("x",)
    done = space.in_future("y")
    space.out("y")
    assert not done.cancel()
    assert done.result() == ("y",)


def test_a_future_that_nobody_reads_takes_nothing(space: px.Space, eventually: Eventually) -> None:
    space.out("x", key="k")
    future = space.in_future("x")
    eventually(future.done)
    assert space.inp("x") is None
    assert space.info().unacknowledged == 1
    del future
    gc.collect()
    assert eventually(lambda: space.inp("x", select=px.key("k"))) == ("x",)
    read = space.in_future("y")
    space.out("y")
    assert read.result() == ("y",)
    del read
    gc.collect()
    assert space.inp("y") is None


def test_a_future_that_is_thrown_away_waits_no_longer(space: px.Space, eventually: Eventually) -> None:
    futures = [space.in_future("x"), space.rd_future("x")]
    eventually(lambda: (space.info().takers, space.info().readers) == (1, 1))
    del futures
    gc.collect()
    eventually(lambda: (space.info().takers, space.info().readers) == (0, 0))
    space.out("x")
    assert space.inp("x") == ("x",)
    assert space.info().unacknowledged == 0


def test_thousands_of_futures_are_thrown_away_by_one_thread(space: px.Space, eventually: Eventually) -> None:
    threads = threading.active_count()
    futures = [space.in_future("x", number) for number in range(3000)]
    del futures
    assert threading.active_count() <= threads  # fewer, when one of an earlier test ends meanwhile
    eventually(lambda: space.info().takers == 0, timeout=60)


def test_a_transaction_that_is_thrown_away_is_aborted(space: px.Space, eventually: Eventually) -> None:
    space.out("x")
    transaction = px.Transaction(space)
    assert space.inp("x", transaction=transaction) == ("x",)
    del transaction
    assert eventually(lambda: space.inp("x")) == ("x",)
    assert space.info().transactions == 0


def test_a_future_is_told_when_its_time_is_over(space: px.Space) -> None:
    future = space.in_future("never", timeout=0.01)
    with pytest.raises(px.SpaceTimeoutError):
        future.result(timeout=30)
    space.out("never")
    assert space.inp("never") == ("never",)


class PongCallback:
    """Puts the ping's number back as a pong. A test waits for its end: it fails if the space is closed meanwhile."""

    def __init__(self, space: px.Space) -> None:
        self._space = space
        self.has_ended = threading.Event()

    def __call__(self, done: Future[tuple[Any, ...]]) -> None:
        self._space.out("pong", done.result()[1])
        self.has_ended.set()


def test_a_futures_callback_may_use_the_space(space: px.Space) -> None:
    future, callback = space.in_future("ping", int), PongCallback(space)
    future.add_done_callback(callback)
    space.out("ping", 1)
    assert space.in_("pong", int, timeout=30) == ("pong", 1)
    assert callback.has_ended.wait(30)


def test_a_callback_without_the_future_is_still_called(space: px.Space) -> None:
    callback = PongCallback(space)
    space.in_future("ping", int).add_done_callback(callback)
    gc.collect()
    space.out("ping", 1)
    assert space.in_("pong", int, timeout=30) == ("pong", 1)
    assert space.inp("ping", int) is None
    assert callback.has_ended.wait(30)


def test_tasks_wait_for_each_other(space: px.Space) -> None:
    async def answer() -> None:
        for _ in range(20):
            _, number = await space.ain("ask", int)
            await space.aout("answer", number, number * 2)

    async def ask(number: int) -> int:
        await space.aout("ask", number)
        _, _, doubled = await space.ain("answer", number, int)
        return int(doubled)

    async def main() -> list[int]:
        results = await asyncio.gather(answer(), answer(), *map(ask, range(40)))
        return [result for result in results if isinstance(result, int)]

    threads = threading.active_count()
    assert asyncio.run(main()) == [number * 2 for number in range(40)]
    assert threading.active_count() <= threads  # fewer, when one of an earlier test ends meanwhile


def test_the_asynchronous_twins(space: px.Space) -> None:
    async def main() -> None:
        assert await space.ainp("x", int) is None
        await space.aout("x", 1)
        assert await space.ardp("x", int) == ("x", 1)
        assert await space.ard("x", int) == ("x", 1)
        assert await space.ainp("x", int) == ("x", 1)
        with pytest.raises(px.SpaceTimeoutError):
            await space.ain("x", int, timeout=0.01)
        lease = await space.aout("x", 2, lease=60)
        assert lease is not None
        assert lease.renew(60)

    asyncio.run(main())


def test_the_asynchronous_twins_of_what_is_done_to_many(space: px.Space) -> None:
    async def main() -> None:
        many = [("many", number) for number in range(2500)]
        await space.aout_many(many)
        assert await space.acount("many", int) == 2500
        assert [fields async for fields in space.ard_all("many", int)] == many
        first = space.ard_all("many", int)
        assert await anext(first) == ("many", 0)
        await first.aclose()
        with px.Transaction(space) as transaction:
            assert await space.ain_all("many", px.where() < 10, transaction=transaction) == many[:10]
            assert await space.acount("many", int, transaction=transaction) == 2490
            transaction.abort()
        assert await space.ain_all("many", int) == many
        assert await space.ain_all("many", int) == []

    asyncio.run(main())


def test_who_is_cancelled_while_he_takes_all_has_taken_all_or_nothing(space: px.Space) -> None:
    async def main() -> None:
        space.out_many([("many", number) for number in range(3000)])
        left, times = 3000, 0
        while left:
            taking = asyncio.create_task(space.ain_all("many", int))
            await asyncio.sleep(times * 0.0005)
            taking.cancel()
            with suppress(asyncio.CancelledError):
                assert len(await taking) == 3000
                left = 0
            assert await space.acount("many", int) == left
            times += 1

    asyncio.run(main())


def test_a_tuple_from_another_thread_wakes_a_task(space: px.Space) -> None:
    async def main() -> tuple[object, ...]:
        waiting = asyncio.create_task(space.ain("x", int))
        await asyncio.sleep(0)
        other = threading.Thread(target=space.out, args=("x", 5))
        other.start()
        found = await asyncio.wait_for(waiting, 10)
        other.join()
        return found

    assert asyncio.run(main()) == ("x", 5)


def test_a_task_that_is_cancelled_takes_nothing(space: px.Space) -> None:
    async def main() -> None:
        for _ in range(200):
            waiting = asyncio.create_task(space.ain("x"))
            await asyncio.sleep(0)
            waiting.cancel()
            # Sometimes the tuple comes first, sometimes the cancelling: in one turn of the loop.
            space.out("x")
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert space.inp("x") == ("x",)
            waiting = asyncio.create_task(space.ain("x"))
            await asyncio.sleep(0)
            space.out("x")
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert space.inp("x") == ("x",)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(space.ain("x"), 0.01)

    asyncio.run(main())
    assert space.info().takers == 0
    assert space.info().unacknowledged == 0


def test_notify_tells_of_every_matching_tuple(space: px.Space) -> None:
    space.out("n", -1)
    with space.notify("n", px.where() < 100) as events:
        for number in (1, 500, 2):
            space.out("n", number)
        space.in_all("n", int)
        space.out_many([("n", 3), ("other", 4), ("n", 5)])
        found = [events.next(timeout=30) for _ in range(4)]
    assert [event.fields for event in found] == [("n", 1), ("n", 2), ("n", 3), ("n", 5)]
    numbers = [event.sequence for event in found]
    assert numbers == sorted(set(numbers))
    with space.notify("n", int, since=found[1].sequence) as again:
        assert [again.next(timeout=30).fields for _ in range(2)] == [("n", 3), ("n", 5)]
        with pytest.raises(px.SpaceTimeoutError):
            again.next(timeout=0.01)


def test_closing_ends_who_waits_for_events(space: px.Space, eventually: Eventually) -> None:
    events = space.notify("x")
    seen: list[px.Event] = []
    reader = threading.Thread(target=lambda: seen.extend(events))
    reader.start()
    space.out("x")
    eventually(lambda: len(seen) == 1)
    events.close()
    reader.join(10)
    assert not reader.is_alive()
    assert space.info().watches == 0


def test_events_for_asyncio(space: px.Space) -> None:
    async def main() -> list[object]:
        found = []
        with space.notify("n", int) as events:
            other = threading.Thread(target=lambda: [space.out("n", number) for number in range(50)])
            other.start()
            async for event in events:
                found.append(event.fields[1])
                if len(found) == 50:
                    break
            other.join()
        return found

    assert asyncio.run(asyncio.wait_for(main(), 30)) == list(range(50))


def test_a_slow_reader_of_events_misses_nothing_that_is_remembered() -> None:
    with px.Space(log_events=30_000) as space, space.notify("n", int) as events:
        space.out_many([("n", number) for number in range(25_000)])
        assert [events.next(timeout=30).fields[1] for _ in range(25_000)] == list(range(25_000))
    with px.Space(log_events=100) as space, space.notify("n", int) as events:
        space.out_many([("n", number) for number in range(25_000)])
        with pytest.raises(px.SpaceError, match="forgotten"):
            deque(events, maxlen=0)
        space.out("n", -1)
        found = [events.next(timeout=30).fields[1] for _ in range(101)]
        assert found == [*range(24_900, 25_000), -1]
