"""One space over several members: every tuple once, wherever it is, and nobody is asked who need not be."""

from __future__ import annotations

import asyncio
import contextlib
import numbers
import threading
import typing
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import phalanx as px
import pytest
from api.conftest import Servers
from phalanx.space import _spread
from phalanx.space._placement import placement

from laboratory.processes import until

PLACEMENTS = ["owner", "local", "hash(0)", "hash(0,1)", "hash(1)"]


@pytest.fixture(params=["here", "served"])
def members(request: Any) -> Iterator[list[px.Space]]:
    """Spaces in this process, or reached through sockets as those of other processes are."""
    own = [px.Space() for _ in range(4)]
    members = own if request.param == "here" else [own[0], *(px.Space(member.serve()) for member in own[1:])]
    yield members
    for member in {*members, *own}:
        member.close()


@pytest.fixture(params=PLACEMENTS)
def space(request: Any, members: list[px.Space]) -> Iterator[px.Space]:
    with px.Space(members, placement=request.param) as space:
        yield space


def test_every_tuple_is_found_wherever_it_is(space: px.Space) -> None:
    space.out_many(("square", number, number**2) for number in range(100))
    assert space.count("square", int, int) == 100
    assert space.rdp("square", 7, int) == ("square", 7, 49)
    assert space.inp("square", 7, int) == ("square", 7, 49)
    assert space.inp("square", 7, int) is None
    assert {fields[1] for fields in space.rd_all("square", int, int)} == set(range(100)) - {7}
    assert len(space.in_all("square", int, int, where=px.where(1) >= 50)) == 50
    assert space.count("square", int, int) == 49


def test_pages_hold_everything_once(space: px.Space) -> None:
    space.out_many(("page", number) for number in range(5000))
    assert Counter(number for _, number in space.rd_all("page", int)) == Counter(range(5000))
    assert Counter(number for _, number in space.in_all("page", int)) == Counter(range(5000))


def test_takers_get_each_tuple_once(space: px.Space, eventually: Any) -> None:
    taken: list[int] = []

    def take() -> None:
        while (number := space.in_("job", int, str, timeout=30)[1]) >= 0:
            taken.append(number)

    with ThreadPoolExecutor(6) as pool:
        takers = [pool.submit(take) for _ in range(6)]
        for number in range(300):
            space.out("job", number, "now")
        eventually(lambda: len(taken) == 300)  # there is no order among members
        for _ in takers:
            space.out("job", -1, "over")
        for taker in takers:
            taker.result(30)
    assert Counter(taken) == Counter(range(300))
    assert space.info().tuples == 0
    assert space.info().takers == 0


def test_waiting_ends_everywhere(space: px.Space) -> None:
    with pytest.raises(px.SpaceTimeoutError):
        space.in_("nothing", int, timeout=0.05)
    waiting = space.in_future("later", int, int)
    assert waiting.cancel()
    space.out("later", 1, 1)
    assert space.info().takers == 0
    assert space.count("later", int, int) == 1
    assert space.in_future("later", int, int).result(10) == ("later", 1, 1)
    assert space.info().unacknowledged == 0
    assert space.count("later", int, int) == 0


def test_an_unread_future_takes_nothing(space: px.Space, eventually: Any) -> None:
    space.out("kept", 1)
    future = space.in_future("kept", int)
    del future
    eventually(lambda: space.count("kept", int) == 1)


def test_asyncio(space: px.Space) -> None:
    async def talk() -> tuple[Any, ...]:
        waiting = asyncio.ensure_future(space.ain("answer", int))
        await asyncio.sleep(0)
        await space.aout("answer", 42)
        assert await space.ardp("answer", 43) is None
        return await asyncio.wait_for(waiting, 10)

    assert asyncio.run(talk()) == ("answer", 42)


