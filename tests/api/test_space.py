"""Linda's operations on a space in this process: who gets what, and when."""

from __future__ import annotations

import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import phalanx as px
import pytest
from api.conftest import Script
from conftest import Eventually
from phalanx.words import Order


@dataclass
class Run:
    name: str
    score: float


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as pool:
        yield pool


def waits(space: px.Space, takers: int, readers: int = 0) -> Callable[[], bool]:
    def so_many_wait() -> bool:
        told = space.info()
        return (told.takers, told.readers) == (takers, readers)

    return so_many_wait


def test_what_is_put_can_be_read_and_taken_once(space: px.Space) -> None:
    space.out("goofy", 4, 10.4)
    assert space.rdp("goofy", int, float) == ("goofy", 4, 10.4)
    assert space.rd("goofy", px.ANY, px.ANY) == ("goofy", 4, 10.4)
    assert space.in_("goofy", int, float) == ("goofy", 4, 10.4)
    assert space.rdp("goofy", int, float) is None
    assert space.inp(px.ANY, px.ANY, px.ANY) is None


def test_a_space_is_a_multiset(space: px.Space) -> None:
    for _ in range(3):
        space.out("same")
    space.out_many([("same",), ("other", 1)])
    assert space.count("same") == 4
    assert space.in_all("same") == [("same",)] * 4
    assert space.count("same") == 0
    assert list(space.rd_all(str, int)) == [("other", 1)]


def test_templates_match_by_length_and_position(space: px.Space) -> None:
    space.out()
    space.out("a")
    space.out("a", "b")
    space.out("b", "a")
    assert space.count() == 1
    assert space.count(px.ANY) == 1
    assert space.count(str, "a") == 1
    assert space.count("a", str) == 1
    assert space.count(str, str) == 2
    assert space.inp() == ()


def test_more_tuples_than_a_page(space: px.Space) -> None:
    space.out_many(("n", number) for number in range(5000))
    assert sorted(number for _, number in space.rd_all("n", int)) == list(range(5000))
    assert space.count("n", int) == 5000
    assert sorted(number for _, number in space.in_all("n", px.where() >= 100)) == list(range(100, 5000))
    assert space.count("n", int) == 100


def test_out_many_puts_all_or_none(space: px.Space) -> None:
    with pytest.raises(TypeError):
        space.out_many([(1,), ({},)])
    with pytest.raises(TypeError):
        space.out_many([(1,), 2])  # type: ignore[list-item]
    with px.Space(most_tuples=3) as small:
        with pytest.raises(px.SpaceFullError, match="3 tuples"):
            small.out_many([(number,) for number in range(4)])
        assert small.count(int) == 0
        small.out_many([(number,) for number in range(3)])
        with pytest.raises(px.SpaceFullError):
            small.out(4)
        assert small.inp(0) == (0,)
        small.out(4)


def test_a_taker_waits_until_a_tuple_comes(
    space: px.Space, threads: ThreadPoolExecutor, eventually: Eventually
) -> None:
    taken = threads.submit(space.in_, "job", int)
    read = threads.submit(space.rd, "job", int)
    eventually(waits(space, 1, 1))
    space.out("other", 1)
    space.out("job", "no number")
    assert not taken.done()
    assert not read.done()
    space.out("job", 7)
    assert taken.result(timeout=30) == ("job", 7)
    assert read.result(timeout=30) == ("job", 7)
    assert space.rdp("job", int) is None


def test_takers_get_what_comes_in_their_order(
    space: px.Space, threads: ThreadPoolExecutor, eventually: Eventually
) -> None:
    futures = []
    for number in range(8):
        futures.append(threads.submit(space.in_, "job", int))
        eventually(waits(space, number + 1))
    for number in range(8):
        space.out("job", number)
    assert [future.result(timeout=30) for future in futures] == [("job", number) for number in range(8)]


def test_each_tuple_goes_to_exactly_one_taker(space: px.Space, threads: ThreadPoolExecutor) -> None:
    def take() -> list[int]:
        mine = []
        while (number := space.in_("n", int, timeout=60)[1]) >= 0:
            mine.append(number)
        return mine

    def put(start: int) -> None:
        for number in range(start, start + 1000):
            space.out("n", number)

    takers = [threads.submit(take) for _ in range(6)]
    for future in [threads.submit(put, start) for start in range(0, 4000, 1000)]:
        future.result(timeout=60)
    space.out_many([("n", -1)] * 6)
    taken = [number for future in takers for number in future.result(timeout=60)]
    # The ends may overtake numbers that wait for nobody.
    left = [number for _, number in space.in_all("n", int)]
    assert sorted(taken + left) == list(range(4000))


def test_a_timeout_is_an_error_of_its_own_and_takes_nothing(space: px.Space) -> None:
    for wait in (space.in_, space.rd):
        for timeout in (0, 0.01):
            with pytest.raises(px.SpaceTimeoutError) as raised:
                wait("never", timeout=timeout)
            assert isinstance(raised.value, TimeoutError)
            assert isinstance(raised.value, px.PhalanxError)
    space.out("never")
    assert space.in_("never", timeout=0) == ("never",)
    for wrong in (-1, float("nan")):
        with pytest.raises(ValueError, match="timeout="):
            space.in_("never", timeout=wrong)
    assert waits(space, 0)()


