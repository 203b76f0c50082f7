"""Three hubs as processes of this machine: the one that leads is killed while members and machines that join come."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from api.hubs import PATIENCE, Site, site

from laboratory.processes import until

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Site]:
    """A grid with the hubs `hub`, `hub2` and `hub3`, whose owner is at `hub`, and a user bob elsewhere."""
    with site(tmp_path) as found:
        found.up()
        for member in ("hub2", "hub3"):
            token = found.say("hub", "invite", "--role", "hub").split()[3]
            found.start(member, "up", "--join", token, "--name", member, "--hub-only")
            until(lambda name=member: name in hubs(found, "hub"), timeout=PATIENCE, what=f"{member} to be a hub")  # type: ignore[misc]
        found.say("bob", "join", "--name", "bob", found.invite("--role", "user"))
        found.say("bob", "members")
        yield found


def hubs(lab: Site, member: str) -> dict[str, dict[str, Any]]:
    """The hubs that keep the state together, as a member is told."""
    found = json.loads(lab.say(member, "members", "--json"))
    return {it["name"]: it for it in found if it["role"] == "hub" and it["is_here"]}


def folder_of(lab: Site, name: str) -> str:
    """The folder of a hub: the first one is called as this machine."""
    return name if name in {"hub2", "hub3"} else "hub"


def leader(lab: Site, member: str = "bob") -> str:
    """The folder of the hub that leads."""
    (name,) = [name for name, it in hubs(lab, member).items() if it["facts"].get("leads") == "yes"]
    return folder_of(lab, name)


def executors(lab: Site, member: str = "bob") -> dict[str, dict[str, Any]]:
    return lab.members(member)


def here(lab: Site, name: str) -> bool:
    return bool(executors(lab).get(name, {}).get("is_here"))


def test_the_leading_hub_is_killed_while_machines_join(lab: Site) -> None:
    lab.join("ws7", lab.invite())
    lab.join("eve", lab.invite())
    lab.say("hub", "expel", "--yes", "eve")
    once, many = lab.invite(), lab.invite("--uses", "20")
    lab.say("used", "join", "--name", "used", "--no-start", once)
    killed = leader(lab)
    joined: list[str] = []

    def join(number: int) -> None:
        name = f"late{number}"
        lab.say(name, "join", "--name", name, "--no-start", many)
        joined.append(name)

    comers = [threading.Thread(target=join, args=(number,)) for number in range(6)]
    for comer in comers[:3]:
        comer.start()
    lab.kill(killed)
    for comer in comers[3:]:
        comer.start()
    for comer in comers:
        comer.join(PATIENCE)
    assert sorted(joined) == [f"late{number}" for number in range(6)]
    until(lambda: here(lab, "ws7"), timeout=PATIENCE, what="ws7 at another hub")
    found = executors(lab)
    assert {*joined, "ws7", "used"} <= set(found)
    assert "eve" not in found
    assert leader(lab) != killed
    assert "the token is not good here" in lab.error("thief", "join", "--name", "thief", "--no-start", once)
    program = """
    with px.Manager("lab", contract=px.ParDegree(1)) as manager:
        assert list(manager.map(abs, [-1, -2])) == [1, 2]
    """
    lab.python("bob", program)
    lab.start(killed, "up")
    until(lambda: len(hubs(lab, "bob")) == 3, timeout=PATIENCE, what="three hubs again")
    assert not here(lab, "eve")


def test_two_hubs_are_said_to_be_no_safer_than_one(lab: Site) -> None:
    gone = next(name for name in ("hub2", "hub3") if leader(lab) != name)
    lab.say(gone, "leave")
    until(lambda: len(hubs(lab, "bob")) == 2, timeout=PATIENCE, what="two hubs")
    assert "no safer than one" in lab.call("bob", "members").stderr
    assert lab.running[gone].wait(timeout=PATIENCE) == 1
    assert "this is no hub of the grid any more" in lab.running[gone].stderr()
    assert "help: phalanx help IdentityError" in lab.running[gone].stderr()


def test_the_executor_beside_a_further_hub_has_its_name(lab: Site) -> None:
    token = lab.say("hub", "invite", "--role", "hub").split()[3]
    lab.start("hub4", "up", "--join", token, "--name", "hub4", "--interpreters", "2", "--env", "PHALANX_TEST_RUN")
    until(lambda: here(lab, "hub4"), timeout=PATIENCE, what="the executor hub4")
    lab.kill("hub4")
    lab.start("hub4", "up")
    until(lambda: here(lab, "hub4"), timeout=PATIENCE, what="the executor hub4 again")


def test_a_program_that_starts_when_another_hub_leads_finds_the_executors(lab: Site) -> None:
    lab.join("ws7", lab.invite())
    program = """
    with px.Manager("lab", contract=px.ParDegree(1)) as manager:
        assert list(manager.map(abs, [-1, -2])) == [1, 2]
    """
    for _ in range(2):
        killed = leader(lab)
        lab.kill(killed)
        lab.python("bob", program)  # neither of them is tried twice
        until(lambda: len(hubs(lab, "bob")) == 2, timeout=PATIENCE, what="the killed hub to be shown as away")
        lab.start(killed, "up")
        until(lambda: len(hubs(lab, "bob")) == 3, timeout=PATIENCE, what="three hubs again")


def test_hubs_that_start_again_find_each_other_and_their_logs_say_nothing_frightening(lab: Site) -> None:
    for name in ("hub", "hub2", "hub3"):
        lab.kill(name)
    began = [lab.start(name, "up", "--hub-only") for name in ("hub2", "hub3")]  # hub2 finds no other hub, and waits
    until(lambda: len(hubs(lab, "bob")) == 2, timeout=PATIENCE, what="two hubs")
    began.append(lab.start("hub", "up", "--hub-only"))
    until(lambda: len(hubs(lab, "bob")) == 3, timeout=PATIENCE, what="three hubs")
    for process in began:
        assert "WARNING" not in process.stderr(), process.report()
    # Also where one that led takes itself for the leader at first.
    killed = leader(lab)
    lab.kill(killed)
    until(lambda: len(hubs(lab, "bob")) == 2, timeout=PATIENCE, what="another one to lead")
    again = lab.start(killed, "up", "--hub-only")
    until(lambda: len(hubs(lab, "bob")) == 3, timeout=PATIENCE, what="three hubs again")
    assert "WARNING" not in again.stderr(), again.report()


def test_a_hub_that_was_expelled_while_it_was_away_is_told_so(lab: Site) -> None:
    gone = next(name for name in ("hub2", "hub3") if leader(lab) != name)
    lab.kill(gone)
    until(lambda: len(hubs(lab, "bob")) == 2, timeout=PATIENCE, what="two hubs")
    lab.say("hub", "expel", "--yes", gone)
    refused = lab.error(gone, "up")
    assert "this is no hub of the grid any more: " in refused
    assert refused.splitlines()[-1] == "phalanx: help: phalanx help IdentityError"


def test_a_token_for_a_hub_is_for_nothing_else(lab: Site) -> None:
    token = lab.say("hub", "invite", "--role", "hub").split()[3]
    assert "phalanx up --join TOKEN" in lab.error("ws9", "join", token)
    assert "the token is for the role executor" in lab.error("ws9", "up", "--join", lab.invite())


def test_an_executor_that_starts_again_finds_the_other_hubs(lab: Site) -> None:
    lab.join("ws7", lab.invite())
    folder = lab.home("ws7") / "grids" / "lab"
    kept = folder / "hubs.txt"
    until(
        lambda: kept.exists() and len(kept.read_text().split()) >= 3, timeout=PATIENCE, what="the hubs of ws7's account"
    )
    lab.kill("ws7")
    told = json.loads((folder / "grid.json").read_text())
    first = {it["address"] for name, it in hubs(lab, "bob").items() if folder_of(lab, name) == "hub"}
    told["hubs"] = [*first]  # as if its token were older than the other hubs
    (folder / "grid.json").write_text(json.dumps(told))
    lab.kill("hub")
    until(lambda: not here(lab, "ws7"), timeout=PATIENCE, what="ws7 to be away")
    lab.join("ws7", "lab")
    until(lambda: here(lab, "ws7"), timeout=PATIENCE, what="ws7 at another hub")


def test_the_last_hub_knows_that_it_is_the_last(lab: Site) -> None:
    for name in ("hub2", "hub3"):
        assert len(hubs(lab, "hub")) >= 2  # so it has heard of others
        lab.say(name, "leave")
        until(lambda name=name: name not in hubs(lab, "bob"), timeout=PATIENCE, what=f"{name} to be gone")  # type: ignore[misc]
    assert "without it, nobody joins" in lab.error("hub", "leave")
    assert "end it first" in lab.error("hub", "leave", "--with-hub")


def test_the_first_hub_leaves_when_another_owner_stays(lab: Site) -> None:
    lab.join("ws7", lab.invite())
    [first] = {*hubs(lab, "bob")} - {"hub2", "hub3"}
    assert "phalanx invite --role owner" in lab.error("hub", "leave")
    assert first in hubs(lab, "bob")
    lab.say("carol", "join", "--name", "carol", lab.invite("--role", "owner"))
    killed = leader(lab)
    lab.kill(killed)  # the next one that leads knows the owners
    until(lambda: len(hubs(lab, "carol")) == 2, timeout=PATIENCE, what="the killed hub to be shown as away")
    lab.say("carol", "invite")
    lab.start(killed, "up")
    until(lambda: len(hubs(lab, "bob")) == 3, timeout=PATIENCE, what="three hubs again")
    told = lab.call("hub", "leave")
    assert (told.returncode, told.stderr) == (0, ""), told
    assert lab.running["hub"].wait(timeout=PATIENCE) == 1
    until(lambda: {*hubs(lab, "carol")} == {"hub2", "hub3"}, timeout=PATIENCE, what="two hubs")
    found = json.loads(lab.say("carol", "members", "--json"))
    assert {it["name"] for it in found if it["facts"].get("owner") == "yes"} == {"carol"}
    assert first not in {it["name"] for it in found}
    until(lambda: here(lab, "ws7"), timeout=PATIENCE, what="ws7 at another hub")
    token = lab.say("carol", "invite").split()[2]
    lab.join("ws8", token)
    until(lambda: here(lab, "ws8"), timeout=PATIENCE, what="ws8")
    assert "only owners of the grid may" in lab.error("bob", "invite")


def test_of_two_hubs_the_one_that_leads_is_expelled(lab: Site) -> None:
    gone = next(name for name in ("hub2", "hub3") if leader(lab) != name)
    lab.say(gone, "leave")
    until(lambda: len(hubs(lab, "bob")) == 2, timeout=PATIENCE, what="two hubs")
    (leading,) = [name for name, it in hubs(lab, "bob").items() if it["facts"].get("leads") == "yes"]
    lab.say("hub", "expel", "--yes", leading)
    until(lambda: leading not in hubs(lab, "bob"), timeout=PATIENCE, what="the hub that led to be gone")
    assert len(hubs(lab, "bob")) == 1
    assert lab.running[folder_of(lab, leading)].wait(timeout=PATIENCE) == 1
    lab.say("bob", "members")
