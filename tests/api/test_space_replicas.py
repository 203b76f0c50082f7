"""Replicated spaces: three servers keep one together, and it goes on while two of them are there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import phalanx as px
import pytest
from api.conftest import said
from click.testing import CliRunner
from phalanx.cli import commands
from phalanx.space import _open

from laboratory.processes import Process, until

PHALANX = str(Path(sys.executable).with_name("phalanx"))
PROGRAM = Path(__file__).with_name("replicated_program.py")
PATIENCE = 60
NAMES = ("one", "two", "three")


class Group:
    """Three servers with certificates of one grid, at ports of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[Process] = []
        self.env = {**os.environ, "PHALANX_HOME": str(folder / "home")}
        self.grid("create")
        for name in NAMES:
            self.issue(name)
        self.ports = dict.fromkeys(NAMES, 0)
        self.servers = {name: self.start(name) for name in NAMES}

    def process(self, command: list[str], title: str) -> Process:
        files = self.folder / f"out-{len(self.processes)}"
        files.mkdir()
        self.processes.append(Process(command, title=title, files=files, cwd=self.folder, env=self.env))
        return self.processes[-1]

    def command(self, *words: str) -> str:
        process = self.process([PHALANX, *words], " ".join(words))
        assert process.wait(timeout=PATIENCE) == 0, process.report()
        return process.stdout()

    def grid(self, *words: str) -> None:
        """Run a command of `phalanx grid` in this process, where it takes milliseconds."""
        done = CliRunner().invoke(commands, ["grid", *words], env=self.env, catch_exceptions=False)
        assert done.exit_code == 0, done.output

    def issue(self, name: str) -> None:
        self.grid("issue", "--role", "executor", name, "--out", str(self.folder / f"{name}.pem"))

    def fourth(self) -> str:
        """One more server; its address."""
        self.issue("four")
        self.ports["four"] = 0
        self.start("four")
        return f"127.0.0.1:{self.ports.pop('four')}"

    def start(self, name: str) -> Process:
        """A server, at the port that it had before."""
        address = f"127.0.0.1:{self.ports[name]}"
        own = ["--identity", str(self.folder / f"{name}.pem"), "--directory", str(self.folder / name)]
        # One of them is an executor, which serves spaces beside.
        serves = ["executor", "--listen"] if name == "three" else ["space", "serve", "--address"]
        process = self.process([PHALANX, *serves, address, *own], name)
        self.ports[name] = int(process.line("listening on ", timeout=PATIENCE).split()[2].rpartition(":")[2])
        return process

    @property
    def members(self) -> list[str]:
        return [f"127.0.0.1:{port}" for port in self.ports.values()]

    def open(self, name: str = "jobs") -> px.Space:
        return px.Space(f"{self.members[0]}/{name}", replicas=3, members=self.members[1:])

    def leader(self, but: str = "") -> str:
        """Whose server has said last that it leads, one that is not frozen; there is one."""

        def leading() -> list[str]:
            live = [(name, it) for name, it in self.live() if name != but]
            lines = {name: [line for line in it.stderr().splitlines() if "lead" in line] for name, it in live}
            return [name for name, said in lines.items() if said and " leads the space" in said[-1]]

        return until(leading, timeout=PATIENCE, what="a leader")[-1]

    def live(self) -> list[tuple[str, Process]]:
        return [(name, process) for name, process in self.servers.items() if process.code is None]

    def kill_leader(self) -> str:
        name = self.leader()
        self.servers[name].kill()
        return name

    def client(self, what: str, number: int) -> Process:
        members = ",".join(self.members)
        return self.process([sys.executable, str(PROGRAM), members, what, str(self.folder), str(number)], what)


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Group]:
    monkeypatch.setenv("PHALANX_HOME", str(tmp_path / "home"))
    one = Group(tmp_path)
    yield one
    for process in one.processes:
        process.kill()


