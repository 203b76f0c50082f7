"""Machines that are lent to another grid, behind one NAT, and a user of that grid behind another one. The hubs of both
grids are on the internet, and nothing else is reached from there."""

from __future__ import annotations

import json
import re
import sys
import time
from textwrap import dedent
from typing import Any

import pytest

from laboratory.grid import PHALANX
from laboratory.hub import PATIENCE, HubGrid
from laboratory.lab import Lab
from laboratory.processes import Process, until

#: What both private networks have: the first host of each is 10.0.0.1.
SUBNET = "10.0.0"
#: The places of each machine, and how many of them its owner lets be lent.
PLACES, LENT = 2, 1
MARKER = "the secret of bob"
#: Prints how many tasks have come back, until there is a file `end` in its folder: tasks of 50 ms.
PROGRAM = f"""
import json, os, pathlib, socket, sys, time
import phalanx as px

def work(task):
    time.sleep(0.05)
    return task[0], socket.gethostname(), {MARKER!r} in task[1]

def tasks():
    number = 0
    while not pathlib.Path("end").exists():
        yield number, {MARKER!r}
        number += 1

try:
    with px.Manager("campus", patience=float(sys.argv[1])) as manager:
        seen = []
        for number, machine, is_whole in manager.compute(px.Farm(work), tasks()):
            seen.append(number)
            print(json.dumps([number, machine, is_whole]), flush=True)
        summary = manager.summary()
        links = sorted({{(it.name.partition("/")[0], it.level) for it in summary.interpreters}})
        print("whole", seen == list(range(len(seen))), "lost", summary.lost, json.dumps(links), flush=True)
except px.PhalanxError as error:
    print(type(error).__name__, error, flush=True)
"""


class Internet:
    """The grid lab, whose machines ws7 and ws8 are in the attic, and the grid campus, whose user bob is in the office.
    Both networks have the same addresses, and let out connections to port 443 only."""

    def __init__(self, lab: Lab) -> None:
        self.lab = HubGrid(lab.host("hub"))
        self.campus = HubGrid(lab.host("town"), name="campus")
        attic = lab.nat("attic", subnet=SUBNET, ports=[443], symmetric=True)
        office = lab.nat("office", subnet=SUBNET, ports=[443], symmetric=True)
        self.machines = {
            name: self.lab.join(lab.host(name, attic), "--may-lend", str(LENT), interpreters=PLACES)
            for name in ("ws7", "ws8")
        }
        self.bob = self.campus.user(lab.host("desk", office), "bob")
        assert self.bob.desk.address == self.machines["ws7"].host.address, "the networks must have the same addresses"

    def lend(self, *options: str) -> None:
        """Lend both machines, and wait until campus knows them."""
        self.lab.host.run([PHALANX, "lend", "--members", "2", *options, self.campus.token(uses=4)])
        self.await_guests("ws7-lab", "ws8-lab")

    def await_guests(self, *names: str) -> None:
        """Wait until these guests run in campus, and no others."""

        def are_here() -> bool:
            return {name for name, it in self.campus.members().items() if it["is_here"]} == set(names)

        until(are_here, timeout=PATIENCE, what=f"the guests {names}")

    def begin(self, patience: float = 30) -> Process:
        """Start bob's program."""
        return self.bob.desk.popen([sys.executable, "-c", dedent(PROGRAM), str(patience)])

    def end(self, program: Process) -> str:
        """Let bob's program end, and return its last line."""
        (self.bob.desk.home / "end").touch()
        assert program.wait(timeout=PATIENCE) == 0, program.report()
        return program.lines()[-1]

    def status(self, grid: HubGrid) -> dict[str, Any]:
        """What an owner of a grid sees."""
        told: dict[str, Any] = json.loads(grid.host.run([PHALANX, "status", "--json"]).stdout())
        return told

    def running(self, grid: HubGrid, member: str) -> list[tuple[str, int, bool]]:
        """Who has how many interpreters at an executor, and whether their links are relayed."""
        (found,) = [it for it in self.status(grid)["executors"] if it["name"] == member]
        return [(it["user"], it["count"], it["is_relayed"]) for it in found["running"]]


def results(program: Process) -> list[tuple[int, str, bool]]:
    """What has come back so far."""
    return [tuple(json.loads(line)) for line in program.lines() if line.startswith("[")]


def await_results(program: Process, more: int = 20, *, machines: set[str] | None = None) -> None:
    """Wait for more results, and for some from each of these machines."""
    before = len(results(program))

    def came() -> bool:
        assert program.code is None, program.report()
        new = results(program)[before:]
        return len(new) >= more and {machine for _, machine, _ in new} >= (machines or set())

    until(came, timeout=PATIENCE, what=f"{more} results")