def test_transactions_over_members(space: px.Space) -> None:
    space.out_many(("account", number, 10) for number in range(8))
    with px.Transaction(space) as transaction:
        for number in range(8):
            _, _, money = space.in_("account", number, int, transaction=transaction)
            space.out("account", number, money + 1, transaction=transaction)
        assert space.count("account", int, 10) == 0
    assert space.count("account", int, 11) == 8
    assert getattr(space.engine, "_transactions", None) == {}  # nothing is left of it
    transaction = px.Transaction(space)
    assert len(space.in_all("account", int, int, transaction=transaction)) == 8
    assert space.count("account", int, 11) == 0
    transaction.abort()
    assert space.count("account", int, 11) == 8


def test_events_of_all_members(space: px.Space) -> None:
    with space.notify("event", int) as events:
        space.out_many(("event", number) for number in range(20))
        seen = [events.next(10) for _ in range(20)]
    assert Counter(event.fields[1] for event in seen) == Counter(range(20))
    with space.notify("event", int, since=seen[9].sequence) as events:
        again = {events.next(10).fields[1] for _ in range(10)}
        assert again == {event.fields[1] for event in seen[10:]}
        with pytest.raises(px.SpaceTimeoutError):
            events.next(0)


def test_a_template_with_the_placing_fields_goes_to_one_member(members: list[px.Space]) -> None:
    space = px.Space(members, placement="hash(1)")
    space.out_many(("hash", str(number), number) for number in range(400))
    assert all(member.info().tuples > 50 for member in members)
    before = space.info()
    for number in range(400):
        assert space.rdp("hash", str(number), int) is not None
    after = space.info()
    assert after.visits - before.visits == after.requests - before.requests == 400


def test_numbers_and_any_type_in_a_placing_field_are_looked_for_everywhere(members: list[px.Space]) -> None:
    space = px.Space(members, placement="hash(1)")
    space.out_many(("number", number) for number in range(40))
    for formal in (numbers.Real, typing.Any, object):
        assert space.count("number", formal) == 40


def test_experience_says_who_is_asked_first(members: list[px.Space]) -> None:
    space = px.Space(members, placement="owner")
    for number in range(200):
        members[2].out("found", number)
        assert space.inp("found", int) == ("found", number)
    told = space.info()
    assert told.visits < 1.2 * told.requests


def test_everybody_finds_the_same_place(members: list[px.Space]) -> None:
    one, other = (px.Space(members, placement="hash(0,1)") for _ in range(2))
    for fields in [("a", 1), ("a", 1.0), ("a", "1"), ("a", (1, None)), ("a", b"1")]:
        one.out(*fields)
        before = other.info().visits
        assert other.inp(*fields) == fields
        assert other.info().visits == before + 1


def test_a_member_more_moves_few_tuples() -> None:
    from phalanx.space._placement import ByFields

    names = [f"machine{number}:7400/space" for number in range(10)]
    before, after = ByFields([0], names[:9], False), ByFields([0], names, False)
    moved = [number for number in range(2000) if before.member((number,)) != after.member((number,))]
    assert len(moved) < 400
    assert {after.member((number,)) for number in moved} == {9}


def test_what_makes_no_sense_is_said(members: list[px.Space], tmp_path: Path) -> None:
    with pytest.raises(px.SpaceError, match="placement is"):
        px.Space(members, placement="somewhere")
    with pytest.raises(px.SpaceError, match="twice"):
        px.Space([members[0], members[0]])
    space = px.Space(members, placement="hash(3)")
    with pytest.raises(px.SpaceError, match="depends on"):
        space.out("short")
    with pytest.raises(px.SpaceError, match="no tuple of 1 fields"):
        space.rdp(str)
    with pytest.raises(px.SpaceError, match="one member"):
        space.out(1, 2, 3, 4, key="key")


def test_threads_ask_at_once(members: list[px.Space]) -> None:
    """A taker that waits at all members is served by whichever gets the tuple, and takes nothing else."""
    space = px.Space(members, placement="owner")
    for round_ in range(100):
        threads = [threading.Thread(target=member.out, args=("race", round_)) for member in members]
        taken = space.in_future("race", round_)
        for thread in threads:
            thread.start()
        assert taken.result(10) == ("race", round_)
        for thread in threads:
            thread.join()
        assert space.count("race", round_) == len(members) - 1


