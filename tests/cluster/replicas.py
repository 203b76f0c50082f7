"""Members of a replicated space that are lost in every way, and clients on all sides that say what they were told."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from cluster.grid import PATIENCE, Grid
from cluster.linear import Operation
from cluster.spaces import Served, serve

from laboratory.lab import Host
from laboratory.processes import Process, until

PROGRAM = Path(__file__).with_name("history_program.py")
NAMES = ("one", "two", "three")


class Cuts:
    """Members, each on a host of its own, with a client beside it, and two clients on the desk."""

    def __init__(self, grid: Grid, names: Sequence[str] = NAMES) -> None:
        self.grid = grid
        self.members: dict[str, Served] = {name: serve(grid, name, "--directory", "kept") for name in names}
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

    def histories(self) -> dict[int, list[Operation]]:
        """The same of all sides, of each kind what could be told wrongly: a tuple on its way to a taker whose leader is
        gone is in the space again only in a moment, so that of a kind of which some are taken the answer that there was
        none says nothing."""
        kinds: dict[int, list[Operation]] = defaultdict(list)
        for side in self.clients:
            for kind, operation in self.told(side):
                if operation.found is not False or not kind % 2:
                    kinds[kind].append(operation)
        return kinds

    def progress(self, side: str, more: int) -> None:
        """Wait for so many more answers to clients there."""
        since = time.monotonic()

        def answered() -> bool:
            fresh = [it for _, it in self.told(side) if it.called > since and it.found is not None]
            return len(fresh) >= more

        until(answered, timeout=PATIENCE, what=f"answers to clients of {side}")

    def leaders(self) -> list[str]:
        """Who has said last that it leads."""
        said = {
            name: [line for line in member.process.stderr().splitlines() if "lead" in line]
            for name, member in self.members.items()
        }
        return [name for name, lines in said.items() if lines and " leads the space" in lines[-1]]

    def leader(self) -> str:
        """The one that leads, as soon as there is one."""
        return until(self.leaders, timeout=PATIENCE, what="a leader")[-1]

    def restart(self, name: str) -> None:
        """Serves again what a member that was killed keeps, at its address."""
        dead = self.members[name]
        self.members[name] = serve(self.grid, dead, "--directory", "kept")

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
    member.process.freeze()
    return member.process.thaw