def test_a_leader_that_is_killed_under_load_loses_nothing_and_brings_nothing_back(group: Group) -> None:
    with group.open() as space:
        space.out("sum", 0)
    putting = [group.client("put", number) for number in range(2)]
    taking = [group.client("take", number) for number in range(2)]
    counting = [group.client("count", number) for number in range(2)]
    begun = [(it, word) for its, word in ((putting, "there"), (taking, "got"), (counting, "counted")) for it in its]
    until(lambda: all(said(it, word) for it, word in begun), timeout=PATIENCE, what="all clients at work")
    for _ in range(3):
        enough = [len(said(it, "there")) + 25 for it in putting]

        def more(enough: list[int] = enough) -> bool:
            return all(len(said(it, "there")) >= least for it, least in zip(putting, enough, strict=True))

        until(more, timeout=PATIENCE, what="outs from all clients")
        killed = group.kill_leader()
        group.servers[killed] = group.start(killed)
    (group.folder / "stop").touch()
    for client in [*putting, *taking, *counting]:
        assert client.wait(timeout=PATIENCE) == 0, client.report()
    tried = {(number, *serial) for number, it in enumerate(putting) for serial in said(it, "put")}
    promised = {(number, *serial) for number, it in enumerate(putting) for serial in said(it, "there")}
    taken = Counter(job for it in taking for job in said(it, "got"))
    with group.open() as space:
        until(lambda: space.info().unacknowledged == 0, timeout=2 * PATIENCE, what="nothing on its way")
        left = Counter(job[1:] for job in space.rd_all("job", int, int))
        sums = list(space.rd_all("sum", int))
    everything = taken + left
    assert len(promised) > 100
    assert promised - set(everything) == set(), "lost"
    assert {job: times for job, times in everything.items() if times > 1} == {}, "twice"
    assert set(everything) == tried, "an out that was on its way when a leader died happens, and once"
    counted = sorted(step for it in counting for step in said(it, "counted"))
    assert counted == [(number,) for number in range(len(counted))], "a commit that was made says so, and once"
    assert sums == [("sum", len(counted))]


def test_clients_go_on_by_themselves_when_the_leader_is_gone(group: Group) -> None:
    with group.open() as space, group.open() as other:
        for number in range(20):
            space.out("n", number)
        waiting = other.in_future("late", int)
        until(lambda: space.info().takers == 1, timeout=PATIENCE, what="a taker")
        group.kill_leader()
        assert space.count("n", int) == 20
        assert sorted(space.in_("n", int)[1] for _ in range(20)) == list(range(20))
        space.out("late", 1)
        assert waiting.result(timeout=PATIENCE) == ("late", 1)
        assert space.rdp("late", int) is None
        with pytest.raises(px.SpaceTimeoutError):
            space.in_("n", int, timeout=0.01)


def test_a_minority_that_is_cut_off_does_not_answer_and_most_go_on(group: Group) -> None:
    with group.open() as space:
        space.out("a", 1)
        leader = group.leader()
        others = [name for name in NAMES if name != leader]
        for name in others:
            group.servers[name].freeze()
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(space.rdp, "a", int)
            # It has the tuple, and must not say so: the others could have another leader by now.
            alone = group.servers[leader]
            until(lambda: "does not lead" in alone.stderr(), timeout=PATIENCE, what="it knows that it is alone")
            assert not reading.done()
            for name in others:
                group.servers[name].thaw()
            assert reading.result(timeout=PATIENCE) == ("a", 1)