def test_a_member_that_goes_and_comes_back(tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 's'}"
    with px.Space() as stays:
        goes = px.Space()
        served = goes.serve(address)
        space = px.Space([stays, served], placement="hash(0)")
        space.out_many((number,) for number in range(100))
        there = [number for (number,) in stays.rd_all(int)]
        gone = set(range(100)) - set(there)
        goes.close()
        assert space.rdp(int) in {(number,) for number in there}, "what is at others is found"
        with pytest.raises(px.SpaceError):
            space.rdp(min(gone))
        with px.Space() as again:
            again.serve(address)
            number = min(gone)

            def comes_back() -> bool:
                try:
                    space.out(number)
                except px.SpaceError:
                    return False
                return True

            assert until(comes_back, timeout=30, what="the member")
            assert space.inp(number) == (number,)
            assert again.count(int) == 0
            space.close()


def test_a_take_in_a_transaction_takes_one(members: list[px.Space]) -> None:
    space = px.Space(members, placement="owner")
    for number, member in enumerate(members):
        member.out("x", number)
    with px.Transaction(space) as transaction:
        assert space.in_("x", px.ANY, transaction=transaction, timeout=30)[0] == "x"
    assert sum(member.count("x", px.ANY) for member in members) == 3
    with px.Transaction(space) as transaction:
        assert space.inp("x", px.ANY, transaction=transaction) is not None
    assert sum(member.count("x", px.ANY) for member in members) == 2
    with px.Transaction(space) as transaction, pytest.raises(px.SpaceTimeoutError):
        space.in_("y", px.ANY, transaction=transaction, timeout=0.05)


def test_a_take_in_a_transaction_waits(members: list[px.Space]) -> None:
    space = px.Space(members, placement="owner")
    with ThreadPoolExecutor(1) as pool, px.Transaction(space) as transaction:
        waiting = pool.submit(space.in_, "later", int, transaction=transaction, timeout=30)
        members[2].out("later", 1)
        assert waiting.result(30) == ("later", 1)
    assert space.info().tuples == 0


def test_who_is_likely_and_away_does_not_hide_the_others(tmp_path: Path) -> None:
    with px.Space() as stays, px.Space() as goes:
        space = px.Space([stays, goes.serve(f"unix:{tmp_path / 's'}")], placement="owner")
        for number in range(50):
            goes.out("found", number)
            assert space.inp("found", int) == ("found", number)
        stays.out("found", 100)
        goes.close()
        assert space.inp("found", int) == ("found", 100)
        stays.out("found", 101)
        assert space.in_("found", int, timeout=30) == ("found", 101)
        stays.out("found", 102)
        read = space.rd_all("found", int)
        assert next(read) == ("found", 102)
        with pytest.raises(px.SpaceError):
            next(read)
        with pytest.raises(px.SpaceError):
            space.in_all("found", int)
        assert stays.count("found", int) == 1, "all or none"
        space.close()


def test_close_ends_who_waits_over_spaces_that_stay_open(members: list[px.Space]) -> None:
    space = px.Space(members)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(space.in_, "never", int)
        future = space.in_future("never", int)
        until(lambda: sum(member.info().takers for member in members) == 8, timeout=30, what="the takers")
        space.close()
        with pytest.raises(px.SpaceError):
            waiting.result(10)
        with pytest.raises(px.SpaceError):
            future.result(10)
    until(lambda: not any(member.info().takers for member in members), timeout=30, what="their end")


def test_events_go_on_behind_members_that_were_quiet(members: list[px.Space]) -> None:
    for member in members:
        member.out_many([("before", number) for number in range(5)])
        member.notify("before", int).close()
        member.out_many([("before", number) for number in range(5)])
    space = px.Space(members, placement="owner")
    with space.notify("event", int) as events:
        members[1].out("event", 1)
        first = events.next(10)
    members[2].out("event", 2)
    with space.notify("event", int, since=first.sequence) as events:
        assert events.next(10).fields == ("event", 2)


