"""Transactions: together or not at all, over one space or several."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import phalanx as px
import pytest
from conftest import Eventually


@pytest.fixture
def spaces() -> Iterator[tuple[px.Space, px.Space]]:
    with px.Space() as one, px.Space() as other:
        yield one, other


def test_a_transaction_moves_a_tuple_or_does_nothing(spaces: tuple[px.Space, px.Space]) -> None:
    one, other = spaces
    one.out("account", 100)
    with px.Transaction(one, other) as transaction:
        _, amount = one.in_("account", int, transaction=transaction)
        other.out("account", amount, transaction=transaction)
        assert one.rdp("account", int) is None
        assert other.rdp("account", int) is None
        assert other.rdp("account", int, transaction=transaction) == ("account", 100)
    assert one.rdp("account", int) is None
    assert other.rdp("account", int) == ("account", 100)

    with suppress(ZeroDivisionError), px.Transaction(one, other) as transaction:
        other.in_("account", int, transaction=transaction)
        one.out_many([("account", 1), ("account", 2)], transaction=transaction)
        _ = 1 / 0
    assert one.count("account", int) == 0
    assert other.rdp("account", int) == ("account", 100)
    assert one.info().transactions == other.info().transactions == 0


def test_who_waits_is_woken_by_the_commit(spaces: tuple[px.Space, px.Space], eventually: Eventually) -> None:
    space, _ = spaces
    with ThreadPoolExecutor(1) as threads:
        taken = threads.submit(space.in_, "x", int, timeout=30)
        eventually(lambda: space.info().takers == 1)
        with px.Transaction(space) as transaction:
            space.out("x", 1, transaction=transaction)
            assert not taken.done()
        assert taken.result(timeout=30) == ("x", 1)


def test_a_transaction_ends_with_its_time(spaces: tuple[px.Space, px.Space], eventually: Eventually) -> None:
    space, other = spaces
    space.out("x")
    transaction = px.Transaction(space, other, timeout=0.05)
    assert space.inp("x", transaction=transaction) == ("x",)
    assert eventually(lambda: space.rdp("x")) == ("x",)
    eventually(lambda: other.info().transactions == 0)
    with pytest.raises(px.TransactionError):
        other.out("y", transaction=transaction)
    with pytest.raises(px.TransactionError):
        transaction.commit()
    with pytest.raises(px.TransactionError):
        space.inp("x", transaction=transaction)
    transaction.abort()


def test_a_transaction_is_used_where_it_was_begun_and_until_it_ends(spaces: tuple[px.Space, px.Space]) -> None:
    one, other = spaces
    with px.Transaction(one) as transaction:
        with pytest.raises(px.TransactionError, match="not over this space"):
            other.out("x", transaction=transaction)
        transaction.commit()
        with pytest.raises(px.TransactionError, match="has ended"):
            one.out("x", transaction=transaction)
        with pytest.raises(px.TransactionError, match="has ended"):
            transaction.commit()
    with pytest.raises(px.TransactionError, match="one space or several"):
        px.Transaction()
    other.close()
    with pytest.raises(px.SpaceError, match="closed"):
        px.Transaction(one, other)
    assert one.info().transactions == 0
