"""Transactions over several served spaces whose owner is killed while it commits: all of it happens, or nothing."""

from __future__ import annotations

import random
import signal
import socket
import time
from contextlib import ExitStack
from pathlib import Path

import phalanx as px
import pytest
from api.conftest import Script, Servers
from conftest import Eventually
from phalanx import _native
from phalanx.space import _serve

from laboratory import identities

PATIENCE = 60
#: Moves a tuple from one space to another, and is killed behind a step of the commit, together with other processes.
STEPS = """
    import os, signal, sys
    import phalanx as px
    from phalanx.space import _commit, _transaction

    step, one, other, *processes = sys.argv[1:]

    def killed_behind(function):
        def call(*args):
            done = function(*args)
            for process in [*map(int, processes), os.getpid()]:
                os.kill(process, signal.SIGKILL)
        return call

    if step == "promised":
        _transaction.promise = killed_behind(_transaction.promise)
    else:
        _commit._decide = killed_behind(_commit._decide)
    source, target = px.Space(one), px.Space(other)
    with px.Transaction(source, target) as transaction:
        target.out(*source.in_("token", int, transaction=transaction), transaction=transaction)
"""
#: Moves tuples to and fro until it is killed.
MOVES = """
    import sys
    import phalanx as px

    spaces = [px.Space(address) for address in sys.argv[1:]]
    print("moving", flush=True)
    for number in range(10**9):
        source, target = spaces[number % 2], spaces[1 - number % 2]
        with px.Transaction(*spaces) as transaction:
            if token := source.inp("token", int, transaction=transaction):
                target.out(*token, transaction=transaction)
"""


def settled(spaces: tuple[px.Space, px.Space]) -> bool:
    return all(space.info().transactions == 0 for space in spaces)


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize(("step", "expected"), [("promised", (1, 0)), ("decided", (0, 1))])
def test_who_is_killed_behind_a_step_leaves_all_or_nothing(
    servers: Servers, script: Script, eventually: Eventually, step: str, expected: tuple[int, int], durable: bool
) -> None:
    addresses = servers.start("one"), servers.start("other")
    with px.Space(addresses[0], durable=durable) as one, px.Space(addresses[1], durable=durable) as other:
        one.out("token", 1)
        owner = script(STEPS, step, *addresses)
        assert owner.wait(timeout=PATIENCE) == -signal.SIGKILL
        eventually(lambda: settled((one, other)), what="the end of the transaction")
        assert (one.count("token", int), other.count("token", int)) == expected


@pytest.mark.parametrize("first", ["one", "other"])
@pytest.mark.parametrize(("step", "expected"), [("promised", (1, 0)), ("decided", (0, 1))])
def test_servers_that_are_killed_too_ask_when_they_are_back(
    servers: Servers, script: Script, eventually: Eventually, step: str, expected: tuple[int, int], first: str
) -> None:
    addresses = servers.start("one"), servers.start("other")
    with px.Space(addresses[0], durable=True) as one, px.Space(addresses[1], durable=True):
        one.out("token", 1)
    pids = [str(servers.running[name].pid) for name in ("one", "other")]
    owner = script(STEPS, step, *addresses, *pids)
    for process in (owner, *servers.running.values()):
        assert process.wait(timeout=PATIENCE) == -signal.SIGKILL
    for name in (first, "other" if first == "one" else "one"):
        servers.start(name)
    with px.Space(addresses[0]) as one, px.Space(addresses[1]) as other:
        eventually(lambda: settled((one, other)), what="the end of the transaction")
        assert (one.count("token", int), other.count("token", int)) == expected


@pytest.mark.parametrize("durable", [False, True])
def test_who_is_killed_at_any_moment_loses_and_doubles_nothing(
    servers: Servers, script: Script, eventually: Eventually, durable: bool
) -> None:
    addresses = servers.start("one"), servers.start("other")
    moments = random.Random(5)
    with px.Space(addresses[0], durable=durable) as one, px.Space(addresses[1], durable=durable) as other:
        one.out("token", 1)
        for _ in range(10):
            owner = script(MOVES, *addresses)
            owner.line("moving", timeout=PATIENCE)
            time.sleep(moments.uniform(0, 0.05))
            owner.kill()
            eventually(lambda: settled((one, other)), what="the end of the transaction")
            assert one.count("token", int) + other.count("token", int) == 1


def test_servers_of_a_grid_ask_each_other_as_themselves_and_may_do_nothing_else(
    tmp_path: Path, links: px.Rules, eventually: Eventually
) -> None:
    authority = _native.create_grid()
    for role, name in (("user", "ada"), ("executor", "lab1"), ("executor", "lab2")):
        identities.write(tmp_path / f"{name}.pem", _native.issue_member(authority, role, name))
    with ExitStack() as opened:
        spaces, places = [], []
        for name in ("lab1", "lab2"):
            server = _serve.start("127.0.0.1:0", identity=tmp_path / f"{name}.pem", policy=links)
            opened.callback(server.close)
            places.append(server.address)
            space = px.Space(f"{server.address}/jobs", identity=tmp_path / "ada.pem", policy=links)
            spaces.append(opened.enter_context(space))
        one, other = spaces
        assert isinstance(one.engine, _native.RemoteSpace)
        owner = px.Space(f"{places[1]}/jobs", identity=tmp_path / "ada.pem", policy=links)
        for number, commits in ((1, True), (2, False)):
            one.engine.begin(number, 60, False)
            owner.engine.begin(number, 60, False)
            owner.engine.out((number,), None, None, None, None, number)
            owner.engine.prepare(number, one.engine.coordinator)
            if commits:
                one.engine.commit(number)
            else:
                one.engine.abort(number)
        assert other.info().transactions == 2
        owner.close()
        eventually(lambda: other.info().transactions == 0, what="the end of the transactions")
        assert sorted(other.rd_all(int)) == [(1,)]
        with pytest.raises(px.AccessError, match="nothing in the space jobs"):
            px.Space(f"{places[0]}/jobs", identity=tmp_path / "lab2.pem", policy=links)


def test_a_user_cannot_make_a_server_open_sockets_of_its_own_user(tmp_path: Path, links: px.Rules) -> None:
    authority = _native.create_grid()
    for role, name in (("user", "ada"), ("executor", "lab1")):
        identities.write(tmp_path / f"{name}.pem", _native.issue_member(authority, role, name))
    server = _serve.start(f"unix:{tmp_path / 's'}", identity=tmp_path / "lab1.pem", policy=links)
    with socket.socket(socket.AF_UNIX) as other, socket.create_server(("127.0.0.1", 0)) as network:
        other.bind(str(tmp_path / "other"))
        other.listen()
        other.setblocking(False)
        places = f"unix:{tmp_path / 'other'}", f"127.0.0.1:{network.getsockname()[1]}"
        with px.Space(f"{server.address}/jobs", identity=tmp_path / "ada.pem", policy=links) as space:
            for number, place in enumerate(places):
                space.engine.begin(number, 60, False)
                space.engine.prepare(number, ([place], "jobs", 1, False))
        network.settimeout(60)
        network.accept()[0].close()  # this one is asked, and the other one would have been before
        with pytest.raises(BlockingIOError):
            other.accept()
    server.close()