def test_a_part_that_does_not_commit_does_not_stop_the_others() -> None:
    from phalanx.space._commit import commit_all

    committed: list[int] = []
    tries = iter([KeyboardInterrupt(), None, px.SpaceError("away"), px.SpaceError("away"), None])

    def commit(part: int) -> None:
        error = next(tries, None)
        if error is not None:
            raise error
        committed.append(part)

    with pytest.raises(KeyboardInterrupt):
        commit_all([lambda: commit(1), lambda: commit(2), lambda: commit(3)])
    assert committed == [1, 2, 3]


def test_a_frozen_member_holds_up_who_asks_no_longer_than_he_said(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_spread, "ANSWER", 3.0)
    addresses = [servers.start(name) for name in ("one", "other")]
    with px.Space(addresses, placement="hash(0)") as space:
        space.out("x", 1)
        at = next(name for name in ("one", "other") if px.Space(servers.address(name)).count(str, int) == 0)
        servers.freeze(at)
        assert space.rdp(str, int) == ("x", 1)
        # Each of these would wait until the member goes on.
        with pytest.raises(px.SpaceTimeoutError):
            space.in_(str, str, timeout=0.2)
        with pytest.raises(px.SpaceLostError, match=f"no answer came .* from {servers.address(at)}"):
            space.rdp(str, str)
        servers.thaw(at)
        monkeypatch.undo()
        assert space.in_(str, int) == ("x", 1)
        assert space.rdp(str, str) is None