def test_tuples_and_timeouts_that_cross_lose_nothing(space: px.Space, threads: ThreadPoolExecutor) -> None:
    stop = threading.Event()

    def take() -> int:
        taken = 0
        while not stop.is_set():
            try:
                space.in_("x", timeout=0.0005)
                taken += 1
            except px.SpaceTimeoutError:
                pass
        return taken

    takers = [threads.submit(take) for _ in range(4)]
    for _ in range(3000):
        space.out("x")
    stop.set()
    taken = sum(future.result(timeout=60) for future in takers)
    assert taken + len(space.in_all("x")) == 3000


def test_ctrl_c_ends_a_wait_and_takes_nothing(script: Script) -> None:
    program = script(
        """
        import phalanx as px, sys
        with px.Space() as space:
            try:
                print("waiting", flush=True)
                space.in_("never")
            except KeyboardInterrupt:
                assert space.info().takers == 0
                space.out("never")
                assert space.inp("never") == ("never",)
                print("interrupted", flush=True)
        """
    )
    program.line("waiting")
    program.signal(signal.SIGINT)
    assert program.wait(timeout=30) == 0, program.report()
    assert "interrupted" in program.stdout()


def test_closing_a_space_ends_who_waits(threads: ThreadPoolExecutor, eventually: Eventually) -> None:
    space = px.Space()
    futures: list[Future[Any]] = [threads.submit(space.in_, "never"), threads.submit(space.rd, "never")]
    eventually(waits(space, 1, 1))
    future = space.in_future("never")
    space.close()
    space.close()
    for waiting in [*futures, future]:
        with pytest.raises(px.SpaceError, match="closed"):
            waiting.result(timeout=30)
    for operation in (space.out, space.inp, space.in_, space.count):
        with pytest.raises(px.SpaceError, match="closed"):
            operation("x")


def _in_a_fork(space: px.Space, answers: Any) -> None:
    try:
        space.out("from the child")
    except px.SpaceError as error:
        answers.put(str(error))
    with px.Space() as own:
        own.out("x")
        answers.put(own.inp("x"))


def test_a_space_belongs_to_the_process_that_made_it(space: px.Space) -> None:
    context = get_context("fork")
    answers = context.Queue()
    child = context.Process(target=_in_a_fork, args=(space, answers))
    child.start()
    assert "belongs to the process" in answers.get(timeout=30)
    assert answers.get(timeout=30) == ("x",)
    child.join(30)
    assert child.exitcode == 0
    answers.close()
    answers.join_thread()
    assert space.rdp(px.ANY) is None


def test_selectors(space: px.Space) -> None:
    for number, weight in enumerate([1, 5, 3, 5]):
        space.out("job", number, priority=weight, label="odd" if number % 2 else "even", key=number)
    assert space.rdp("job", int, select=px.fifo) == ("job", 0)
    assert space.rdp("job", int, select=px.lifo) == ("job", 3)
    assert space.rdp("job", int, select=px.priority) == ("job", 1)
    assert space.rdp("job", int, select=px.key(2)) == ("job", 2)
    assert space.rdp("job", int, select=px.key("2")) is None
    assert space.rdp("job", int, select=(px.label("even"), px.priority)) == ("job", 2)
    assert space.in_("job", int, select=[px.label("odd"), px.lifo]) == ("job", 3)
    assert space.count("job", int) == 3
    with pytest.raises(px.SpaceError, match="key"):
        space.out("another", key=2)
    assert space.inp("job", int, select=px.key(2)) == ("job", 2)
    space.out("another", key=2)
    with pytest.raises(px.SpaceError, match="two orders"):
        space.inp("job", int, select=(px.fifo, px.lifo))


def test_the_order_of_a_space() -> None:
    orders: list[tuple[Order, list[int]]] = [("fifo", [0, 1, 2]), ("lifo", [2, 1, 0]), ("priority", [1, 0, 2])]
    for order, expected in orders:
        with px.Space(order=order) as space:
            for number in range(3):
                space.out(number, priority=10 if number == 1 else 0)
            assert [space.in_(int)[0] for _ in range(3)] == expected
    with pytest.raises(px.SpaceError, match="no order"):
        px.Space(order="random")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no option"):
        px.Space(colour="red")  # type: ignore[call-arg]
    with pytest.raises(px.SpaceError, match=r"placement is .* not 'locl'"):
        px.Space(placement="locl")


