"""Machines of one grid that are lent to another one, with two hubs and their members on this machine."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from api.hubs import PATIENCE, Site, site

from laboratory.processes import Process, until

pytestmark = [pytest.mark.timeout(400), pytest.mark.xdist_group("lending")]

#: Where the interpreters of a manager are.
NAMES = "{it.name.partition('/')[0] for it in manager.summary().interpreters}"


@pytest.fixture
def grids(tmp_path: Path) -> Iterator[Site]:
    """The grid lab with its hub, the executors ws7 and ws8 that may be lent, ws9 that may not, and a user bob. The grid
    campus with its hub, whose folder is town, and the users bob and eve, whose folders are bob-there and eve-there."""
    with site(tmp_path) as found:
        found.up("--hub-only")
        found.start("town", "up", "--grid", "campus", "--hub-only")
        for name in ("ws7", "ws8", "ws9"):
            lent = [] if name == "ws9" else ["--may-lend", "2"]
            found.join(name, found.invite(), *lent)
        found.say("bob", "join", "--name", "bob", found.invite("--role", "user"))
        for user in ("bob", "eve"):
            token = found.say("town", "invite", "--role", "user").split()[2]
            found.say(f"{user}-there", "join", "--name", user, token)
        found.await_members(ws7=True, ws8=True, ws9=True)
        yield found


def lend(grids: Site, *options: str) -> None:
    """Lends machines of lab to campus, and waits until they are there."""
    token = grids.say("town", "invite", "--uses", "9").split()[2]
    assert "is lent to the grid campus as " in grids.say("hub", "lend", token, *options)


def members(grids: Site) -> dict[str, bool]:
    """The executors of campus, and whether each is here."""
    found = json.loads(grids.say("town", "members", "--json"))
    return {it["name"]: it["is_here"] for it in found if it["role"] == "executor"}


def there(grids: Site) -> set[str]:
    """The executors of campus that run."""
    return {name for name, is_here in members(grids).items() if is_here}


def await_guests(grids: Site, *names: str) -> None:
    until(lambda: there(grids) == set(names), timeout=PATIENCE, what=f"the guests {names}")


def loan(grids: Site) -> dict[str, Any]:
    (found,) = json.loads(grids.say("hub", "lend", "--list", "--json"))
    assert isinstance(found, dict)
    return found


def running(grids: Site, member: str) -> dict[str, list[tuple[str, int]]]:
    """What executors run, as the hub of a member's grid tells it."""
    found = json.loads(grids.say(member, "status", "--json"))["executors"]
    return {it["name"]: sorted((row["user"], row["count"]) for row in it["running"]) for it in found}


def begin(grids: Site, member: str, source: str) -> Process:
    """A program of a member that runs meanwhile."""
    command = [sys.executable, "-c", "import phalanx as px\n" + dedent(source)]
    files = grids.folder / f"program-{len(grids.started)}"
    process = Process(command, title=f"a program of {member}", files=files, cwd=grids.folder, env=grids.env(member))
    grids.started.append(process)
    return process


def test_a_manager_of_another_grid_computes_on_machines_that_are_lent_to_it(grids: Site) -> None:
    lend(grids, "--members", "2", "--accept", "bob", "--places", "1")
    await_guests(grids, "ws7-lab", "ws8-lab")
    program = f"""
    with px.Manager("campus", contract=px.ParDegree(2)) as manager:
        assert list(manager.map(abs, [-1, -2, -3])) == [1, 2, 3]
        while len(manager.summary().interpreters) < 2:  # the test's time is limited
            pass
        print(*sorted({NAMES}))
    """
    assert grids.python("bob-there", program).split() == ["ws7-lab", "ws8-lab"]
    # Both hubs tell which machines these are.
    facts = {it["name"]: it["facts"] for it in json.loads(grids.say("bob-there", "members", "--json"))}
    assert facts["ws7-lab"]["lent by"] == "lab"
    assert facts["ws7-lab"]["interpreters"] == "1"
    assert facts["ws7-lab"]["accepts"] == "bob"
    assert "lent by lab" in grids.say("bob-there", "members")
    until(lambda: grids.members()["ws7"]["facts"].get("lent to") == "campus", timeout=PATIENCE, what="what is lent")
    assert "lent to" not in grids.members()["ws9"]["facts"]
    assert {it["name"]: it["there"] for it in loan(grids)["guests"]} == {"ws7": "ws7-lab", "ws8": "ws8-lab"}
    assert "2 of 2" in grids.say("hub", "lend", "--list")
    # Ranks run there too.
    told = grids.say("bob-there", "mpirun", "--grid", "campus", "-n", "2", "--no-prefix", "echo", "hello")
    assert told == "hello\n" * 2
    # A user whom the loan does not name gets nothing, and neither spaces nor files are lent.
    eve = """
    try:
        px.Manager("campus", contract=px.ParDegree(1)).submit(abs, -1).result()
    except px.errors.RecruitError as error:
        print(error)
    """
    assert "the user eve is not among those accepted here" in grids.python("eve-there", eve)
    files = grids.call("bob-there", "ls", "--grid", "campus", "ws7-lab:/tmp")
    assert files.returncode == 1
    spaces = """
    try:
        px.Grid("campus").space("ws7-lab/words").out("word")
    except px.errors.PhalanxError as error:
        print(error)
    """
    assert "no server of spaces, or one that refused" in grids.python("bob-there", spaces)
    # The owner of ws9 does not let it be lent, and nobody but an owner of the grid lends.
    assert "only owners" in grids.error("bob", "lend", "--end", "campus")
    # A grid lends nothing to itself.
    assert "of this grid" in grids.error("hub", "lend", grids.invite())


