"""A grid that takes only machines with a cage, and executors that let tasks reach the grid only: with a real hub."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from api.hubs import PATIENCE, Site, site

from laboratory.processes import until

pytestmark = pytest.mark.timeout(300)
#: So that the executor of root serves one user, whatever the kernel keeps apart.
ALONE = {"PHALANX_ALLOW_ROOT": "1"}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Site]:
    with site(tmp_path) as found:
        yield found


def test_a_machine_whose_cage_keeps_too_little_apart_is_refused_and_hears_why(lab: Site) -> None:
    token = lab.up("--least-cage", "limits", "--cage", "limits", "--accept", "bob")
    refused = lab.start("ws7", "join", "--name", "ws7", "--cage", "none", "--accept", "bob", token, env=ALONE)
    until(
        lambda: "takes only machines with a cage that is at least limits" in refused.report(),
        timeout=PATIENCE,
        what="why",
    )
    assert "that of ws7 is none: " in refused.report()
    assert not lab.members()["ws7"]["is_here"]
    refused.kill()
    lab.start("ws7", "join", "--cage", "limits", "--accept", "bob", "lab", env=ALONE)
    lab.await_members(ws7=True)
    facts = lab.members()["ws7"]["facts"]
    assert (facts["cage"], "memory " in facts["limits"]) == ("limits", True)
    assert "cage limits" in lab.say("hub", "members")
    lab.kill("hub")
    lab.up("--cage", "none", "--accept", "bob")  # what was said is kept
    hub = lab.running["hub"]
    until(lambda: "at least limits" in hub.report(), timeout=PATIENCE, what="the hub's own executor that is refused")
    lab.kill("hub")
    lab.up("--least-cage", "none", "--cage", "none", "--accept", "bob")
    until(
        lambda: any(it["facts"].get("cage") == "none" and it["is_here"] for it in lab.members().values()),
        timeout=PATIENCE,
        what="the hub's own executor",
    )


def test_a_program_asks_for_a_cage_and_tasks_reach_the_grid_only(lab: Site) -> None:
    token = lab.up("--cage", "none", "--accept", "bob", "--interpreters", "1")
    lab.start(
        "ws7", "join", "--name", "ws7", "--cage", "limits", "--accept", "bob", "--network", "grid", token, env=ALONE
    )
    lab.say("bob", "join", "--name", "bob", lab.invite("--role", "user"))
    lab.await_members(ws7=True)
    (hub,) = {it["address"] for it in json.loads(lab.say("hub", "members", "--json")) if it["role"] == "hub"}
    with socket.create_server(("127.0.0.1", 0)) as closed:
        program = f"""
        import socket

        def reach(host, port):
            try:
                socket.create_connection((host, port)).close()
            except OSError as error:
                return type(error).__name__
            return "reached"

        with px.Manager("lab", needs=px.needs(cage="limits"), contract=px.ParDegree(1)) as manager:
            host, _, port = {hub!r}.rpartition(":")
            while manager.submit(reach, host, int(port)).result() != "reached":
                pass  # the executor asks the hub for the addresses of the grid when it starts
            (one,) = manager.summary().interpreters
            print(one.name, manager.submit(reach, "127.0.0.1", {closed.getsockname()[1]}).result())
        try:
            px.Manager("lab", needs=px.needs(cage="full"))
        except px.errors.RecruitError as error:
            print(error)
        """
        told = lab.python("bob", program)
    assert "ws7/1 PermissionError" in told
    assert "ws7 lacks a cage that is full (it is limits)" in told
