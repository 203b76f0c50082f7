"""Members behind NATs: two private networks with the same addresses, whose routers let out connections to port 443
only, and a hub on the internet between them. Programs are written as if there were no networks."""

from __future__ import annotations

import json
import random
import signal
import sys
from pathlib import Path

import pytest
from cluster.grid import Farm

from laboratory.grid import PHALANX
from laboratory.hub import NAME, PATIENCE, HubGrid, Joined, User
from laboratory.lab import Host, Lab, Network
from laboratory.processes import Process, freeze, until

SIZE = 20_000_000
#: What both private networks have: the first host of each is 10.0.0.1.
SUBNET = "10.0.0"


class Internet:
    """A hub, the user's network and a network of executors, each behind a NAT of its own."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.grid = HubGrid(lab.host("hub"))
        self.office = lab.nat("office", subnet=SUBNET, ports=[443], symmetric=True)
        self.attic = lab.nat("attic", subnet=SUBNET, ports=[443], symmetric=True)
        self.eve = self.grid.user(lab.host("desk", self.office))

    def join(self, name: str, *options: str, network: Network | None = None) -> Joined:
        """An executor, in the attic by default."""
        return self.grid.join(self.lab.host(name, network or self.attic), *options)

    def farm(self, **options: object) -> Farm:
        """A farm program at the user's desk."""
        return farm_of(self.eve, **options)


def farm_of(user: User, **options: object) -> Farm:
    """A farm program of a user on all executors of the grid, also those that come later."""
    return Farm(user, [], {"joined": NAME, "degree": None, **options})


@pytest.fixture
def internet(lab: Lab) -> Internet:
    return Internet(lab)


def connections(host: Host, port: int) -> int:
    """The number of established connections of a host to or from a port (proc(5), net/tcp; a state of 1)."""
    text = host.run(["cat", "/proc/net/tcp"]).stdout().splitlines()[1:]
    ends = [line.split() for line in text]
    wanted = f":{port:04X}"
    return sum(it[3] == "01" and (it[1].endswith(wanted) or it[2].endswith(wanted)) for it in ends)


def run(user: User, program: str) -> str:
    """What a Python program of the user prints."""
    return user.desk.run([sys.executable, "-c", program], timeout=PATIENCE).stdout()


class TestModels:
    """What works between machines of which none can connect to the other."""

    def test_a_farm(self, internet: Internet) -> None:
        ws7, ws8 = internet.join("ws7"), internet.join("ws8")
        assert internet.eve.desk.address == ws7.host.address, "the networks must have the same addresses"
        farm = internet.farm()
        assert farm.complete()["tasks"] == 100
        assert {result["machine"] for result in farm.facts("result")} == {"ws7", "ws8"}
        assert ws8.process.code is None

    def test_a_space_and_its_waiting_readers(self, internet: Internet) -> None:
        internet.join("ws7")
        reader = internet.eve.desk.popen(
            [sys.executable, "-c", f"import phalanx as px; print(px.Grid({NAME!r}).space('ws7/notes').in_('a', int))"]
        )
        run(internet.eve, f"import phalanx as px; px.Grid({NAME!r}).space('ws7/notes').out('a', 7)")
        assert reader.wait(timeout=PATIENCE) == 0, reader.report()
        assert reader.stdout() == "('a', 7)\n"

    @pytest.mark.parametrize("put", [True, False])
    def test_a_copy(self, internet: Internet, put: bool) -> None:
        host = internet.lab.host("ws7", internet.attic)
        folder, here = host.home / "data", internet.eve.desk.home / "big"
        folder.mkdir()
        internet.grid.join(host, "--export", f"{folder}:rw")
        original = here if put else folder / "big"
        original.write_bytes(random.Random(1).randbytes(SIZE))
        there = f"ws7:{folder / 'big'}"
        src, dst = (str(here), there) if put else (there, str(here))
        done = internet.eve.phalanx("cp", "--grid", NAME, "--json", src, dst)
        said = json.loads(done.lines()[-1])
        assert (said["files"], said["bytes"], said["level"]) == (1, SIZE, "private")
        assert here.read_bytes() == (folder / "big").read_bytes()

    def test_files_by_fsspec(self, internet: Internet) -> None:
        host = internet.lab.host("ws7", internet.attic)
        (host.home / "data").mkdir()
        (host.home / "data" / "note").write_text("hello")
        internet.grid.join(host, "--export", f"{host.home / 'data'}:rw")
        program = f"import fsspec; there = fsspec.filesystem('phalanx', host='ws7', hosts={NAME!r}); "
        program += f"print(there.cat_file({str(host.home / 'data' / 'note')!r}))"
        assert run(internet.eve, program) == "b'hello'\n"

    def test_ranks_of_one_machine_pass_messages_and_those_of_several_are_refused_at_once(
        self, internet: Internet
    ) -> None:
        internet.join("ws7")
        internet.join("ws8")

        def mpirun(processes: int) -> Process:
            command = ["mpirun", "--grid", NAME, "-n", str(processes), "echo", "hello"]
            return internet.eve.desk.run([PHALANX, *command], timeout=PATIENCE, check=False)

        assert mpirun(2).stdout().count("hello") == 2
        refused = mpirun(4)
        assert refused.code != 0, refused.report()
        assert "ws7, ws8 are reached only through the hub" in refused.stderr(), refused.report()
        assert "hello" not in refused.stdout()


