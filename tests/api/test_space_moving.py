"""Members of a spread space come and go, and each tuple is where it is looked for: none is lost, none there twice."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import phalanx as px
import pytest
from api.conftest import Servers
from phalanx.space import _moving
from phalanx.space._open import open_former

from laboratory.grid import PHALANX
from laboratory.processes import until


def placed(addresses: list[str], placement: str) -> dict[tuple[Any, ...], str]:
    """Where each tuple is; checks that no tuple is there twice, and that the space finds all of them there."""
    at: dict[tuple[Any, ...], str] = {}
    for address in addresses:
        with px.Space(address) as member:
            for fields in member.rd_all(str, int):
                assert fields not in at, f"{fields} is at {at[fields]} and at {address}"
                at[fields] = address
    with px.Space(addresses, placement=placement) as space:
        for fields in at:
            assert space.rdp(*fields) == fields
    return at


def fill(addresses: list[str], placement: str, count: int = 600, **options: Any) -> set[tuple[Any, ...]]:
    books = {(f"name{number}", number) for number in range(count)}
    with px.Space(addresses, placement=placement, **options) as space:
        space.out_many(sorted(books))
    return books


@pytest.mark.parametrize("durable", [False, True])
def test_members_join_and_leave(servers: Servers, durable: bool) -> None:
    one, two, three, four = (servers.start(name) for name in ("one", "two", "three", "four"))
    books = fill([one, two], "hash(0)", durable=durable)
    moved = px.move_tuples([one, two, three], placement="hash(0)")  # one joins
    assert 100 < moved < 300, "a third of them"
    assert set(placed([one, two, three], "hash(0)")) == books
    assert px.Space(three).info().options["durable"] is durable, "it is made like the others"
    px.move_tuples([three, four], placement="hash(0)")  # two leave, one joins
    assert set(placed([three, four], "hash(0)")) == books
    assert px.Space(one).info().tuples == px.Space(two).info().tuples == 0
    with pytest.raises(
        px.SpaceError, match=r"two/jobs was a member of a space that has moved to .*name these as former"
    ):
        px.move_tuples([two], placement="hash(1)")
    five = servers.start("five")
    px.move_tuples([five], placement="hash(1)", former=[one])  # which knows where the space is, and another placement
    assert set(placed([five], "hash(1)")) == books
    px.move_tuples([two, one], placement="hash(1)", former=[three, four, five])
    at = placed([one, two], "hash(1)")
    assert set(at) == books
    assert len(set(at.values())) == 2
    assert px.move_tuples([one, two], placement="hash(1)") == 0
    px.move_tuples([one], placement="local")
    with px.Space([one], placement="local") as space:
        assert set(space.rd_all(str, int)) == books


def test_programs_with_the_old_members_are_refused(servers: Servers) -> None:
    one, two, three = (servers.start(name) for name in ("one", "two", "three"))
    books = fill([one, two], "hash(0)")
    old = px.Space([one, two], placement="hash(0)")
    transaction = px.Transaction(old)
    taken = old.in_(str, int, transaction=transaction)
    waiting = old.in_future("never", int)
    with ThreadPoolExecutor(1) as threads:
        blocked = threads.submit(old.in_, "never", str)
        until(lambda: old.info().takers >= 2, timeout=30, what="those who wait")
        px.move_tuples([two, three], placement="hash(0)")
        for ended in (waiting, blocked):
            with pytest.raises(px.SpaceError, match="open the space again"):
                ended.result(timeout=60)
    with pytest.raises(px.SpaceError, match="open the space again"):
        old.out("new", 1)
    with pytest.raises(px.SpaceError):
        transaction.commit()
    old.close()
    for members in ([one, two], [one]):
        with pytest.raises(px.SpaceError, match="is a member of a space"):
            px.Space(members, placement="hash(0)")
    assert taken in books
    assert set(placed([two, three], "hash(0)")) == books, "what the open transaction took is back"
    with px.Space([one], placement="hash(1)", new_members=True) as reused:  # for something else
        reused.out("x", 1)
    assert set(placed([two, three], "hash(0)")) == books


def test_a_move_that_was_ended_keeps_others_out_until_it_is_made_again(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = one, two, _ = [servers.start(name) for name in ("one", "two", "three")]
    books = fill([one, two], "hash(0)")
    moves: list[int] = []
    move = _moving._Move._move

    def move_once(self: Any, name: str, batch: Any) -> int:
        if moves:
            raise px.SpaceError("power is gone")
        moves.append(move(self, name, batch))
        return moves[0]

    monkeypatch.setattr(_moving._Move, "_move", move_once)
    with pytest.raises(px.SpaceError, match=r"not all tuples were moved.* run this again.*power is gone"):
        px.move_tuples(addresses, placement="hash(0)")
    monkeypatch.undo()
    for members, anew in [
        ([one, two], False),
        (addresses, False),
        ([one, two], True),
        (addresses, True),
        ([one], True),
    ]:
        with pytest.raises(px.SpaceError, match=r"over unix:.*three/jobs, .*its tuples are being moved there now"):
            px.Space(members, placement="hash(0)", new_members=anew)
    px.move_tuples([one], placement="hash(0)")  # something else
    assert set(placed([one], "hash(0)")) == books
    px.move_tuples(addresses, placement="hash(0)")
    assert set(placed(addresses, "hash(0)")) == books


def test_a_member_that_is_lost_for_good_is_left_out(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = one, two, three = [servers.start(name) for name in ("one", "two", "three")]
    books = fill(addresses, "hash(0)")
    with px.Space(three) as lost:
        books -= set(lost.rd_all(str, int))
    servers.running["three"].kill()
    with pytest.raises(px.SpaceError, match="three/jobs is to leave, and cannot be reached"):
        px.move_tuples([one, two], placement="hash(0)")
    with monkeypatch.context() as patched:
        patched.setattr(_moving._Move, "_move_all", stop)
        with pytest.raises(px.SpaceError, match="power is gone"):
            px.move_tuples([one, two], placement="hash(1)", gone=[three])
    px.move_tuples([two], placement="hash(0)", gone=[three])
    assert set(placed([two], "hash(0)")) == books


def stop(*_: Any) -> int:
    raise px.SpaceError("power is gone")


class Unknown:
    """Nobody who moves it can open its pickle."""

    def __reduce__(self) -> tuple[Any, ...]:
        return open_me, ()


def open_me() -> Unknown:
    opened.append(1)
    return Unknown()


opened: list[int] = []


def test_tuples_of_every_kind_travel_as_they_are(servers: Servers) -> None:
    one, two = (servers.start(name) for name in ("one", "two"))
    key = px.SealingKey(context="moved")
    tuples: list[tuple[Any, ...]] = [
        ("x",),
        (None,),
        (7, (1, ("a", None)), [1.5, b"bytes"]),
        *(key.seal_fields((number, number, "secret"), matched=[1], hidden=[2]) for number in range(20)),
        *((f"long {number}", bytes(100_000)) for number in range(20)),
        tuple(range(1000)),
    ]
    with px.Space([one], placement="hash(0)", objects=True) as space:
        space.out_many(tuples)
        space.out("object", Unknown())
        space.out("labelled", 1, label="night", priority=7)
        space.out("leased", 1, lease=3600)
        space.out("soon", 1, lease=1e-6)
    assert px.move_tuples([two], placement="hash(0)", former=[one]) >= len(tuples)
    assert not opened, "a pickle was opened"
    with px.Space([two], placement="hash(0)", objects=True) as space:
        for number, fields in enumerate(tuples):
            assert space.in_(*fields, timeout=10) == fields
            if 3 <= number < 23:
                opened_again = key.open_fields(fields, matched=[1], hidden=[2])
                assert opened_again == (number - 3, number - 3, "secret")
        assert isinstance(space.in_("object", Unknown, timeout=10)[1], Unknown)
        assert space.count("soon", int) == 0
        assert space.rdp("labelled", int, select=px.label("night")) == ("labelled", 1)
        space.out("labelled", 2, priority=6)
        assert space.rdp("labelled", int, select=px.priority) == ("labelled", 1)
    leases = [lease for _, _, lease, *_ in px.Space(two).engine.browse(None)[0]]  # type: ignore[attr-defined]
    assert [lease for lease in leases if lease is not None] == [pytest.approx(3600, abs=600)]


def test_tuples_without_a_lease_have_none_where_others_get_one(servers: Servers) -> None:
    one, two = (servers.start(name) for name in ("one", "two"))
    px.Space(two, lease=3600).close()
    fill([one], "hash(0)", 10)
    px.move_tuples([two], placement="hash(0)", former=[one], lease=3600)
    items, _ = px.Space(two).engine.browse(None)  # type: ignore[attr-defined]
    assert len(items) == 10
    assert all(lease is None or lease > 1e8 for _, _, lease, *_ in items)


def test_tuples_on_their_way_are_waited_for(servers: Servers) -> None:
    one, two = (servers.start(name) for name in ("one", "two"))
    books = fill([one], "hash(0)", 20)
    taker = px.Space(one)
    future = taker.in_future(str, int)
    until(lambda: taker.info().unacknowledged == 1, timeout=30, what="a tuple on its way")
    with pytest.raises(px.SpaceError, match=f"on their way at {one}"):
        px.move_tuples([two], placement="hash(0)", former=[one], timeout=0.2)
    with ThreadPoolExecutor(1) as threads:
        moving = threads.submit(px.move_tuples, [two], placement="hash(0)", former=[one], timeout=60)
        until(lambda: taker.info().tuples == 0, timeout=30, what="the others")
        del future  # it goes back
        moving.result(timeout=60)
    taker.close()
    assert set(placed([two], "hash(0)")) == books


def test_two_moves_at_once_end_each_other_and_lose_nothing(servers: Servers) -> None:
    addresses = one, two, three = [servers.start(name) for name in ("one", "two", "three")]
    books = fill([one], "hash(0)", 2000)
    targets = [[one, two], [two, three], addresses]

    def move(members: list[str]) -> None:
        with contextlib.suppress(px.SpaceError):
            px.move_tuples(members, placement="hash(0)", former=[one])

    threads = [threading.Thread(target=move, args=(members,)) for members in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    px.move_tuples(addresses, placement="hash(0)")
    assert set(placed(addresses, "hash(0)")) == books


@pytest.mark.parametrize("durable", [False, True])
def test_a_move_that_is_killed_loses_nothing(servers: Servers, durable: bool) -> None:
    """At any moment: the next one goes on, and the books are exact."""
    addresses = [servers.start(name) for name in ("one", "two", "three", "four")]
    books = fill(addresses[:2], "hash(0)", 3000, durable=durable)
    chance, killed, lasting = random.Random(16), 0, 2.0
    for round_ in range(12):
        members = addresses[round_ % 2 :][: 2 + round_ % 2]
        command = [str(PHALANX), "space", "move", *members, "--placement", "hash(0)", "--former", addresses[0]]
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(lasting * chance.uniform(0.3, 1.0))
            lasting = time.monotonic() - began  # here, a whole move; much of it is Python's start
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
        if round_ % 3 == 2:
            told = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            assert told.returncode == 0, told.stderr
            assert Counter(placed(members, "hash(0)").keys()) == Counter(books)
            others = [address for address in addresses if address not in members]
            assert sum(px.Space(other).info().tuples for other in others if is_there(other)) == 0
    assert killed > 0


def test_a_member_that_is_killed_meanwhile_loses_nothing(servers: Servers) -> None:
    """One that is durable, and comes back: its transactions that were promised are ended as the other member says."""
    addresses = [servers.start(name) for name in ("one", "two", "three")]
    books = fill(addresses[:2], "hash(0)", 3000, durable=True)
    chance = random.Random(39)
    for members in (addresses, addresses[:2], addresses[1:]):
        with ThreadPoolExecutor(1) as threads:
            moving = threads.submit(px.move_tuples, members, placement="hash(0)")
            wait([moving], timeout=chance.random() / 5)
            servers.running["two"].kill()
            servers.start("two")
            with contextlib.suppress(px.SpaceError):
                moving.result(timeout=120)
        px.move_tuples(members, placement="hash(0)", former=addresses[:1])
        assert set(placed(members, "hash(0)")) == books


def is_there(address: str) -> bool:
    try:
        open_former(address, {}).close()
    except px.SpaceError:
        return False
    return True


def test_spaces_of_this_process_are_members_too() -> None:
    members = [px.Space() for _ in range(3)]
    with px.Space(members[:2], placement="hash(0)") as space:
        space.out_many((f"x{number}", number) for number in range(200))
    px.move_tuples(members, placement="hash(0)", former=members)
    with px.Space(members, placement="hash(0)") as space:
        assert all(space.rdp(f"x{number}", int) == (f"x{number}", number) for number in range(200))
        assert space.info().tuples == 200
        assert space.info().members[members[2].name].tuples > 20
    for member in members:
        member.close()


def test_what_cannot_be_moved_is_said(servers: Servers) -> None:
    one, two = (servers.start(name) for name in ("one", "two"))
    books = fill([one], "hash(0)", 10)
    for members, placement, former, words in [
        ([], "hash(0)", [], "has members"),
        ([one, one], "hash(0)", [], "each once"),
        ([one], "somewhere", [], "placement is"),
        ([two], "hash(0)", [], "none of the members is there: name a former one"),
        (["redis://localhost/0/x"], "hash(0)", [one], "has no card"),
        ([one], "hash(0)", ["redis://localhost/0/x"], "has no card"),
        ([one], "hash(0)", [two], "two/jobs is to leave, and cannot be reached"),
    ]:
        with pytest.raises(px.SpaceError, match=words):
            px.move_tuples(members, placement=placement, former=former)
    assert set(placed([one], "hash(0)")) == books, "nothing has happened"
    with pytest.raises(px.SpaceError, match=r"a tuple of 2 fields has not all that its place depends on"):
        px.move_tuples([one, two], placement="hash(2)")
    px.move_tuples([one], placement="hash(0)")
    assert set(placed([one], "hash(0)")) == books
