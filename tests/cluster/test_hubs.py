"""Three hubs in a lab: the one that leads loses its cable, or is frozen and goes on later."""

from __future__ import annotations

import json

import pytest

from laboratory.grid import PHALANX
from laboratory.hub import PATIENCE, HubGrid
from laboratory.lab import Host, Lab
from laboratory.processes import until

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def grid(lab: Lab) -> HubGrid:
    """Three hubs, an executor `left`, and a user at `desk`."""
    grid = HubGrid(lab.host("hub"))
    for name in ("hub2", "hub3"):
        grid.further(lab.host(name))
    grid.join(lab.host("left"), interpreters=1)
    return grid


def _here(host: Host) -> set[str]:
    """The executors that are here, as a user at `host` is told; none while no hub leads."""
    asked = host.run([PHALANX, "members", "--json"], check=False)
    found = json.loads(asked.stdout()) if asked.code == 0 and "no hub" not in asked.stderr() else []
    return {it["name"] for it in found if it["role"] == "executor" and it["is_here"]}


def test_the_leading_hub_loses_its_cable(grid: HubGrid, lab: Lab) -> None:
    desk = grid.user(lab.host("desk")).desk
    desk.run([PHALANX, "members"])
    token = grid.token(uses=2)
    leader = grid.leader(desk)
    leader.host.cable.silence()
    fresh = grid.begin_join(lab.host("fresh"), interpreters=1, token=token)
    fresh.process.line("joined the grid", timeout=PATIENCE)
    until(lambda: _here(desk) >= {"left", "fresh"}, timeout=PATIENCE, what="both executors at another hub")
    assert grid.leader(desk).host is not leader.host
    leader.host.cable.mend()
    until(lambda: len(grid.hubs_here(desk)) == 3, timeout=PATIENCE, what="three hubs")
    # The hub that was cut off knows what the others have decided meanwhile.
    late = grid.begin_join(lab.host("late"), interpreters=1, token=token)
    late.process.line("joined the grid", timeout=PATIENCE)
    assert _here(desk) >= {"left", "fresh"}


def test_a_hub_that_was_frozen_tells_nothing_stale(grid: HubGrid, lab: Lab) -> None:
    user = grid.user(lab.host("desk"))
    desk = user.desk
    desk.run([PHALANX, "members"])
    leader = grid.leader(desk)
    # The grid's owner is at the first hub's host. If that hub leads, its process is frozen, and not its machine.
    token = grid.token()
    leader.process.freeze()
    try:
        fresh = grid.begin_join(lab.host("fresh"), interpreters=1, token=token)
        fresh.process.line("joined the grid", timeout=PATIENCE)
        until(lambda: _here(desk) >= {"left", "fresh"}, timeout=PATIENCE, what="both executors at another hub")
        grid.expel("left")
        until(lambda: "left" not in _here(desk), timeout=PATIENCE, what="the expelled executor to be gone")
    finally:
        leader.process.thaw()
    # The address of the hub that was frozen comes first here, so that it is asked at once.
    for _ in range(20):
        assert _here(leader.host if leader.host is grid.host else desk).isdisjoint({"left"})
    thief = lab.host("thief").run([PHALANX, "join", "--name", "thief", "--no-start", token], check=False)
    assert "the token is not good here" in thief.stderr()
