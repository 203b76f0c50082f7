"""Ctrl-C at every line of what settles tuples, in turn: no tuple is lost, and nothing is left waiting."""

from __future__ import annotations

import gc
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import phalanx as px
import pytest
from conftest import Eventually
from phalanx.space import _uninterrupted

SOURCES = {
    str(Path(_uninterrupted.__file__).with_name(f"{name}.py"))
    for name in ("_spread", "_asking", "_futures", "_transaction", "_commit", "_forgotten")
}
Work = Callable[[px.Space], Any]


@pytest.fixture(params=["here", "served"])
def members(request: pytest.FixtureRequest, runtime_folder: Path) -> Iterator[list[px.Space]]:
    """Spaces in this process, or reached through sockets as those of other processes are."""
    own = [px.Space() for _ in range(3)]
    members = own if request.param == "here" else [own[0], *(px.Space(member.serve()) for member in own[1:])]
    yield members
    for member in {*members, *own}:
        member.close()


class Interrupted:
    """Does something, in which Ctrl-C is pressed at the line with this number. ``came``: whether there are so many;
    ``found``: what came back, unless Ctrl-C did."""

    def __init__(self, work: Callable[[], Any], line: int) -> None:
        self._left = line
        self.came = False
        self.at = ""
        self.found: Any = None
        try:
            sys.settrace(self._trace)
            self.found = work()
            sys.settrace(None)
            deadline = time.monotonic() + 10
            while self.came and time.monotonic() < deadline:
                time.sleep(0.001)
            assert not self.came, f"Ctrl-C was swallowed at {self.at}"
        except KeyboardInterrupt:
            self.came = True
        finally:
            sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        # What is raised where Python begins to throw an object away it swallows itself.
        if frame.f_code.co_filename not in SOURCES or frame.f_code.co_name in ("__del__", "end_later"):
            return None
        if event == "line":
            self._left -= 1
            if self._left == 0:
                self.came, self.at = True, f"{frame.f_code.co_filename}:{frame.f_lineno}"
                signal.raise_signal(signal.SIGINT)
        return self._trace


def take_now(space: px.Space) -> Any:
    return [space.inp("job", int)]


def take_soon(space: px.Space) -> Any:
    return [space.in_("job", int, timeout=10)]


def take_in_future(space: px.Space) -> Any:
    return [space.in_future("job", int).result(10)]


def take_all(space: px.Space) -> Any:
    return space.in_all("job", int)


def take_in_a_transaction(space: px.Space) -> Any:
    with px.Transaction(space) as transaction:
        return [space.in_("job", int, timeout=10, transaction=transaction)]


def give_up_a_future(space: px.Space) -> Any:
    future = space.in_future("job", int)
    return [] if future.cancel() else [future.result(10)]


def throw_a_future_away(space: px.Space) -> Any:
    space.in_future("job", int)
    return []


WORKS: list[Work] = [
    take_now, take_soon, take_in_future, take_all, take_in_a_transaction, give_up_a_future, throw_a_future_away
]  # fmt: skip


@pytest.fixture(autouse=True)
def _others_wait() -> Iterator[None]:
    """Who raises Ctrl-C later runs when the test sleeps, and has put the tuple where it looks for it."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(10)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(autouse=True)
def _only_new_garbage() -> Iterator[None]:
    """What other tests have made is not looked through again and again for what one of these leaves."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def everything_is_settled(space: px.Space, members: list[px.Space], taken: int) -> bool:
    gc.collect()
    if any(vars(space.engine)[name] for name in ("_waiting", "_askings", "_transactions")):
        return False
    infos = [member.info() for member in members]
    busy = sum(it.takers + it.readers + it.unacknowledged + it.transactions for it in infos)
    return busy == 0 and sum(it.tuples for it in infos) + taken == 1


@pytest.mark.parametrize("work", WORKS)
def test_no_tuple_is_lost(work: Work, members: list[px.Space], eventually: Eventually) -> None:
    lines = 0
    for line in count(1):
        members[line % 3].out("job", line)
        with px.Space(members) as space:
            done = Interrupted(partial(work, space), line)
            taken = len(done.found or [])
            settled = partial(everything_is_settled, space, members, taken)
            eventually(settled, what=f"the end of all after Ctrl-C at {done.at}")
        for member in members:
            member.in_all("job", int)
        if not done.came:
            break
        lines += 1
    assert lines > 20


def test_a_tuple_that_comes_while_one_waits_is_not_lost(members: list[px.Space], eventually: Eventually) -> None:
    for line in count(1):
        with px.Space(members) as space:
            later = threading.Timer(0.005, members[line % 3].out, ("job", line))
            later.start()
            done = Interrupted(partial(take_soon, space), line)
            later.join()
            taken = len(done.found or [])
            settled = partial(everything_is_settled, space, members, taken)
            eventually(settled, what=f"the end of all after Ctrl-C at {done.at}")
        for member in members:
            member.in_all("job", int)
        if not done.came:
            return


def test_of_many_tuples_all_are_put_or_none(members: list[px.Space], eventually: Eventually) -> None:
    for line in count(1):
        with px.Space(members, placement="hash(1)") as space:
            done = Interrupted(partial(space.out_many, [("n", it) for it in range(20)]), line)
            eventually(lambda: sum(member.info().transactions for member in members) == 0, what=done.at)
            assert sum(member.count("n", int) for member in members) in (0, 20)
        for member in members:
            member.in_all("n", int)
        if not done.came:
            return


def test_a_second_ctrl_c_is_raised_at_once() -> None:
    reached = []
    with pytest.raises(KeyboardInterrupt), _uninterrupted.Uninterrupted():  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        reached.append(1)
        signal.raise_signal(signal.SIGINT)
        reached.append(2)
    assert reached == [1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