def test_a_leader_that_is_frozen_is_left_and_says_nothing_old_when_it_goes_on(group: Group) -> None:
    with group.open() as space, group.open() as other, ThreadPoolExecutor(4) as pool:
        space.out("a", 1)
        waiting = other.in_future("late", int)
        until(lambda: space.info().takers == 1, timeout=PATIENCE, what="a taker")
        frozen = group.leader()
        # Over this connection the leader is asked while it is frozen, and nobody asks another one instead.
        raw = _open.reach(f"{group.members[NAMES.index(frozen)]}/jobs", False, create=False)
        group.servers[frozen].freeze()
        old = pool.submit(raw.get, ("a", int), False, (), None, None)
        # Nobody thaws it until all of this has come: from the next leader.
        assert space.in_("a", int) == ("a", 1)
        space.out("late", 2)
        assert waiting.result(timeout=PATIENCE) == ("late", 2)
        with group.open() as new:
            assert new.rdp("a", int) is None
        group.leader(but=frozen)
        group.servers[frozen].thaw()
        with pytest.raises(px.SpaceLostError):
            old.result(timeout=PATIENCE)
        until(lambda: "does not lead" in group.servers[frozen].stderr(), timeout=PATIENCE, what="it knows")
        assert space.rdp("a", int) is None
        raw.close()
        del raw  # what was raised keeps this frame, and so its connection's socket, for a while


def test_a_member_whose_disk_is_lost_is_replaced_and_the_space_goes_on(group: Group, tmp_path: Path) -> None:
    with group.open() as space:
        for number in range(30):
            space.out("n", number)
        with pytest.raises(px.SpaceError, match="leads cannot be removed"):
            space.change_members(remove=[group.members[NAMES.index(group.leader())]])
        with pytest.raises(px.SpaceError, match="no server of spaces listens there"):
            space.change_members(add=["127.0.0.1:1"])
        with pytest.raises(px.SpaceError, match="two of its members"):
            space.change_members(add=group.members[:1])
        lost = next(name for name in NAMES if name != group.leader())
        address = group.members[NAMES.index(lost)]
        group.servers[lost].kill()
        shutil.rmtree(tmp_path / lost)
        group.servers[lost] = group.start(lost)
        before = space.info()
        assert {it.address for it in before.replicas} == set(group.members)
        # The same machine, under the same name: its old place is gone with its disk, and it gets a new one.
        space.change_members(add=[address], remove=[address])
        after = space.info()
        assert {it.address for it in after.replicas} == set(group.members)
        assert [it.name for it in after.replicas if it.leads] == [group.leader()]
        space.out("n", 30)
        # It is needed now, and has everything.
        group.kill_leader()
        assert {fields[1] for fields in space.rd_all("n", int)} == set(range(31))
        assert space.info().term > after.term
        with group.open() as again:
            assert again.count("n", int) == 31
        with pytest.raises(px.SpaceError, match="must be there"):
            space.change_members(add=[group.fourth()])
        assert space.count("n", int) == 31
    with px.Space() as alone, pytest.raises(px.SpaceError, match="no members"):
        alone.change_members(add=["a:1"])


def test_the_command_line_makes_a_replicated_space_and_changes_its_members(group: Group, tmp_path: Path) -> None:
    first, *others = group.members
    space = f"{first}/made"
    named = [word for member in others for word in ("--member", member)]
    made = json.loads(group.command("space", "create", space, "--replicas", "3", *named, "--order", "fifo", "--json"))
    assert made["options"]["order"] == "fifo"
    assert {it["address"] for it in made["replicas"]} == set(group.members)
    assert sum(it["leads"] for it in made["replicas"]) == 1
    again = group.process([PHALANX, "space", "create", space, "--replicas", "3", *named], "create again")
    assert again.wait(timeout=PATIENCE) == 3, again.report()
    shown = group.command("space", "info", space)
    assert "together by" in shown
    assert "leads" in shown
    hosts = tmp_path / "hosts.txt"
    hosts.write_text("".join(f"{member}\n" for member in ["127.0.0.1:1", *group.members]))
    fourth = group.fourth()
    changed = group.command("space", "members", f"{hosts}/made", "--add", fourth)
    assert f"{fourth} four" in changed
    assert len(changed.splitlines()) == 4
    gone = next(line.split()[0] for line in changed.splitlines() if not line.endswith("leads"))
    changed = group.command("space", "members", f"{hosts}/made", "--remove", gone, "--json")
    assert gone not in changed
    assert len(json.loads(changed)["members"]) == 3
    # Who is no member any more says so, and is no member of anything else for it.
    alone = group.process([PHALANX, "space", "info", f"{gone}/made"], "info")
    assert alone.wait(timeout=PATIENCE) == 1
    assert "does not keep it" in alone.stderr()
    assert f"{gone} " in group.command("space", "members", f"{hosts}/made", "--add", gone)
    wrong = group.process([PHALANX, "space", "create", f"{first}/other", "--member", others[0]], "create")
    assert wrong.wait(timeout=PATIENCE) == 1
    assert "--replicas" in wrong.stderr()