def test_users_of_one_name_in_both_grids_stay_apart(grids: Site) -> None:
    lend(grids, "--places", "1", "--accept", "bob")
    await_guests(grids, "ws7-lab")
    program = """
    import pathlib, signal
    def keep(secret):
        path = pathlib.Path("secret").absolute()
        path.write_text(secret)
        return str(path)
    def steal(path):
        try:
            return pathlib.Path(path).read_text()
        except OSError as error:
            return type(error).__name__
    with px.Grid("{grid}").only("{machine}").manager(contract=px.ParDegree(1)) as manager:
        print("at", manager.submit({call}).result(), flush=True)
        {wait}
    """
    lab = begin(grids, "bob", program.format(grid="lab", machine="ws7", call="keep, 'of lab'", wait="signal.pause()"))
    path = lab.line("at ", timeout=PATIENCE).split()[1]
    thief = dedent(program).format(grid="campus", machine="ws7-lab", call=f"steal, {path!r}", wait="")
    assert grids.python("bob-there", thief).split()[1] in ("PermissionError", "FileNotFoundError")
    # Their budgets have names of their own: each holds one place, and each hub sees its own user.
    campus = begin(
        grids, "bob-there", program.format(grid="campus", machine="ws7-lab", call="keep, 'x'", wait="signal.pause()")
    )
    campus.line("at ", timeout=PATIENCE)
    wanted = [("bob", 1), ("bob@campus", 1)]
    until(lambda: running(grids, "hub")["ws7"] == wanted, timeout=PATIENCE, what="two users at ws7")
    until(lambda: running(grids, "town")["ws7-lab"] == [("bob", 1)], timeout=PATIENCE, what="one user at ws7-lab")


def test_users_of_another_grid_get_no_more_than_is_lent(grids: Site) -> None:
    lend(grids, "--places", "1")
    await_guests(grids, "ws7-lab")
    program = """
    import signal
    with px.Manager("campus", contract=px.ParDegree(1)) as manager:
        print("is", manager.submit(abs, -1).result(), flush=True)
        signal.pause()
    """
    bob = begin(grids, "bob-there", program)
    bob.line("is 1", timeout=PATIENCE)
    # The machine has a second place, which is not lent: users of campus do not get it, and users of lab do.
    eve = """
    for number in (1, 2):
        try:
            with px.Manager("campus", contract=px.ParDegree(number)) as manager:
                print(manager.submit(abs, -1).result())
        except px.errors.PhalanxError as error:
            print(type(error).__name__, error)
    """
    told = grids.python("eve-there", eve).splitlines()
    assert told[0].startswith("RecruitError ")
    assert "all 1 interpreters of this machine are in use" in told[0]
    assert told[1].startswith("ContractError 2 interpreters were asked for, but the machines offer 1: ")
    own = 'print(px.Grid("lab").only("ws7").manager(contract=px.ParDegree(1)).submit(abs, -1).result())'
    assert grids.python("bob", own) == "1\n"
    bob.kill()
    until(lambda: "1" in grids.python("eve-there", eve).splitlines(), timeout=PATIENCE, what="the place")


def test_the_end_of_a_loan_and_expelled_members_are_losses(grids: Site) -> None:
    grids.start("desk", "join", "--name", "desk", "--interpreters", "1", grids.say("town", "invite").split()[2])
    lend(grids, "--members", "2")
    await_guests(grids, "desk", "ws7-lab", "ws8-lab")
    program = """
    import pathlib, time
    def slow(number):
        time.sleep(0.05)
        return -number
    with px.Manager("campus", contract=px.ParDegree(5)) as manager:
        turns = 0
        while not pathlib.Path("end").exists():
            assert list(manager.map(slow, range(20))) == [-number for number in range(20)]
            turns += 1
            if turns == 3:
                print("runs", flush=True)
        print("whole", turns > 3)
    """
    process = begin(grids, "bob-there", program)
    process.line("runs", timeout=PATIENCE)
    # The other grid expels a guest: its hub hears why, and ws7 goes on for lab.
    grids.say("town", "expel", "--yes", "ws7-lab")
    until(lambda: "ws7: " in loan(grids)["refused"], timeout=PATIENCE, what="the refusal")
    assert grids.python("bob", 'print(px.Grid("lab").only("ws7").manager().submit(abs, -1).result())') == "1\n"
    # The own grid expels an executor: it leaves the other one.
    grids.say("hub", "expel", "--yes", "ws8")
    await_guests(grids, "desk")
    assert grids.running["ws8"].wait(timeout=PATIENCE) == 1
    (grids.folder / "end").touch()
    process.line("whole True", timeout=PATIENCE)


def test_a_guest_that_is_lost_comes_back_or_is_replaced(grids: Site) -> None:
    lend(grids)
    await_guests(grids, "ws7-lab")
    # It starts again as the same member, without another use of the token.
    grids.kill("ws7")
    await_guests(grids)
    grids.join("ws7", "lab", "--may-lend", "2")
    await_guests(grids, "ws7-lab")
    # Its owner lets it be lent no more: it leaves, and another one takes its place.
    grids.running["ws7"].signal(signal.SIGTERM)
    assert grids.running["ws7"].wait(timeout=PATIENCE) == 0
    grids.join("ws7", "lab")
    await_guests(grids, "ws8-lab")
    until(lambda: "ws7-lab" not in members(grids), timeout=PATIENCE, what="the end of ws7-lab")
    # After the end of the loan, it leaves for good.
    assert "nothing is lent" in grids.say("hub", "lend", "--end", "campus")
    await_guests(grids)
    until(lambda: "ws8-lab" not in members(grids), timeout=PATIENCE, what="the end of ws8-lab")
    assert json.loads(grids.say("hub", "lend", "--list", "--json")) == []