@pytest.fixture
def internet(lab: Lab) -> Internet:
    return Internet(lab)


def test_a_program_computes_on_guests_that_nothing_but_their_hub_reaches(internet: Internet) -> None:
    with internet.campus.host.cable.capture() as at_campus, internet.lab.host.cable.capture() as at_lab:
        internet.lend("--accept", "bob")
        program = internet.begin()
        await_results(program, machines={"ws7", "ws8"})
        # Each grid calls the user and the machine by its own names, and each hub knows that bytes are relayed.
        until(lambda: internet.running(internet.lab, "ws7") == [("bob@campus", 1, True)], timeout=PATIENCE, what="lab")
        campus = [("bob", 1, True)]
        until(lambda: internet.running(internet.campus, "ws7-lab") == campus, timeout=PATIENCE, what="campus")
        relayed = internet.status(internet.campus)["relayed"]
        ends = {(it["from"], it["to"]) for it in relayed["largest"]}
        assert {("user bob", "executor ws7-lab"), ("user bob", "executor ws8-lab")} <= ends
        assert internet.status(internet.lab)["relayed"]["links"] == 0, "lab's hub carries nothing of campus"
        last = internet.end(program)
    assert last.startswith("whole True lost 0 "), program.report()
    assert json.loads(last[last.index("[") :]) == [["ws7-lab", "private"], ["ws8-lab", "private"]]
    assert all(is_whole for _, _, is_whole in results(program))
    # The marker is in every task, and neither hub could read it.
    assert not at_campus.saw(MARKER.encode())
    assert not at_lab.saw(MARKER.encode())


@pytest.mark.parametrize("fault", ["silence", "kill"])
def test_a_program_goes_on_when_the_hub_that_relays_was_lost_and_is_back(internet: Internet, fault: str) -> None:
    internet.lend()
    program = internet.begin()
    await_results(program, machines={"ws7", "ws8"})
    if fault == "silence":
        internet.campus.host.cable.silence()
        before = len(results(program))
        time.sleep(8)  # what was on its way has come, and nothing else does
        assert len(results(program)) < before + 20
        internet.campus.host.cable.mend()
    else:
        internet.campus.process.kill()
        internet.campus.start()
    await_results(program, 60, machines={"ws7", "ws8"})
    internet.await_guests("ws7-lab", "ws8-lab")
    assert internet.end(program).startswith("whole True "), program.report()


def test_a_program_does_not_notice_that_the_hub_of_the_grid_that_lends_is_lost(internet: Internet) -> None:
    internet.lend()
    program = internet.begin()
    await_results(program, machines={"ws7", "ws8"})
    internet.lab.process.kill()
    await_results(program, 100, machines={"ws7", "ws8"})
    internet.lab.start()
    internet.lab.wait_for("ws7")
    internet.lab.wait_for("ws8")
    await_results(program, machines={"ws7", "ws8"})
    assert internet.end(program).startswith("whole True lost 0 "), program.report()
    internet.await_guests("ws7-lab", "ws8-lab")


def test_a_program_ends_with_clear_words_when_the_loan_does(internet: Internet) -> None:
    internet.lend()
    program = internet.begin(patience=6)
    await_results(program, machines={"ws7", "ws8"})
    internet.lab.host.run([PHALANX, "lend", "--end", "campus"])
    assert program.wait(timeout=PATIENCE) == 0
    text = program.lines()[-1]
    # Both machines leave at the same time, and either may be noticed first.
    assert re.match("LostError no interpreter is left, and none can be recruited: ws[78]-lab/", text), text
    assert "ws7-lab/" in text
    assert "is gone: its connection ended, and that to ws8-lab too" in text
    assert re.search("-lab is not here now|no member is called ws.-lab|no executor of the grid campus runs", text), text
    assert ".phalanx" not in text, "ws7-lab.campus.phalanx is no address that a user knows"
    internet.await_guests()
    again = internet.begin(patience=2)
    again.wait(timeout=PATIENCE)
    assert again.lines() == [
        "RecruitError no executor of the grid campus runs now; the members are shown by: phalanx members --grid campus"
    ]
    # The machines go on for users of their own grid.
    assert {name for name, it in internet.lab.members().items() if it["is_here"]} == {"ws7", "ws8"}


def test_a_loan_that_ends_while_the_other_hub_is_away_ends_there_as_well(internet: Internet) -> None:
    internet.lend()
    internet.campus.process.kill()
    internet.lab.host.run([PHALANX, "lend", "--end", "campus"])
    internet.campus.start()
    until(lambda: not internet.campus.members(), timeout=PATIENCE, what="the guests to leave")