def test_a_frozen_member_that_is_asked_alone_holds_up_nobody_longer(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A template that names the placing field goes to one member. Without a bound each of these would wait for two
    minutes, and then say that the server was silent."""
    monkeypatch.setattr(_spread, "ANSWER", 2.0)
    addresses = [servers.start(name) for name in ("one", "other")]
    with px.Space(addresses, placement="hash(0)") as space:
        space.out("x", 1)
        at = next(name for name in ("one", "other") if px.Space(servers.address(name)).count(str, int) == 1)
        servers.freeze(at)
        for ask in (space.in_, space.rd):
            with pytest.raises(px.SpaceTimeoutError):
                ask("x", int, timeout=0.2)
        for look in (space.inp, space.rdp, partial(space.in_, timeout=0), partial(space.rd, timeout=0)):
            with pytest.raises(px.SpaceLostError, match="no answer came in time from unix:"):
                look("x", int)
        servers.thaw(at)
        monkeypatch.undo()
        assert space.in_("x", int, timeout=60) == ("x", 1), "what was given up took nothing"
        assert space.rdp("x", int) is None
        assert space.info().unacknowledged == 0


def test_a_frozen_member_holds_up_no_transaction_longer(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it may take in a transaction when it goes on comes back, since the transaction cannot commit: long before
    the transaction's own timeout, which is 60 s."""
    monkeypatch.setattr(_spread, "ANSWER", 2.0)
    addresses = [servers.start(name) for name in ("one", "other")]
    with px.Space(addresses, placement="hash(0)") as space:
        space.out("x", 1)
        at = next(name for name in ("one", "other") if px.Space(servers.address(name)).count(str, int) == 1)
        begun = [px.Transaction(space) for _ in range(3)]
        for transaction in begun:
            assert space.rdp("x", int, transaction=transaction) == ("x", 1)
        servers.freeze(at)
        with pytest.raises(px.SpaceTimeoutError):
            space.in_("x", int, timeout=0.2, transaction=begun[0])
        with pytest.raises(px.SpaceLostError, match="no answer came"):
            space.inp("x", int, transaction=begun[1])
        with pytest.raises(px.SpaceLostError, match="no answer came"):
            space.inp(str, int, transaction=begun[2])
        with pytest.raises(px.SpaceLostError, match="no answer came"), px.Transaction(space) as later:
            space.inp("x", int, transaction=later)
        for transaction in begun[:2]:
            with pytest.raises(px.TransactionError, match="can only be aborted"):
                transaction.commit()
        servers.thaw(at)
        with pytest.raises(px.TransactionError, match="can only be aborted"):
            begun[2].commit()
        monkeypatch.undo()
        assert space.in_("x", int, timeout=30) == ("x", 1)
        assert space.rdp("x", int) is None


def test_a_frozen_member_holds_up_nobody_who_looks_at_all(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_spread, "ANSWER", 2.0)
    addresses = [servers.start(name) for name in ("one", "other")]
    with px.Space(addresses, placement="hash(0)") as space:
        space.out_many((name, 1) for name in ("a", "b", "c", "d", "e", "f", "g", "h"))
        servers.freeze("one")
        with pytest.raises(px.SpaceLostError, match="no answer came"):
            space.count(str, int)
        for look in (space.rd_all, space.in_all):
            with pytest.raises(px.SpaceError, match=f"{servers.address('one')} was away"):
                list(look(str, int))

        async def look_beside() -> None:
            with pytest.raises(px.SpaceTimeoutError):
                await space.ain(str, str, timeout=0.2)
            with pytest.raises(px.SpaceLostError, match="no answer came"):
                await space.ardp(str, str)

        asyncio.run(look_beside())
        with pytest.raises(px.SpaceTimeoutError):
            space.in_future(str, str, timeout=0.2).result(60)
        servers.thaw("one")
        monkeypatch.undo()
        assert len(space.in_all(str, int)) == 8, "what was given up took nothing"
        assert space.info().unacknowledged == 0


def test_a_frozen_member_that_is_the_likeliest_does_not_hide_the_others(servers: Servers) -> None:
    addresses = one, other = [servers.start(name) for name in ("one", "other")]
    with px.Space(addresses, placement="local") as space, px.Space(one) as likely, px.Space(other) as beside:
        for number in range(20):
            likely.out("found", number)
            assert space.inp("found", int) == ("found", number)
        beside.out_many([("found", 100 + number) for number in range(3)])
        servers.freeze("one")
        assert space.inp("found", int) in {("found", 100 + number) for number in range(3)}
        assert space.in_("found", int, timeout=0.5) in {("found", 100 + number) for number in range(3)}
        assert space.rd("found", int, timeout=60) in {("found", 100 + number) for number in range(3)}
        servers.thaw("one")
        assert space.in_("found", int, timeout=60)[1] >= 100
        assert space.rdp("found", int) is None


def test_a_frozen_server_lets_go_of_who_has_waited_long_enough(servers: Servers) -> None:
    with px.Space(servers.start("one")) as space:
        space.out("x", 1)
        servers.freeze("one")
        with pytest.raises(px.SpaceTimeoutError):
            space.in_("x", int, timeout=0.1)
        servers.thaw("one")
        assert space.in_("x", int, timeout=60) == ("x", 1), "what was given up took nothing"


class Late:
    """A member that answers when it is not waited for any more."""

    def __init__(self) -> None:
        self.settled: list[bool] = []

    def begin_wait(self, *request: Any) -> int:
        self.done = request[-1]
        return 1

    def cancel(self, request: int) -> bool:
        self.done(("x", 1))
        return False

    def settle(self, request: int, kept: bool) -> None:
        self.settled.append(kept)


def test_what_a_late_member_gives_is_ours_or_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_spread, "ANSWER", 0.05)
    members: Any = [Late(), Late()]
    engine = _spread.Spread(members, ["one", "other"], placement("owner", ["one", "other"], 0, None, False))
    assert engine.get((str, int), True, (), None, None) == ("x", 1)
    assert [member.settled for member in members] == [[True], [False]]