def test_queries(space: px.Space) -> None:
    space.out_many([("n", number) for number in (-1, 0, 3, 2**70)] + [("n", 2.5), ("n", "3"), ("n", True)])
    space.out_many([("s", text) for text in ("alpha", "beta", "alphabet")])
    space.out("t", (1, [2, "x"]))

    def found(*template: Any, **options: Any) -> list[Any]:
        return sorted((fields[1] for fields in space.rd_all(*template, **options)), key=repr)

    assert found("n", px.where() > 2) == sorted([3, 2**70, 2.5], key=repr)
    assert found("n", (px.where() > 2) & (px.where() < 3)) == [2.5]
    assert found("n", px.where().between(0, 3)) == sorted([0, 3, 2.5], key=repr)
    assert found("n", (px.where() < 0) | (px.where() == "3")) == sorted([-1, "3"], key=repr)
    assert found("n", ~(px.where() != True)) == [True]  # noqa: E712
    assert found("n", px.where().in_([0, 2.5, "x"])) == sorted([0, 2.5], key=repr)
    assert found("s", px.where().starts_with("alpha")) == ["alpha", "alphabet"]
    assert found("s", px.where().contains("bet")) == ["alphabet", "beta"]
    assert found("s", str, where=px.where(1) >= "beta") == ["beta"]
    assert found("t", px.where(1, 0) == 2) == [(1, [2, "x"])]
    assert found("t", px.where(1).contains("x")) == [(1, [2, "x"])]
    assert found(str, px.ANY, where=px.where(0).in_(["t"])) == [(1, [2, "x"])]
    assert space.count("n", px.where() > 2) == 3


def test_queries_about_instances(space: px.Space) -> None:
    space.out("run", Run("a", 0.5))
    space.out("run", Run("b", 3.5))
    assert space.rdp("run", px.where("score") > 3) == ("run", Run("b", 3.5))
    assert space.rdp("run", Run, where=px.where(1, "name") == "a") == ("run", Run("a", 0.5))
    assert space.rdp("run", Run, where=px.where("name") == "a") == ("run", Run("a", 0.5))
    assert space.rdp("run", px.where("missing") > 3) is None


def test_a_leased_tuple_goes_when_its_time_is_over(space: px.Space, eventually: Eventually) -> None:
    assert space.out("stays") is None
    space.out("goes", lease=0.02)
    lease = space.out("renewed", lease=30)
    assert lease is not None
    eventually(lambda: space.info().tuples == 2)
    assert space.rdp("goes") is None
    assert lease.renew(0.02)
    eventually(lambda: space.info().tuples == 1)
    assert not lease.renew(5)
    with px.Space(lease=0.02) as short:
        short.out("goes")
        kept = short.out("kept", lease=60)
        assert kept is not None
        assert kept.renew(None)
        eventually(lambda: short.info().expired == 1)
        assert short.rdp("kept") == ("kept",)
    with pytest.raises(ValueError, match="lease="):
        space.out("x", lease=-1)


def test_the_thread_that_ends_leases_lives_only_while_there_are_some(eventually: Eventually) -> None:
    def threads() -> int:
        count = 0
        for task in Path("/proc/self/task").iterdir():
            with suppress(OSError):  # it ended meanwhile
                count += (task / "comm").read_text().startswith("phalanx-space")
        return count

    with px.Space() as space:
        space.out("x")
        assert threads() == 0
        lease = space.out("y", lease=3600)
        eventually(lambda: threads() == 1)
        assert lease is not None
        lease.renew(0.01)
        eventually(lambda: threads() == 0)
        space.out("y", lease=3600)
        eventually(lambda: threads() == 1)
    eventually(lambda: threads() == 0)


def test_info_counts(space: px.Space) -> None:
    for number in range(10):
        space.out("a", number)
    space.rdp("a", 3)
    space.inp("a", 4)
    told = space.info()
    assert (told.tuples, told.outs, told.reads, told.takes) == (9, 10, 1, 1)
    assert 0 < told.encoded_bytes < told.bytes
    (partition,) = [it for it in told.partitions if it.tuples]
    assert partition.tuples == 9
    assert told.options["most_tuples"] > 1_000_000


def test_a_space_travels_as_its_address(tmp_path: Path) -> None:
    with px.Space() as space:
        with pytest.raises(px.SpaceError, match="serve"):
            pickle.dumps(space)
        address = space.serve(f"unix:{tmp_path / 's'}")
        with pickle.loads(pickle.dumps(space)) as reached, pickle.loads(pickle.dumps(reached)) as again:
            assert address in repr(again)
            again.out("there", 1)
            assert space.in_("there", int, timeout=30) == ("there", 1)


def test_what_is_no_address_is_refused() -> None:
    with pytest.raises(px.PhalanxError):
        px.Space("nonsense without a name")


def test_many_waiting_takers_do_not_slow_others_down_or_starve(space: px.Space, threads: ThreadPoolExecutor) -> None:
    futures = [space.in_future("job", number) for number in range(1000)]
    for number in range(1000):
        space.out("job", number)
    assert [future.result(timeout=30)[1] for future in futures] == list(range(1000))
    assert space.info().tuples == 0


def test_too_many_waiters_are_refused() -> None:
    with px.Space(most_waiters=5) as space:
        futures = [space.in_future("never") for _ in range(5)]
        with pytest.raises(px.SpaceFullError):
            space.in_("never")
        assert futures[0].cancel()
        with pytest.raises(px.SpaceTimeoutError):
            space.in_("never", timeout=0.01)
