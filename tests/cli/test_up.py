"""`phalanx up`, `join` and the rest, with real hubs, executors and users on this machine."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from api.hubs import PATIENCE, PHALANX, Site, site
from phalanx import _native

from laboratory.processes import Process, until

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Site]:
    """A site without members."""
    with site(tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A hub with its executor, a machine ws7 that exports a folder, and a user bob."""
    with site(tmp_path_factory.mktemp("site")) as found:
        scratch = found.folder / "scratch"
        scratch.mkdir()
        tool = found.folder / "tools" / "phalanx-test-tool"
        tool.parent.mkdir()
        tool.write_text("#!/bin/sh\n")
        tool.chmod(0o755)
        path = f"PATH={tool.parent}:{os.environ['PATH']}"
        ws7 = ["--export", f"{scratch}:rw", "--label", "lab-b", "--env", path, "--grant", f"{tool.parent}:ro"]
        found.join("ws7", found.up(), *ws7)
        found.say("bob", "join", "--name", "bob", found.invite("--role", "user"))
        found.await_members(ws7=True)
        yield found


@pytest.mark.xdist_group("grid")
class TestAGrid:
    def test_the_members_are_known_to_all(self, grid: Site) -> None:
        for member in ("hub", "bob"):
            found = json.loads(grid.say(member, "members", "--json"))
            roles = {it["role"] for it in found}
            assert {"executor", "user"} <= roles
            ws7 = grid.members(member)["ws7"]
            assert ws7["is_here"]
            assert ws7["facts"]["interpreters"] == "2"
            assert int(ws7["facts"]["memory"]) > 1 << 20
        assert "ws7" in grid.say("bob", "members")
        assert json.loads(grid.say("bob", "grids", "--json"))[0]["user"] == "bob"

    @pytest.mark.parametrize("member", ["hub", "bob"])
    def test_managers(self, grid: Site, member: str) -> None:
        program = """
        import time
        with px.Manager("lab", contract=px.ParDegree(4)) as manager:
            assert list(manager.map(abs, [-1, -2, -3])) == [1, 2, 3]
            while len(manager.summary().interpreters) < 4:  # the test's time is limited
                time.sleep(0.01)
            print(*sorted({it.name.partition("/")[0] for it in manager.summary().interpreters}))
        with px.Grid("lab").only("ws7").manager(contract=px.ParDegree(1)) as manager:
            assert manager.submit(abs, -1).result() == 1
            assert [(it.name, it.machine) for it in manager.summary().interpreters] == [("ws7/1", "ws7")]
        """
        assert "ws7" in grid.python(member, program).split()

    def test_needs(self, grid: Site) -> None:
        program = """
        def names(**needs):
            with px.Manager("lab", needs=px.needs(**needs), contract=px.ParDegree(2)) as manager:
                assert list(manager.map(abs, [-1, -2])) == [1, 2]
                return {it.name.partition("/")[0] for it in manager.summary().interpreters}

        assert names(label="lab-b") == names(software="phalanx-test-tool") == {"ws7"}
        assert names(cores=1, memory="1 MB", software="sh")
        done = px.mpirun("true", 2, hosts="lab", needs=px.needs(software=["sh", "phalanx-test-tool"]))
        assert {rank.machine for rank in done.ranks} == {"ws7"}
        try:
            px.Manager("lab", needs=px.needs(software="phalanx-no-tool", label="lab-b"))
        except px.errors.RecruitError as error:
            print(error)
        """
        told = grid.python("bob", program)
        assert "no executor of the grid lab has phalanx-no-tool: " in told
        assert "ws7 lacks phalanx-no-tool" in told
        assert "(it has not said)" not in told
        run = ["mpirun", "--grid", "lab", "--needs", "label=lab-b,cores=1", "-n", "2", "--no-prefix", "echo", "hello"]
        assert grid.say("bob", *run) == "hello\n" * 2
        assert grid.members()["ws7"]["facts"]["labels"] == "lab-b"

    def test_members_see_what_runs_and_for_whom(self, grid: Site) -> None:
        def running() -> dict[tuple[str, str], dict[str, Any]]:
            found = json.loads(grid.say("hub", "status", "--json"))
            (ws7,) = (it for it in found["executors"] if it["name"] == "ws7")
            assert (ws7["is_here"], ws7["interpreters"]) == (True, 2)
            assert ws7["used"] <= 2
            return {(it["user"], it["what"]): it for it in ws7["running"]}

        until(lambda: not running(), timeout=PATIENCE, what="the end of what ran before")
        program = """
        import sys
        with px.Grid("lab").space("ws7/words") as space:
            with px.Grid("lab").only("ws7").manager(contract=px.ParDegree(2)) as manager:
                assert list(manager.map(abs, [-1, -2])) == [1, 2]
                print("runs", flush=True)
                space.in_("end")
        """
        command = [sys.executable, "-c", "import phalanx as px\n" + dedent(program)]
        files = grid.folder / "program"
        process = Process(command, title="a manager", files=files, cwd=grid.folder, env=grid.env("bob"))
        grid.started.append(process)
        process.line("runs", timeout=PATIENCE)
        until(
            lambda: {("bob", "interpreters"), ("bob", "spaces")} <= set(running()), timeout=PATIENCE, what="what runs"
        )
        found = running()[("bob", "interpreters")]
        assert (found["count"], found["is_relayed"]) == (2, False)
        assert found["level"] in ("clear", "safe", "private")
        assert "bob: 2 interpreters (" in grid.say("bob", "status", "lab")
        grid.python("bob", 'px.Grid("lab").space("ws7/words").out("end")')
        assert process.wait(timeout=PATIENCE) == 0, process.report()
        until(lambda: not running(), timeout=PATIENCE, what="the end of what runs")
        crash = """
        import os
        with px.Grid("lab").only("ws7").manager(contract=px.ParDegree(1)) as manager:
            try:
                manager.submit(os.abort).result()
            except px.errors.CulpritError:
                pass
        """
        grid.python("bob", crash)

        def losses() -> list[str]:
            found = json.loads(grid.say("bob", "status", "--json"))
            return [it["last_loss"] for it in found["executors"] if it["lost"]]

        until(lambda: any("bob was killed by signal 6" in it for it in losses()), timeout=PATIENCE, what="a loss")
        crash = """
        try:
            px.Grid("lab").only("ws7").mpirun(["sh", "-c", "kill -SEGV $$"], n=1)
        except px.errors.RanksError:
            pass
        """
        grid.python("bob", crash)
        until(lambda: any("a rank of bob was" in it for it in losses()), timeout=PATIENCE, what="the loss of a rank")

    def test_copies(self, grid: Site) -> None:
        program = f"""
        from pathlib import Path
        import fsspec
        there = "{grid.folder}/scratch"
        Path("data").write_text("data")
        px.Grid("lab").copy("data", f"ws7:{{there}}/one")
        px.copy("data", f"ws7:{{there}}/two", hosts="lab")
        with fsspec.open(f"phalanx://ws7{{there}}/four", "w", hosts="lab") as file:
            file.write("data")
        """
        grid.python("bob", program)
        there = f"ws7:{grid.folder}/scratch"
        grid.say("bob", "cp", "--grid", "lab", "data", f"{there}/three")
        assert {it.name: it.read_text() for it in (grid.folder / "scratch").iterdir()} == dict.fromkeys(
            ("one", "two", "three", "four"), "data"
        )
        assert grid.say("bob", "ls", "--grid", "lab", there).split() == ["four", "one", "three", "two"]
        assert grid.say("bob", "cat", "--grid", "lab", f"{there}/one") == "data"
        (grid.folder / "empty").mkdir()
        grid.say("bob", "sync", "--grid", "lab", "--delete", "empty", there)
        assert list((grid.folder / "scratch").iterdir()) == []

    def test_spaces(self, grid: Site) -> None:
        program = """
        with px.Grid("lab").space("words") as space, px.Space("lab/words") as same:
            space.out("word", 1)
            assert space.name == same.name
        with px.Grid("lab").space("ws7/words") as other:
            assert other.inp("word", int) is None
        """
        grid.python("hub", program)
        grid.python("bob", 'assert px.Space("lab/words").in_("word", int, timeout=10) == ("word", 1)')
        assert json.loads(grid.say("bob", "space", "info", "--grid", "lab", "--json", "words"))["address"]

    def test_message_passing(self, grid: Site) -> None:
        program = """
        done = px.mpirun(["echo", "hello"], n=4, hosts="lab", capture_output=True)
        assert done.stdout == "hello\\n" * 4
        assert len({rank.machine for rank in done.ranks}) == 2
        assert px.Grid("lab").only("ws7").bsprun(["true"], n=2).code == 0
        """
        grid.python("bob", program)
        said = grid.say("bob", "mpirun", "--grid", "lab", "-n", "2", "--no-prefix", "echo", "hello")
        assert said == "hello\n" * 2
        grid.say("bob", "bsprun", "--grid", "lab", "-n", "2", "true")

    def test_tasks_act_for_their_user(self, grid: Site) -> None:
        program = f"""
        from pathlib import Path
        there = "ws7:{grid.folder}/scratch"

        def work(number):
            results.out("result", number)
            Path(f"{{number}}").write_text("done")
            px.copy(f"{{number}}", f"{{there}}/{{number}}")

        with px.Grid("lab").space("ws7/results") as results:
            with px.Manager("lab", contract=px.ParDegree(4), delegate="copies") as manager:
                list(manager.map(work, range(8)))
            assert results.count("result", int) == 8
        """
        grid.python("bob", program)
        made = sorted((grid.folder / "scratch").iterdir())
        assert [it.name for it in made] == [str(number) for number in range(8)]
        for it in made:
            it.unlink()

    def test_a_user_who_is_no_owner_cannot_invite_or_expel(self, grid: Site) -> None:
        assert "only owners of the grid may" in grid.error("bob", "invite")
        assert "only owners of the grid may" in grid.error("bob", "expel", "--yes", "ws7")
        assert grid.members()["ws7"]["is_here"]

    def test_names_are_taken_once(self, grid: Site) -> None:
        token = grid.invite()
        assert "ws7 is a member already" in grid.error("other", "join", "--name", "ws7", "--no-start", token)
        grid.say("other", "join", "--name", "ws8", "--no-start", token)  # the token was not used up
        assert not grid.members()["ws8"]["is_here"]
        assert "ws8 is a member of the grid lab, and does not run since" in grid.error(
            "bob", "ls", "--grid", "lab", "ws8:/"
        )

    def test_a_second_process_does_not_start(self, grid: Site) -> None:
        assert "the grid lab runs here already: phalanx up, process" in grid.error("hub", "up")
        assert "runs here already" in grid.error("ws7", "join", "lab")


