"""What transactions have read: write skew with read committed, none with repeatable reads, in every kind of space."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import phalanx as px
import pytest
from api.conftest import Servers

PATIENCE = 60


@pytest.fixture(params=["one here", "two here", "one served", "two served", "spread"])
def pair(request: pytest.FixtureRequest, servers: Servers) -> Iterator[tuple[px.Space, px.Space]]:
    """The spaces of two tuples, which may be one space."""
    kind = request.param
    addresses = [servers.start(name) for name in "ab"] if kind in ("two served", "spread") else []
    if kind == "two served":
        one, other = px.Space(addresses[0]), px.Space(addresses[1])
    elif kind == "two here":
        one, other = px.Space(), px.Space()
    elif kind == "spread":
        one = other = px.Space(addresses, placement="hash(0)")
    else:
        one = other = px.Space(servers.start("a")) if kind == "one served" else px.Space()
    with one, other:
        yield one, other


def until_is(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def both_read_and_each_takes_one(pair: tuple[px.Space, px.Space], isolation: px.space.Isolation) -> list[bool]:
    """Whether the first one, and then the second one, has committed."""
    one, other = pair
    one.out("ada", "on call")
    other.out("bob", "on call")
    transactions = [px.Transaction(*{one, other}, isolation=isolation) for _ in pair]
    for transaction in transactions:
        assert one.rd("ada", str, transaction=transaction) == ("ada", "on call")
        assert other.rd("bob", str, transaction=transaction) == ("bob", "on call")
    assert one.inp("ada", str, transaction=transactions[0])
    assert other.inp("bob", str, transaction=transactions[1])
    committed = []
    for transaction in transactions:
        try:
            transaction.commit()
        except px.TransactionConflictError:
            committed.append(False)
        else:
            committed.append(True)
    assert one.info().transactions == other.info().transactions == 0
    return committed


def test_write_skew_is_possible_with_read_committed_only(pair: tuple[px.Space, px.Space]) -> None:
    assert both_read_and_each_takes_one(pair, "read committed") == [True, True]
    one, other = pair
    assert (one.rdp("ada", str), other.rdp("bob", str)) == (None, None)
    assert both_read_and_each_takes_one(pair, "repeatable read") == [False, True]
    assert (one.rdp("ada", str), other.rdp("bob", str)) == (("ada", "on call"), None)


def test_a_refused_transaction_has_done_nothing(pair: tuple[px.Space, px.Space]) -> None:
    one, other = pair
    one.out("read", 1)
    other.out("taken", 2)
    transaction = px.Transaction(*{one, other}, isolation="repeatable read")
    assert one.rd("read", int, transaction=transaction)
    assert other.in_("taken", int, transaction=transaction)
    other.out("put", 3, transaction=transaction)
    assert one.in_("read", int) == ("read", 1)  # somebody else
    with pytest.raises(px.TransactionConflictError, match="is not there any more: begin it again"):
        transaction.commit()
    assert other.rdp("taken", int) == ("taken", 2)
    assert other.rdp("put", int) is None
    assert one.info().transactions == other.info().transactions == 0


def test_of_many_at_once_one_stays(pair: tuple[px.Space, px.Space]) -> None:
    """Threads take a tuple only if they have read the other one too, and put it back: both are never gone."""
    one, other = pair
    places = {"ada": one, "bob": other}
    for name, space in places.items():
        space.out(name, "on call")
    gone: set[str] = set()
    both_gone: list[int] = []
    committed: list[int] = []

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(40):
            name = chance.choice(["ada", "bob"])
            away = None
            try:
                with px.Transaction(*{one, other}, isolation="repeatable read") as transaction:
                    there = [who for who in places if places[who].rdp(who, str, transaction=transaction)]
                    if len(there) == 2 and places[name].inp(name, str, transaction=transaction):
                        away = name
            except px.TransactionConflictError:
                continue
            if away:
                committed.append(seed)
                gone.add(away)
                if len(gone) == 2:
                    both_gone.append(seed)
                time.sleep(0.001)  # so that others could see it
                gone.remove(away)
                places[away].out(away, "on call")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads)
    assert committed
    assert not both_gone
    assert [one.count("ada", str), other.count("bob", str)] == [1, 1]


def test_who_counts_has_read(pair: tuple[px.Space, px.Space]) -> None:
    one, other = pair
    one.out("ada", "on call")
    other.out("bob", "on call")
    transaction = px.Transaction(*{one, other}, isolation="repeatable read")
    assert one.count("ada", str, transaction=transaction) == 1
    other.out("alone", transaction=transaction)
    assert one.in_("ada", str)  # somebody else
    with pytest.raises(px.TransactionConflictError):
        transaction.commit()
    assert other.rdp("alone") is None


def have_waiters(space: px.Space, threads: int) -> bool:
    """Whether so many threads wait at both members."""
    info = space.info()
    return info.takers + info.readers == 2 * threads


def test_who_waits_for_a_tuple_to_take_relies_on_no_other(servers: Servers) -> None:
    with px.Space([servers.start(name) for name in "ab"], placement="hash(0)") as space:
        transaction = px.Transaction(space, isolation="repeatable read")
        taken: list[object] = []
        for waiting, own in enumerate((None, transaction)):
            taking = partial(space.in_, str, 1, timeout=PATIENCE, transaction=own)
            thread = threading.Thread(target=lambda taking=taking: taken.append(taking()))
            thread.start()
            until_is(partial(have_waiters, space, waiting + 1))
        space.out("first", 1)  # both see it, and one of them gets it
        until_is(lambda: taken == [("first", 1)])
        space.out("second", 1)
        thread.join(PATIENCE)
        assert taken == [("first", 1), ("second", 1)]
        transaction.commit()


def test_an_unknown_isolation_is_refused() -> None:
    with (
        px.Space() as space,
        pytest.raises(ValueError, match="'serializable' is no isolation: write 'read committed', 'repeatable read'"),
    ):
        px.Transaction(space, isolation="serializable")  # type: ignore[arg-type]