class TestPaths:
    """Direct where that works, and never to another machine that has the same address."""

    def test_members_of_one_network_are_connected_directly(self, internet: Internet) -> None:
        ws7 = internet.grid.join(internet.lab.host("ws7", internet.office))
        farm = internet.farm(seconds=0.1)
        farm.results(at_least=1)
        assert connections(ws7.host, 7400) > 0
        farm.complete()

    def test_the_machine_that_has_the_members_address_here_is_not_the_member(self, internet: Internet) -> None:
        """The executor ws7 is at 10.0.0.2 of its network, where the user's own network has another executor."""
        neighbour = internet.lab.host("neighbour", internet.office)
        ws8 = internet.lab.host("ws8", internet.attic)
        ws7 = internet.lab.host("ws7", internet.attic)
        assert neighbour.address == ws7.address
        internet.grid.join(neighbour)
        internet.grid.join(ws8)
        internet.grid.join(ws7)
        farm = internet.farm()
        farm.complete()
        assert {"neighbour", "ws7", "ws8"} == {result["machine"] for result in farm.facts("result")}


class TestLosses:
    """Nothing is lost or doubled, whatever happens to the hub and to members behind it."""

    @pytest.mark.parametrize("fault", ["freeze", "silence", "kill"])
    def test_a_relayed_member_that_is_lost_is_noticed_and_its_work_done_elsewhere(
        self, internet: Internet, fault: str
    ) -> None:
        left, _ = internet.join("left"), internet.join("right")
        farm = internet.farm(seconds=0.1)
        farm.results(at_least=20)
        until(lambda: farm.interpreters("left"), timeout=PATIENCE, what="a result from left")
        if fault == "silence":
            left.host.cable.silence()
        for pid in left.host.pids() if fault == "freeze" else ():
            freeze(pid)
        if fault == "kill":
            left.process.signal(signal.SIGKILL)
        assert farm.complete()["tasks"] == 100

    def test_a_member_that_moves_behind_a_nat_loses_no_work(self, internet: Internet) -> None:
        near = internet.grid.user(internet.lab.host("near"), "ada")
        laptop, _ = internet.grid.join(internet.lab.host("laptop")), internet.join("right")
        farm = farm_of(near, seconds=0.1, count=300)
        until(lambda: farm.interpreters("laptop"), timeout=PATIENCE, what="a result from the laptop")
        before = farm.interpreters("laptop")
        laptop.host.move(internet.attic)
        until(
            lambda: farm.interpreters("laptop") - before, timeout=PATIENCE, what="a result from the laptop's new place"
        )
        farm.complete()

    def test_programs_with_direct_links_do_not_notice_that_the_hub_is_killed(self, internet: Internet) -> None:
        near = internet.grid.user(internet.lab.host("near"), "ada")
        internet.grid.join(internet.lab.host("ws7"))
        farm = farm_of(near, seconds=0.1)
        farm.results(at_least=10)
        internet.grid.process.kill()
        summary = farm.complete()
        assert (summary["tasks"], summary["lost"]) == (100, 0)
        internet.grid.start()
        internet.grid.wait_for("ws7")
        assert farm_of(near).complete()["tasks"] == 100

    def test_relayed_work_goes_on_when_the_hub_was_killed_and_is_back(self, internet: Internet) -> None:
        internet.join("ws7")
        farm = internet.farm(seconds=0.1)
        farm.results(at_least=20)
        internet.grid.process.kill()
        internet.grid.start()
        assert farm.complete()["tasks"] == 100
        assert internet.grid.members(internet.eve.desk)["ws7"]["is_here"]

    def test_a_manager_uses_a_member_that_joins_while_it_runs(self, internet: Internet) -> None:
        internet.join("ws7")
        farm = internet.farm(seconds=0.1, count=200)
        farm.results(at_least=5)
        internet.join("ws8")
        until(lambda: farm.interpreters("ws8"), timeout=PATIENCE, what="a result from the newcomer")
        farm.complete()


class TestExpelled:
    """An expelled member has no link left, and gets none."""

    @pytest.mark.parametrize("relayed", [True, False])
    def test_the_links_of_an_expelled_machine_end(self, internet: Internet, relayed: bool) -> None:
        user = internet.eve if relayed else internet.grid.user(internet.lab.host("near"), "ada")
        networks = [internet.attic] * 2 if relayed else [internet.lab.lan] * 2
        left, _ = (internet.join(name, network=at) for name, at in zip(("left", "right"), networks, strict=True))
        farm = farm_of(user, seconds=0.1, count=200)
        until(lambda: farm.interpreters("left"), timeout=PATIENCE, what="a result from left")
        internet.grid.expel("left")
        port = 443 if relayed else 7400
        until(lambda: not connections(left.host, port), timeout=PATIENCE, what="the end of the links of left")
        farm.complete()
        assert "left" not in internet.grid.members()

    def test_the_links_of_an_expelled_user_end_and_its_work_with_them(self, internet: Internet) -> None:
        ws7 = internet.join("ws7")
        farm = internet.farm(seconds=1000, patience=1)
        working = [pid for _, pid in farm.fired(at_least=2)]
        internet.grid.expel("eve")
        until(
            lambda: not any(Path(f"/proc/{pid}").exists() for pid in working),
            timeout=PATIENCE,
            what="the end of the interpreters of the expelled user",
        )
        farm.failure()
        assert ws7.process.code is None
        farm_of(internet.eve, patience=1).failure()  # nor does it get any other link