class TestTokens:
    def test_a_token_is_good_once(self, lab: Site) -> None:
        token = lab.up()
        lab.say("ws7", "join", "--name", "ws7", "--no-start", token)
        assert "the token is not good here: it was used" in lab.error(
            "ws8", "join", "--no-start", "--name", "ws8", token
        )
        assert not (lab.home("ws8") / "grids" / "lab").exists()

    def test_a_token_is_good_for_so_many(self, lab: Site) -> None:
        lab.up()
        token = lab.invite("--uses", "2")
        for member in ("ws1", "ws2"):
            lab.say(member, "join", "--no-start", "--name", member, token)
        assert "was used" in lab.error("ws3", "join", "--no-start", "--name", "ws3", token)

    def test_a_token_is_good_for_its_time(self, lab: Site) -> None:
        lab.up("--hub-only")
        told: list[str] = []

        def is_late() -> bool:
            """Whether this try came too late. A try that came in time has made a member."""
            number = len(told)
            done = lab.call(f"ws{number}", "join", "--no-start", "--name", f"ws{number}", token)
            told.append(done.stderr)
            return done.returncode == 1

        token = lab.invite("--for", "1s", "--uses", "100")
        until(is_late, timeout=PATIENCE, what="the end of the token")
        assert "the token's time is over" in told[-1] or "the token is not good here" in told[-1]

    def test_a_token_that_was_altered_is_damaged(self, lab: Site) -> None:
        token = lab.up("--hub-only")
        middle = len(token) // 2
        for altered in (
            token[:-1],
            token[1:],
            token[:middle] + ("A" if token[middle] != "A" else "B") + token[middle + 1 :],
        ):
            assert "token" in lab.error("ws7", "join", "--no-start", altered)
        lab.say("ws7", "join", "--name", "ws7", "--no-start", token)

    def test_a_token_of_a_hub_that_is_away(self, lab: Site) -> None:
        token = lab.up("--hub-only")
        lab.kill("hub")
        assert "no hub listens there" in lab.error("ws7", "join", "--no-start", token)
        assert not (lab.home("ws7") / "grids" / "lab").exists()


