"""Replicated spaces whose members are cut off from each other, and what clients on all sides were told meanwhile."""

from __future__ import annotations

import json

import pytest
from cluster.grid import PATIENCE, PHALANX, Grid
from cluster.linear import Operation, is_linearizable
from cluster.replicas import NAMES, Cuts, Fault, freeze, silence, unplug
from cluster.spaces import serve

from laboratory.processes import until


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


@pytest.mark.parametrize("fault", [silence, unplug, freeze])
def test_what_all_were_told_while_members_were_lost_could_have_happened_in_one_order(grid: Grid, fault: Fault) -> None:
    cuts = Cuts(grid)
    cuts.lose(cuts.leader(), fault)
    cuts.lose(next(name for name in NAMES if name != cuts.leader()), fault)
    cuts.lose(cuts.leader(), fault)
    cuts.end()
    kinds = cuts.histories()
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