def test_a_member_that_comes_back_catches_up(group: Group) -> None:
    with group.open() as space:
        space.out("before")
        away = next(name for name in NAMES if name != group.leader())
        group.servers[away].kill()
        for number in range(50):
            space.out("n", number)
        assert space.in_("n", 7) == ("n", 7)
        group.servers[away] = group.start(away)
        # Now one of those goes that have all: the one that was away learns it before anything is answered.
        group.kill_leader()
        assert {fields[1] for fields in space.rd_all("n", int)} == set(range(50)) - {7}
        space.out("after")
        # Ended in order and started again, all three.
        for name, process in group.live():
            process.signal(signal.SIGTERM)
            assert process.wait(timeout=PATIENCE) == 0, name
        for name in NAMES:
            group.servers[name] = group.start(name)
        assert space.count("n", int) == 49
        assert space.inp("after") == ("after",)


def test_two_clients_make_one_space_at_once(group: Group) -> None:
    with ThreadPoolExecutor(4) as pool:
        spaces = list(pool.map(lambda _: group.open(), range(4)))
    for number, space in enumerate(spaces):
        space.out("n", number)
    assert [space.count("n", int) for space in spaces] == [4] * 4
    # The order does not matter, nor whether it is said what it is.
    backwards = px.Space(f"{group.members[2]}/jobs", replicas=3, members=group.members[:2])
    assert backwards.count("n", int) == 4
    for member in group.members:
        with px.Space(f"{member}/jobs") as plain:
            assert plain.count("n", int) == 4
            assert plain.info().options["replicas"] == sorted(group.members)
    for space in [*spaces, backwards]:
        space.close()


def test_what_cannot_be_replicated_says_so(group: Group, tmp_path: Path) -> None:
    first, second, third = group.members
    with pytest.raises(px.SpaceError, match="3 replicas need 3 members"):
        px.Space(f"{first}/a", replicas=3, members=[second])
    with pytest.raises(px.SpaceError, match="3 to 9 members"):
        px.Space(f"{first}/a", replicas=2, members=[second])
    with pytest.raises(px.SpaceError, match="HOST:PORT"):
        px.Space(replicas=3)
    with pytest.raises(px.SpaceError, match="replicas="):
        px.Space(f"{first}/a", members=[second, third])
    with pytest.raises(px.SpaceError, match="no server of spaces listens there"):
        px.Space("127.0.0.1:1/a", replicas=3, members=[second, third])
    with px.Space(f"{first}/plain"), pytest.raises(px.SpaceError, match="is not replicated"):
        px.Space(f"{first}/plain", replicas=3, members=[second, third])
    hosts = tmp_path / "hosts.txt"
    hosts.write_text("".join(f"{member}\n" for member in group.members))
    with px.Space(f"{hosts}/b", replicas=3) as space:
        space.out("a", 1)
        # A tuple that does not fit into a message between members is refused, and everything goes on.
        with pytest.raises(px.SpaceFullError):
            space.out("large", bytes(17 << 20))
        with px.Transaction(space) as transaction:
            space.out("large", 0, bytes(7 << 20), transaction=transaction)
            with pytest.raises(px.SpaceFullError):
                space.out("large", 1, bytes(7 << 20), transaction=transaction)
        assert space.in_all("large", int, bytes) == [("large", 0, bytes(7 << 20))]
        assert space.rdp("a", int) == ("a", 1)