def with_role(token: str, role: str) -> str:
    """The token with another role, and a check that fits."""
    text = token.removeprefix("phalanx1-")
    said = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))[:-4]
    at = 1 + said[0]
    said = said[:at] + bytes([len(role)]) + role.encode() + said[at + 1 + said[at] :]
    check = 0x811C9DC5
    for byte in said:
        check = (check ^ byte) * 0x01000193 & 0xFFFFFFFF
    return "phalanx1-" + base64.urlsafe_b64encode(said + check.to_bytes(4, "big")).decode().rstrip("=")


class TestOwners:
    def owners(self, lab: Site, member: str = "hub") -> set[str]:
        found = json.loads(lab.say(member, "members", "--json"))
        return {it["name"] for it in found if it["facts"].get("owner") == "yes"}

    def test_an_owner_does_what_the_first_one_does(self, lab: Site) -> None:
        lab.up()
        [ada] = self.owners(lab)
        assert "joined the grid lab as bob, an owner" in lab.say(
            "bob", "join", "--name", "bob", lab.invite("--role", "owner")
        )
        assert self.owners(lab) == self.owners(lab, "bob") == {ada, "bob"}
        token = lab.say("bob", "invite").split()[2]
        lab.join("ws7", token)
        lab.await_members(ws7=True)
        lab.say("bob", "expel", "--yes", "ws7")
        assert lab.say("bob", "lend", "--list", "--json").strip() == "[]"
        lab.say("bob", "expel", "--yes", ada)
        assert self.owners(lab, "bob") == {"bob"}
        assert "phalanx: " in lab.error("hub", "invite")
        assert "only owner of the grid" in lab.error("bob", "expel", "--yes", "bob")

    def test_the_only_owner_stays_until_there_is_another(self, lab: Site) -> None:
        lab.up("--hub-only")
        [ada] = self.owners(lab)
        lab.say("bob", "join", "--name", "bob", lab.invite("--role", "owner"))
        lab.say("bob", "expel", "--yes", ada)
        assert "make another one first: phalanx invite --role owner" in lab.error("bob", "leave")
        token = lab.say("bob", "invite", "--role", "owner").split()[2]
        lab.say("eve", "join", "--name", "eve", token)
        assert "left the grid lab" in lab.say("bob", "leave")
        assert self.owners(lab, "eve") == {"eve"}

    def test_the_hub_makes_no_owner_again_that_was_expelled(self, lab: Site) -> None:
        lab.up("--hub-only")
        [ada] = self.owners(lab)
        lab.say("bob", "join", "--name", "bob", lab.invite("--role", "owner"))
        lab.say("bob", "expel", "--yes", ada)
        lab.running["hub"].signal(signal.SIGTERM)
        assert lab.running["hub"].wait() == 0
        folder = lab.home("hub") / "grids" / "lab"
        issuer = (folder / "hub" / "issuer.pem").read_text()
        # What `phalanx up` does where the certificate has ended: a new key.
        (folder / "user.pem").write_text(_native.found_member(issuer, "user", ada, 24.0))
        lab.up("--hub-only")
        assert self.owners(lab, "bob") == {"bob"}
        assert "phalanx: " in lab.error("hub", "invite")

    def test_a_user_becomes_an_owner(self, lab: Site) -> None:
        lab.up("--hub-only")
        lab.say("bob", "join", "--name", "bob", lab.invite("--role", "user"))
        assert "only owners of the grid may" in lab.error("bob", "invite", "--role", "owner")
        token = lab.invite("--role", "owner")
        assert "joined the grid lab as bob, an owner" in lab.say("bob", "join", token)
        assert "bob" in self.owners(lab)
        lab.say("bob", "invite", "--role", "owner")
        lab.say("bob", "join", token)  # an owner stays one: its answer may have been lost
        lab.say("bob", "leave")
        assert "bob" not in self.owners(lab)

    def test_a_token_makes_one_owner(self, lab: Site) -> None:
        lab.up("--hub-only")
        token = lab.invite("--role", "owner")
        lab.say("bob", "join", "--name", "bob", token)
        assert "the token is not good here" in lab.error("eve", "join", "--name", "eve", token)
        assert not (lab.home("eve") / "grids" / "lab").exists()
        lab.say("eve", "join", "--name", "eve", lab.invite("--role", "user"))
        assert "the token is not good here" in lab.error("eve", "join", token)
        assert "only owners of the grid may" in lab.error("eve", "invite")

    def test_the_hub_knows_what_a_token_is_for(self, lab: Site) -> None:
        lab.up("--hub-only")
        for role in ("user", "executor", "hub"):
            token = with_role(lab.say("hub", "invite", "--role", role).split()[-1], "owner")
            assert f"the token is for the role {role}" in lab.error("eve", "join", "--name", "eve", token)
        users = lab.invite("--role", "user", "--uses", "2")
        lab.say("eve", "join", "--name", "eve", users)
        assert "the token is for the role user" in lab.error("eve", "join", with_role(users, "owner"))
        token = with_role(lab.invite("--role", "owner"), "user")
        assert "the token is for the role owner" in lab.error("bob", "join", "--name", "bob", token)
        assert len(self.owners(lab)) == 1


