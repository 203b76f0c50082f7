"""Replicated spaces whose members are cut off from each other, and what clients on all sides were told meanwhile."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster.grid import PATIENCE, PHALANX, Grid
from cluster.linear import Operation, is_linearizable
from cluster.spaces import Served, serve

from laboratory.lab import Host
from laboratory.processes import Process, until

PROGRAM = Path(__file__).with_name("history_program.py")
NAMES = ("one", "two", "three")


def test_the_search_sees_what_cannot_have_happened() -> None:
    def history(*operations: tuple[str, float, float, bool | None]) -> bool:
        return is_linearizable([Operation(*operation) for operation in operations])

    assert history(("out", 0, 1, True), ("rdp", 2, 3, True), ("inp", 4, 5, True), ("inp", 6, 7, False))
    assert not history(("out", 0, 1, True), ("inp", 2, 3, True), ("inp", 4, 5, True))
    assert not history(("out", 0, 1, True), ("rdp", 2, 3, False))
    assert not history(("out", 0, 1, True), ("inp", 2, 3, True), ("rdp", 4, 5, True))
    assert not history(("out", 2, 3, True), ("rdp", 0, 1, True))
    assert history(("out", 0, 9, True), ("rdp", 1, 2, False), ("rdp", 3, 4, True))
    assert not history(("out", 0, 9, True), ("rdp", 1, 2, True), ("rdp", 3, 4, False))
    assert history(("out", 0, 1, None), ("rdp", 2, 3, False), ("rdp", 4, 5, True))
    assert history(("out", 0, 1, True), ("inp", 2, 3, None), ("rdp", 4, 5, True), ("inp", 6, 7, False))


class Cuts:
    """Three members, each on a host of its own, with a client beside it, and two clients on the desk."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.members: dict[str, Served] = {name: serve(grid, name, "--directory", "kept") for name in NAMES}
        self.addresses = [f"{member.host.address}:{member.port}" for member in self.members.values()]
        self.identity = str(grid.issue("ada", role="user"))
        self.clients: dict[str, list[Process]] = {"desk": [self.client(grid.desk)]}
        self.progress("desk", 1)  # the space is there
        self.clients["desk"].append(self.client(grid.desk))
        for name, member in self.members.items():
            self.clients[name] = [self.client(member.host)]
            self.progress(name, 1)

    def client(self, host: Host) -> Process:
        options = json.dumps({"identity": self.identity})
        return host.popen([sys.executable, str(PROGRAM), json.dumps(self.addresses), options], env=self.grid.env)

    def told(self, side: str) -> list[tuple[int, Operation]]:
        """What clients there were told so far, by the kind of tuple."""
        lines = [json.loads(line) for client in self.clients[side] for line in client.lines() if line.endswith("]")]
        return [(kind, Operation(*operation)) for kind, *operation in lines]

    def progress(self, side: str, more: int) -> None:
        """Wait for so many more answers to clients there."""
        since = time.monotonic()

        def answered() -> bool:
            fresh = [it for _, it in self.told(side) if it.called > since and it.found is not None]
            return len(fresh) >= more

        until(answered, timeout=PATIENCE, what=f"answers to clients of {side}")

    def leader(self) -> str:
        def leading() -> list[str]:
            said = {
                name: [line for line in member.process.stderr().splitlines() if "lead" in line]
                for name, member in self.members.items()
            }
            return [name for name, lines in said.items() if lines and " leads the space" in lines[-1]]

        return until(leading, timeout=PATIENCE, what="a leader")[-1]

    def end(self) -> None:
        """All clients finish what they do: a tuple put by one that was killed would have been put by nobody."""
        clients = [client for side in self.clients.values() for client in side]
        for client in clients:
            client.signal(signal.SIGTERM)
        for client in clients:
            assert client.wait(timeout=PATIENCE) == 0, client.report()

    def lose(self, name: str, fault: Fault) -> None:
        """Loses one member for a while: the others go on, it says nothing, and when it is back all are answered."""
        heal = fault(self.members[name])
        began = time.monotonic()
        self.progress("desk", 200)
        ended = time.monotonic()
        heal()
        self.progress(name, 20)
        alone = [it for _, it in self.told(name) if it.called > began and it.answered < ended]
        # A client beside a member that is frozen has the network, and goes to the others.
        if fault is not freeze:
            assert [it for it in alone if it.found is not None] == [], f"{name} answered while it was cut off"


Fault = Callable[[Served], Callable[[], None]]


def silence(member: Served) -> Callable[[], None]:
    member.host.cable.silence()
    return member.host.cable.mend


def unplug(member: Served) -> Callable[[], None]:
    member.host.cable.cut()
    return member.host.cable.mend


def freeze(member: Served) -> Callable[[], None]:
    """Its machine keeps all connections open."""
    member.process.signal(signal.SIGSTOP)
    return lambda: member.process.signal(signal.SIGCONT)


@pytest.mark.parametrize("fault", [silence, unplug, freeze])
def test_what_all_were_told_while_members_were_lost_could_have_happened_in_one_order(grid: Grid, fault: Fault) -> None:
    cuts = Cuts(grid)
    cuts.lose(cuts.leader(), fault)
    cuts.lose(next(name for name in NAMES if name != cuts.leader()), fault)
    cuts.lose(cuts.leader(), fault)
    cuts.end()
    kinds: dict[int, list[Operation]] = defaultdict(list)
    for side in cuts.clients:
        for kind, operation in cuts.told(side):
            # A tuple on its way to a taker whose leader is gone is in the space again only in a moment: where tuples
            # are taken, that there was none says nothing.
            if operation.found is not False or not kind % 2:
                kinds[kind].append(operation)
    assert len(kinds) > 15
    assert sum(map(len, kinds.values())) > 600
    wrong = {kind: told for kind, told in kinds.items() if not is_linearizable(told)}
    assert wrong == {}

    def all_have_everything() -> bool:
        info = json.loads(grid.phalanx("space", "info", f"{cuts.addresses[0]}/jobs", "--json").stdout())
        assert info["term"] > 2
        return [member["behind"] for member in info["replicas"]] == [0, 0, 0]

    until(all_have_everything, timeout=PATIENCE, what="members that have everything")


def test_a_machine_that_died_is_replaced_by_another(grid: Grid) -> None:
    cuts = Cuts(grid)
    dead = next(name for name in NAMES if name != cuts.leader())
    silence(cuts.members[dead])
    new = serve(grid, "four", "--directory", "kept")
    gone, address = cuts.addresses[NAMES.index(dead)], f"{new.host.address}:{new.port}"
    space = f"{cuts.addresses[NAMES.index(cuts.leader())]}/jobs"
    changed = grid.phalanx("space", "members", space, "--remove", gone, "--add", address, "--json")
    members = {it["address"]: it for it in json.loads(changed.stdout())["members"]}
    assert set(members) == {*cuts.addresses, address} - {gone}
    assert members[address]["name"] == "four"
    # Now the new one is needed.
    leader = cuts.leader()
    cuts.members[leader].process.kill()
    cuts.progress("desk", 50)
    refused = grid.desk.run(
        [PHALANX, "space", "members", f"{address}/jobs", "--add", address], env=grid.env, check=False
    )
    assert refused.code == 1