def test_who_names_other_members_is_refused_where_tuples_may_be_anywhere(servers: Servers) -> None:
    one, two, three = (servers.start(name) for name in ("one", "two", "three"))
    with px.Space() as own, px.Space([one, two], placement="local") as space:
        space.out("x", 1)
        wrong: list[list[str | px.Space]] = [[one, three], [one, two, three], [two], [own, one], [own, one, two, three]]
        for members in wrong:
            with pytest.raises(px.SpaceError, match=r"with placement anywhere over .* would not be found"):
                px.Space(members, placement="local")
        with px.Space([two, one], placement="local") as same:
            assert same.inp("x", int) == ("x", 1)
        with px.Space([own, one, two], placement="owner") as beside:
            beside.out("mine", 1)
            space.out("ours", 1)
            assert [beside.inp(str, int) for _ in range(2)] == [("mine", 1), ("ours", 1)]
            px.move_tuples([two], placement="local")
            with pytest.raises(px.SpaceError, match="open the space again"):
                beside.rdp(str, int)


def test_who_names_other_members_or_another_placement_is_refused(servers: Servers) -> None:
    one, two, three = (servers.start(name) for name in ("one", "two", "three"))
    with px.Space([one, two], placement="hash(0)") as space:
        space.out_many((f"x{number}", number) for number in range(50))
        with px.Space([two, one], placement="hash( 0 )") as same:
            assert same.count(str, int) == 50
        for members, placement in [
            ([one, two], "hash(1)"),
            ([one, two], "hash(0,1)"),
            ([one, two], "local"),
            ([one], "hash(0)"),
            ([one, two, three], "hash(0)"),
            ([one, three], "hash(0)"),
        ]:
            with pytest.raises(px.SpaceError, match=r"is a member of a space with placement hash\(0\) over unix:"):
                px.Space(members, placement=placement)
        assert px.Space(two).info().tuples + px.Space(one).info().tuples == 50
    with px.Space([three], placement="hash(1)") as apart:
        apart.out("a", 1)
        assert apart.rdp(str, 1) == ("a", 1)
    with pytest.raises(px.SpaceError, match="is for a space that is spread"):
        px.Space(one, new_members=True)


def test_new_members_are_told_to_all_who_go_by_the_old_ones(servers: Servers, eventually: Any) -> None:
    one, two, three = (servers.start(name) for name in ("one", "two", "three"))
    old = px.Space([one, two], placement="hash(0)")
    old.out_many((f"x{number}", number) for number in range(50))
    waiting = old.in_future(str, str)
    with ThreadPoolExecutor(1) as threads, px.Space([one, three], placement="hash(0)", new_members=True) as new:
        with pytest.raises(px.SpaceError, match="open the space again"):
            old.out_many([(f"y{number}", number) for number in range(50)])
        with pytest.raises(px.SpaceError, match="open the space again"):
            waiting.result(timeout=60)
        with px.Space(two) as former, px.Space(one) as kept:
            for member in (former, kept):
                for fields in member.in_all(str, int):
                    new.out(*fields)
            assert former.info().tuples == 0
        moved = threads.submit(lambda: [new.rdp(f"x{number}", int) for number in range(50)]).result(timeout=60)
        assert moved == [(f"x{number}", number) for number in range(50)]
    with px.Space([two], placement="hash(1)"):
        pass  # it is a member of nothing else any more
    old.close()


@pytest.mark.parametrize("durable", [False, True])
def test_a_member_that_was_away_goes_by_the_same(servers: Servers, durable: bool) -> None:
    addresses = one, two = [servers.start(name) for name in ("one", "two")]
    with px.Space(addresses, placement="hash(0)", durable=durable) as space:
        servers.running["two"].kill()
        servers.start("two")
        for number in range(20):
            with contextlib.suppress(px.SpaceError):
                space.out(f"x{number}", number)  # a connection that has ended may be heard of by an out
        assert space.count(str, int) > 10
        with pytest.raises(px.SpaceError, match="is a member of a space with placement"):
            px.Space([two], placement="hash(1)")
        with pytest.raises(px.SpaceError, match="is a member of a space with placement"):
            px.Space([one], placement="hash(1)")