class TestComingAndGoing:
    def test_a_member_that_is_killed_is_away_and_comes_back(self, lab: Site) -> None:
        lab.join("ws7", lab.up())
        lab.await_members(ws7=True)
        lab.kill("ws7")
        lab.await_members(ws7=False)
        lab.python("hub", 'assert "ws7" not in px.Grid("lab").machines')
        lab.join("ws7", "lab")
        lab.await_members(ws7=True)

    def test_a_manager_recruits_newcomers_that_have_what_it_needs(self, lab: Site) -> None:
        lab.join("ws1", lab.up("--hub-only"), "--label", "wanted")
        lab.await_members(ws1=True)
        program = """
        import sys, time
        with px.Manager("lab", needs=px.needs(label="wanted", software="sh"), patience=60) as manager:
            names = lambda: {it.name.partition("/")[0] for it in manager.summary().interpreters if it.tasks}
            tasks = manager.compute(lambda number: time.sleep(0.05), range(10**6), ordered=False)
            for _ in tasks:
                print(*sorted(names()), flush=True)
        """
        files = lab.folder / "program"
        command = [sys.executable, "-c", "import phalanx as px\n" + dedent(program)]
        running = Process(command, title="a manager", files=files, cwd=lab.folder, env=lab.env("hub"))
        lab.started.append(running)
        running.line("ws1", timeout=PATIENCE)
        other, wanted = lab.invite(), lab.invite()
        lab.join("ws2", other)
        lab.join("ws3", wanted, "--label", "wanted")
        running.line("ws1 ws3", timeout=PATIENCE)
        lab.kill("ws1")
        lab.await_members(ws1=False, ws2=True)
        before = len(running.stdout().splitlines())
        until(lambda: len(running.stdout().splitlines()) > before + 50, timeout=PATIENCE, what="results without ws1")
        assert "ws2" not in running.stdout()

    def test_when_the_last_member_that_meets_the_needs_is_gone_the_error_says_what_the_others_lack(
        self, lab: Site
    ) -> None:
        lab.join("ws1", lab.up(), "--label", "wanted")
        lab.await_members(ws1=True)
        program = """
        import time
        with px.Manager("lab", needs=px.needs(label="wanted"), patience=5) as manager:
            try:
                for _ in manager.compute(lambda number: time.sleep(0.05), range(10**6), ordered=False):
                    print("result", flush=True)
            except px.errors.LostError as error:
                print(error)
        """
        command = [sys.executable, "-c", "import phalanx as px\n" + dedent(program)]
        running = Process(command, title="a manager", files=lab.folder / "lost", cwd=lab.folder, env=lab.env("hub"))
        lab.started.append(running)
        running.line("result", timeout=PATIENCE)
        lab.kill("ws1")
        assert running.wait(timeout=PATIENCE) == 0, running.report()
        told = running.lines()[-1]
        assert told.startswith("no interpreter is left, and none can be recruited: ")
        assert "no executor of the grid lab has the label wanted: " in told

    def test_a_hub_that_is_killed_comes_back_with_all_it_knew(self, lab: Site) -> None:
        lab.join("ws7", lab.up())
        lab.await_members(ws7=True)
        token = lab.invite()
        lab.kill("hub")
        program = """
        import warnings
        with warnings.catch_warnings(record=True) as told:
            grid = px.Grid("lab")
        assert "no hub of the grid lab answers" in str(told[0].message)
        with grid.only("ws7").manager(contract=px.ParDegree(1)) as manager:
            assert manager.submit(abs, -1).result() == 1
        """
        lab.python("hub", program)
        lab.up()
        lab.await_members(ws7=True)
        lab.join("ws8", token)
        lab.await_members(ws7=True, ws8=True)

    def test_an_expelled_member_is_refused_at_once_and_later(self, lab: Site) -> None:
        lab.join("ws7", lab.up())
        lab.say("eve", "join", "--name", "eve", lab.invite("--role", "user"))
        lab.await_members(ws7=True)
        lab.say("hub", "expel", "--yes", "eve")
        assert "phalanx: " in lab.error("eve", "members")
        assert "phalanx: " in lab.error("eve", "ls", "--grid", "lab", f"ws7:{lab.folder}")
        lab.say("hub", "expel", "--yes", "ws7")
        until(
            lambda: "ws7" not in lab.members() or not lab.members()["ws7"]["is_here"], timeout=PATIENCE, what="its end"
        )
        assert lab.running["ws7"].wait() == 1
        assert "no executor of its grid any more" in lab.running["ws7"].stderr()
        assert "revoked" in lab.error("ws7", "join", "lab")

    def test_a_hub_goes_on_without_its_own_executor(self, lab: Site) -> None:
        lab.up()
        [own] = lab.members()
        assert "stays the only hub" in lab.say("hub", "expel", "--yes", own)
        assert lab.members() == {}
        lab.kill("hub")
        assert "phalanx up --hub-only" in lab.error("hub", "up", "--grid", "lab")
        lab.start("hub", "up", "--grid", "lab", "--hub-only")
        lab.join("ws7", lab.invite())
        lab.await_members(ws7=True)
        lab.kill("hub")
        (file,) = re.findall("start again: rm (.*)", lab.error("hub", "up", "--grid", "lab"))
        Path(file).unlink()
        lab.up()
        lab.await_members(ws7=True, **{own: True})

    def test_a_first_start_that_fails_leaves_no_half_of_a_grid(self, lab: Site) -> None:
        lab.up()
        for words in (["--listen", "300.1.1.1:5"], ["--cpu", "50%", "--cage", "none"]):
            assert "phalanx: " in lab.error("hub", "up", "--grid", "g3", *words)
            assert [path.name for path in (lab.home("hub") / "grids").iterdir()] == ["lab"]
            assert [path.name for path in (lab.home("hub") / "authorities").iterdir()] == ["lab"]
        lab.say("hub", "members")

    def test_a_member_that_leaves_is_one_no_more(self, lab: Site) -> None:
        lab.join("ws7", lab.up())
        lab.await_members(ws7=True)
        told = lab.say("ws7", "leave")
        assert "still to end" not in told, "its executor has ended"
        assert not (lab.home("ws7") / "grids" / "lab").exists()
        until(
            lambda: "ws7" not in lab.members() or not lab.members()["ws7"]["is_here"], timeout=PATIENCE, what="its end"
        )
        assert lab.running["ws7"].wait() == 1
        lab.join("ws7", lab.invite())  # the name is free again
        lab.await_members(ws7=True)

    def test_watching_shows_who_comes(self, lab: Site) -> None:
        token = lab.up("--hub-only")
        watch = Process(
            [PHALANX, "members", "--watch"],
            title="members --watch",
            files=lab.folder / "watch",
            cwd=lab.folder,
            env=lab.env("hub"),
        )
        lab.started.append(watch)
        until(lambda: watch.lines(), timeout=PATIENCE, what="the table")
        lab.join("ws7", token)
        until(
            lambda: "executor ws7 is here, at 127.0.0.1:" in watch.stdout(), timeout=PATIENCE, what="ws7 in the watch"
        )
        watch.signal(signal.SIGINT)
        assert watch.wait() == 130

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_hub_ends_well(self, lab: Site, number: signal.Signals) -> None:
        lab.up()
        lab.running["hub"].signal(number)
        assert lab.running["hub"].wait() == 0
        lab.up("--hub-only")
        lab.running["hub"].signal(number)
        assert lab.running["hub"].wait() == 0


def test_two_grids_of_one_name_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with site(tmp_path / "one") as one, site(tmp_path / "two") as two:
        one.say("../ada", "join", "--no-start", "--name", "ada", one.up())
        token = two.up()
        assert "another grid called lab: choose a name for this one with --as NAME" in two.error(
            "../ada", "join", "--no-start", token
        )
        two.say("../ada", "join", "--no-start", "--name", "ada", "--as", "lab2", token)
        names = [it["grid"] for it in json.loads(two.say("../ada", "grids", "--json"))]
        assert names == ["lab", "lab2"]
