"""How soon a member that is lost or expelled is noticed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from bench.grid.samples import Samples, Settings, figures, hub, program, two_networks
from laboratory.grid import PHALANX
from laboratory.hub import PATIENCE, HubGrid, User
from laboratory.lab import Host
from laboratory.namespaces import inside
from laboratory.processes import freeze, until


def lost(settings: Settings, samples: Samples) -> None:
    """Two relayed members work, and one of them is frozen, or its cable swallows everything."""
    for _ in range(settings.rounds):
        for how in ("frozen", "cut"):
            with two_networks() as (user, (left, right)):
                for host in (left, right):
                    user.grid.join(host, interpreters=1)
                _work(user, left)
                begun = time.time()
                if how == "cut":
                    left.cable.silence()
                for pid in left.pids() if how == "frozen" else ():
                    freeze(pid)
                again = until(lambda f=user.granted: _again(f), timeout=PATIENCE, what="a second firing")  # type: ignore[misc]
                samples.put(how, min(again) - begun)


def hubs(settings: Settings, samples: Samples) -> None:
    """The hub that leads is killed, or its cable swallows everything. At the same moment a machine joins, and a program
    asks for executors."""
    for _ in range(settings.rounds):
        for how in ("killed", "cut"):
            with hub() as grid:
                lab = grid.host.lab
                user = grid.user(lab.host("desk"))
                for name in ("hub2", "hub3"):
                    grid.further(lab.host(name))
                for name in ("left", "right"):
                    grid.join(lab.host(name), interpreters=1)
                token, fresh = grid.token(), lab.host("fresh")
                user.phalanx("members")  # from now on the user knows all hubs
                leader = grid.leader()
                begun = time.time()
                if how == "killed":
                    leader.process.kill()
                else:
                    leader.host.cable.silence()
                joined = grid.begin_join(fresh, interpreters=1, token=token)
                again = program(user, "again.py")
                joined.process.line("joined the grid", timeout=PATIENCE)
                samples.put(f"hub_{how}_join", time.time() - begun)
                (done,) = figures(again)
                samples.put(f"hub_{how}_recruit", done - begun)


def expelled(settings: Settings, samples: Samples) -> None:
    """A member that works is expelled: from typing the command to when it has no connection any more to the user, or to
    the hub."""
    for _ in range(settings.rounds):
        with hub() as grid:
            lab = grid.host.lab
            user, near = grid.user(lab.host("desk")), [lab.host("left"), lab.host("right")]
            _expel(grid, user, near, samples, "expelled_direct", 7400)
        with two_networks() as (user, hosts):
            _expel(user.grid, user, hosts, samples, "expelled_relayed", user.grid.port)


def _expel(grid: HubGrid, user: User, hosts: Sequence[Host], samples: Samples, name: str, port: int) -> None:
    for host in hosts:
        grid.join(host, interpreters=1)
    _work(user, hosts[0])
    assert _connections(hosts[0], port) > 0
    begun = time.time()
    grid.host.popen([PHALANX, "expel", "--yes", hosts[0].name])
    until(lambda: not _connections(hosts[0], port), timeout=PATIENCE, what="the end of all links")
    samples.put(name, time.time() - begun)


def _work(user: User, host: Host) -> None:
    """A farm of the user works, also at this host."""
    program(user, "farming.py", user.granted, 0.05)
    until(lambda: [*user.granted.glob(f"*-{host.name}")], timeout=PATIENCE, what=f"work at {host.name}")


def _again(folder: Path) -> list[float]:
    """When instructions were fired for the second time."""
    firings: dict[str, list[float]] = {}
    for path in folder.iterdir():
        firings.setdefault(path.name.split("-")[0], []).append(path.stat().st_mtime)
    return [max(times) for times in firings.values() if len(times) > 1]


def _connections(host: Host, port: int) -> int:
    """The established connections of a host to or from a port (proc(5), net/tcp: state 1)."""
    with inside(host.namespace):
        lines = Path("/proc/thread-self/net/tcp").read_text().splitlines()[1:]
    ends = [line.split() for line in lines]
    return sum(it[3] == "01" and f":{port:04X}" in (it[1][-5:], it[2][-5:]) for it in ends)
