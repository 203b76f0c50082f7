"""A space at a real Redis server: the same operations and meanings as a space of our own, but for what it lacks."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import phalanx as px
import pytest
from api.conftest import Script
from conftest import Eventually
from numpy.typing import NDArray
from skips import require

from laboratory.redis_server import RedisServer, redis_server


@dataclass
class Task:
    name: str
    cost: int


@dataclass
class Urgent(Task):
    until: float


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    require("redis-server")
    with redis_server() as started:
        yield started


@pytest.fixture
def address(server: RedisServer) -> str:
    return f"{server.unix}/{uuid.uuid4().hex}"


@pytest.fixture
def space(address: str) -> Iterator[px.Space]:
    with px.Space(address) as opened:
        yield opened


def waiting(space: px.Space) -> int:
    info = space.info()
    return info.takers + info.readers


def test_values_come_back_as_they_went(space: px.Space) -> None:
    values: list[Any] = [None, True, False, 0, -1, 2**63 - 1, -(2**63), 2**200, 1.5, -0.0, "", "é\0", b"\xff\0",
                         (), (1, ("a", None)), [], [1, [2.5]], Urgent("a", 3, 1.0)]  # fmt: skip
    for value in values:
        space.out("value", value)
        found = space.in_("value", px.ANY)
        assert found == ("value", value)
        assert type(found[1]) is type(value)
    array = np.arange(12, dtype=">i2").reshape(3, 4)
    space.out(array)
    (found,) = space.in_(np.ndarray)
    assert found.dtype == array.dtype
    assert np.array_equal(found, array)
    space.out()
    assert space.in_() == ()


def test_equality_is_exact(space: px.Space) -> None:
    values: list[Any] = [1, 1.0, True, "1", b"1", float("nan"), -0.0, (1,), [1]]
    for value in values:
        space.out(value)
    for value in values:
        assert space.count(value) == 1, value
    others: list[Any] = [2, 0.0, False, None, (True,), [1.0]]
    for value in others:
        assert space.rdp(value) is None


def test_types_are_formals_in_any_position(space: px.Space) -> None:
    tuples: list[tuple[Any, ...]] = [
        ("a", 1), ("a", 2**70), ("a", True), ("a", 1.0), ("a", None), ("a", (1, "x")), ("a", [1]),
        ("a", np.zeros(3)), ("a", np.zeros((2, 2), int)), ("a", Task("t", 1)), ("a", Urgent("u", 2, 0.5)), ("a",),
    ]  # fmt: skip
    for fields in tuples:
        space.out(*fields)
    expected = {int: 2, bool: 1, float: 1, tuple: 1, list: 1, np.ndarray: 2, Task: 2, Urgent: 1, px.ANY: 11, str: 0}
    for formal, count in expected.items():
        assert space.count("a", formal) == count, formal
        assert space.count(str, formal) == count, formal
    assert space.count("a", int | float) == 3
    assert space.count("a", NDArray[np.float64]) == 1
    assert space.rdp("a", (int, str)) == ("a", (1, "x"))
    assert space.rdp("a", (int, "y")) is None
    assert space.rdp("a", (1, "x")) == ("a", (1, "x"))
    assert space.rdp("a", Urgent) == ("a", Urgent("u", 2, 0.5))


def test_a_space_is_a_multiset_from_which_each_tuple_is_taken_once(space: px.Space) -> None:
    for number in range(300):
        space.out("same", number % 3)
    taken: list[Any] = []

    def take() -> None:
        while found := space.inp("same", int):
            taken.append(found)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(taken) == sorted(("same", number % 3) for number in range(300))


def test_a_tuple_goes_to_all_readers_that_wait_and_to_one_taker(space: px.Space, eventually: Eventually) -> None:
    takers = [space.in_future("job", int) for _ in range(3)]
    readers = [space.rd_future("job", int) for _ in range(3)]
    elsewhere = space.in_future("other", int)
    eventually(lambda: waiting(space) == 7)
    space.out("job", 1)
    assert [reader.result(30) for reader in readers] == [("job", 1)] * 3
    eventually(lambda: sum(taker.done() for taker in takers) == 1)
    space.out_many([("job", 2), ("job", 3)])
    assert sorted(taker.result(30)[1] for taker in takers) == [1, 2, 3]
    assert not elsewhere.done()
    assert elsewhere.cancel()
    eventually(lambda: waiting(space) == 0)
    assert space.count("job", int) == 0


def test_who_waits_too_long_is_told_and_leaves_nothing(space: px.Space) -> None:
    with pytest.raises(px.SpaceTimeoutError):
        space.in_("never", timeout=0.05)
    assert waiting(space) == 0
    space.out("never")
    assert space.inp("never") == ("never",)


def test_a_taker_that_dies_takes_nothing_with_it(
    space: px.Space, address: str, script: Script, eventually: Eventually
) -> None:
    victim = script(
        """
        import sys
        import phalanx as px
        px.Space(sys.argv[1]).in_("job", int)
        """,
        address,
    )
    eventually(lambda: waiting(space) == 1, timeout=30)
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()
    space.out("job", 1)
    assert space.in_("job", int, timeout=30) == ("job", 1)


def test_asyncio_waits_too(space: px.Space, eventually: Eventually) -> None:
    async def both() -> tuple[Any, ...]:
        waiter = asyncio.create_task(space.ain("job", int))
        await asyncio.to_thread(eventually, lambda: waiting(space) == 1)
        await space.aout("job", 1)
        return await waiter

    assert asyncio.run(both()) == ("job", 1)


def test_selectors_choose_among_those_that_match(space: px.Space) -> None:
    for number in range(200):
        space.out("n", number, key=number, label="odd" if number % 2 else "even", priority=number % 7)
    assert space.rdp("n", int, select=px.fifo) == ("n", 0)
    assert space.rdp("n", int, select=px.lifo) == ("n", 199)
    assert space.rdp("n", int, select=px.priority) == ("n", 6)
    assert space.rdp("n", int, select=[px.label("odd"), px.lifo]) == ("n", 199)
    assert space.rdp("n", int, select=[px.label("even"), px.lifo]) == ("n", 198)
    assert space.inp("n", int, select=px.key(77)) == ("n", 77)
    assert space.inp("n", int, select=px.key(77)) is None
    with pytest.raises(px.SpaceError, match="key"):
        space.out("another", key=5)
    space.out("another", key=77)


def test_leases_end_and_can_be_renewed(space: px.Space, eventually: Eventually) -> None:
    short, long = space.out("short", lease=0.05), space.out("long", lease=0.05)
    assert short
    assert long
    assert long.renew(None)
    eventually(lambda: space.rdp("short") is None)
    assert not short.renew(1)
    assert space.rdp("long") == ("long",)
    assert space.info().expired == 1


def test_more_than_are_removed_at_once_are_gone_when_their_lease_has_ended(space: px.Space) -> None:
    space.out("n", -1, key="k", lease=0.05)
    space.out_many([("n", number) for number in range(1000)], lease=0.05)
    space.out_many([("m", number) for number in range(1000)], lease=0.05)
    space.out("n", 5, key="another", lease=0.05)
    time.sleep(0.06)
    assert space.rdp("n", int) is None
    assert space.inp("m", 999) is None
    assert space.count(px.ANY, px.ANY) == 0
    assert space.info().tuples == 0
    assert space.rdp("n", int, select=px.key("another")) is None
    space.out("n", 6, key="another")
    assert space.inp("n", int, select=px.key("another")) == ("n", 6)


def test_what_a_future_took_and_nobody_read_is_where_it_was(space: px.Space, eventually: Eventually) -> None:
    space.out("x", 1, key="k", label="l", priority=7, lease=600)
    space.out("x", 2)
    taken = space.in_future("x", int)
    eventually(taken.done)
    assert space.rdp("x", 1) is None
    del taken
    gc.collect()
    assert eventually(lambda: space.rdp("x", 1, select=[px.key("k"), px.label("l")])) == ("x", 1)
    assert [number for _, number in space.rd_all("x", int)] == [1, 2]
    assert space.inp("x", int, select=px.priority) == ("x", 1)
    assert space.info().takes == 1
    # Its key may be another one's by then.
    space.out("y", 1, key="k")
    taken = space.in_future("y", int)
    eventually(taken.done)
    space.out("y", 2, key="k")
    del taken
    gc.collect()
    eventually(lambda: space.count("y", int) == 2)
    assert space.rdp("y", int, select=px.key("k")) == ("y", 2)


def test_a_future_that_is_thrown_away_waits_no_longer(space: px.Space, eventually: Eventually) -> None:
    future = space.in_future("x")
    eventually(lambda: waiting(space) == 1)
    del future
    gc.collect()
    eventually(lambda: waiting(space) == 0)


def test_all_that_match_come_in_pages(space: px.Space) -> None:
    space.out_many([("n", number) for number in range(2500)])
    assert list(space.rd_all("n", int)) == [("n", number) for number in range(2500)]
    assert len(space.in_all("n", int)) == 2500
    assert space.in_all("n", int) == []
    assert space.info().tuples == space.info().encoded_bytes == 0


def test_a_template_with_a_value_looks_at_few_tuples(space: px.Space) -> None:
    space.out_many([("entry", f"key {number}", number) for number in range(2000)])
    assert space.rdp("entry", "key 1999", int) == ("entry", "key 1999", 1999)
    assert space.inp("entry", str, 1234) == ("entry", "key 1234", 1234)
    assert space.inp("entry", "no such key", int) is None
    assert space.info().looked_at == 0


def test_the_server_may_forget_its_script(space: px.Space, server: RedisServer) -> None:
    import redis

    with redis.Redis(unix_socket_path=str(server.socket)) as other:
        other.script_flush()
    space.out("still", 1)
    assert space.rdp("still", int) == ("still", 1)


def test_spaces_of_other_names_are_others(space: px.Space, server: RedisServer) -> None:
    space.out("here")
    with px.Space(f"{server.tcp}/other") as other:
        assert other.rdp("here") is None


def test_what_redis_lacks_is_said(space: px.Space) -> None:
    with pytest.raises(px.SpaceError, match="no queries"):
        space.rdp("n", px.where() > 3)
    with pytest.raises(px.SpaceError, match="no transactions"), px.Transaction(space):
        space.out("never")
    with pytest.raises(px.SpaceError, match="no watches"):
        space.notify("n")


@pytest.mark.parametrize("wrong", ["redis://", "redis://host", "redis://host:1/name", "redis://host:1/x/name"])
def test_an_address_that_is_none_is_shown_a_right_one(wrong: str) -> None:
    with pytest.raises(px.SpaceError, match="redis://HOST:PORT/DATABASE/NAME"):
        px.Space(wrong)


def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(px.SpaceError, match="name does not answer"):
        px.Space("redis://127.0.0.1:1/0/name")
