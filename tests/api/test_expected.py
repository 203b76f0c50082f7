"""Whom callers expect: a member with a valid certificate of another name stands in for an executor, at its port."""

from __future__ import annotations

import json
import pickle
import random
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import phalanx as px
import pytest
from api.executors import PHALANX, Executors
from click.testing import CliRunner, Result
from phalanx import _native
from phalanx.cli import commands
from phalanx.hosts import read_hosts


def fixed_port() -> int:
    """A free port of those that the system gives to nobody by itself: who answers there is remembered."""
    while True:
        port = random.randrange(20_000, 32_000)
        with suppress(OSError), socket.socket() as tried:
            tried.bind(("127.0.0.1", port))
            return port


class Place:
    """A port of this machine at which one executor after the other answers."""

    def __init__(self, folder: Path, policy: px.Rules) -> None:
        self.folder = folder
        self.policy = policy
        self.executors = Executors(folder)
        self.address = f"127.0.0.1:{fixed_port()}"
        self.exported = folder / "exported"
        self.exported.mkdir()
        (folder / "file").write_text("1")

    @property
    def known(self) -> Path:
        return self.folder / "known_members"

    def answer(self, name: str) -> None:
        """From now on the executor of this name answers. Only the port leads to it, as to another machine."""
        self.end()
        runtime = self.folder / f"run-{name}"
        runtime.mkdir(exist_ok=True)
        env = {"PHALANX_HOME": str(self.folder / f"home-{name}"), "XDG_RUNTIME_DIR": str(runtime)}
        self.executors.start(name, "--export", f"{self.exported}:rw", env=env, listen=self.address)

    def end(self) -> None:
        for process in self.executors.started:
            process.kill()
        self.executors.started.clear()

    def grid(self, line: str = "{}") -> px.Grid:
        return px.Grid([line.format(self.address)], identity=self.executors.identity, policy=self.policy)

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(commands, [*words], standalone_mode=False)


@pytest.fixture
def place(tmp_path: Path, links: px.Rules) -> Iterator[Place]:
    there = Place(tmp_path, links)
    yield there
    there.end()


def farm(place: Place, grid: px.Grid) -> None:
    with grid.manager(contract=px.ParDegree(1)) as manager:
        assert list(manager.map(abs, [-1])) == [1]


def mpirun(place: Place, grid: px.Grid) -> None:
    assert grid.mpirun(["echo", "hello"], n=1, capture_output=True).stdout == "hello\n"


def space(place: Place, grid: px.Grid) -> None:
    with grid.space("jobs") as opened:
        opened.out("x", 1)


def copy(place: Place, grid: px.Grid) -> None:
    [machine] = grid.machines
    assert grid.copy(place.folder / "file", f"{machine}:{place.exported}/", anew=True).failed == 0


def files(place: Place, grid: px.Grid) -> None:
    [machine] = grid.machines
    with grid.files(machine) as there:
        assert there.peer in ("ws7", "ws8")


MODELS = [farm, mpirun, space, copy, files]


@pytest.mark.parametrize("model", MODELS)
def test_another_member_does_not_stand_in_for_an_executor(place: Place, model: Callable[..., None]) -> None:
    named, renamed, typed = place.grid("ws7 = {}"), place.grid("fast = {} as ws8"), place.grid()
    place.answer("ws7")
    model(place, named)
    assert not place.known.exists(), "a machine that is named is not remembered"
    model(place, typed)
    assert place.known.read_text().split()[::2] == ["ws7", place.address]
    with pytest.raises(px.errors.IdentityError, match=r"(?m)ws7 answers, but ws8 is expected: .*as ws7$"):
        model(place, renamed)
    place.answer("ws8")
    with pytest.raises(px.errors.IdentityError, match=rf"(?m)ws8 answers, but ws7 .*ws7 = {place.address} as ws8$"):
        model(place, named)
    with pytest.raises(px.errors.IdentityError, match="ws8 answers, but ws7 answered there before") as refused:
        model(place, typed)
    assert str(refused.value).endswith(f"phalanx known forget --file {place.known} {place.address}")
    model(place, renamed)


def test_a_member_that_was_forgotten_may_be_another_one(place: Place) -> None:
    typed = place.grid()
    place.answer("ws7")
    files(place, typed)
    place.answer("ws8")
    with pytest.raises(px.errors.IdentityError) as refused:
        files(place, typed)
    [member] = json.loads(place.run("known", "list", "--json", "--file", str(place.known)).output)
    assert (member["name"], member["address"]) == ("ws7", place.address)
    words = str(refused.value).rpartition("accept it with: phalanx ")[2].split()
    assert words == ["known", "forget", "--file", str(place.known), place.address]
    assert place.run(*words).output == f"forgotten: ws7 at {place.address}\n"
    files(place, typed)
    assert place.run("known", "list", "--file", str(place.known)).output.startswith(f"{place.address} ws8 ")
    again = place.run("known", "forget", "--file", str(place.known), "other:7400").exception
    assert isinstance(again, px.errors.IdentityError)
    assert "nobody is known at other:7400" in str(again)


def test_members_that_programs_meet_at_the_same_time_are_remembered_once(place: Place) -> None:
    place.answer("ws7")
    program = "import phalanx as px, sys; print(px.Files(sys.argv[1], identity=sys.argv[2]).peer)"
    command = [sys.executable, "-c", program, place.address, str(place.executors.identity)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [process.communicate(timeout=60)[0] for process in started] == ["ws7\n"] * 4
    assert len(place.known.read_text().splitlines()) == 1
    assert place.known.stat().st_mode & 0o777 == 0o600


def test_a_damaged_file_is_named_with_its_line(place: Place) -> None:
    place.answer("ws7")
    place.known.write_text("# fine\nws7 lab:7400\n")
    place.known.chmod(0o600)
    with pytest.raises(px.errors.IdentityError, match=r"known_members, line 2: this is not NAME GRID ADDRESS"):
        files(place, place.grid())
    place.known.chmod(0o666)
    with pytest.raises(px.errors.IdentityError, match=r"others may write it; first: chmod 600 "):
        files(place, place.grid())
    files(place, place.grid("ws7 = {}"))


def test_ports_that_the_system_chose_are_not_remembered(tmp_path: Path) -> None:
    with Executors(tmp_path) as executors:
        address = executors.start("ws7", env={"PHALANX_HOME": str(tmp_path)})
        with px.Files(address, identity=executors.identity) as there:
            assert there.peer == "ws7"
        assert not (tmp_path / "known_members").exists()
        with pytest.raises(px.errors.IdentityError, match="ws7 answers, but ws8 is expected"):
            px.Files("ws8", hosts=[f"ws8 = {address}"], identity=executors.identity)


def test_a_space_keeps_whom_it_expects_when_it_travels(place: Place) -> None:
    place.answer("ws7")
    with place.grid("ws7 = {}").space("jobs") as opened:
        sent = pickle.dumps(opened)
    with pickle.loads(sent) as arrived:
        arrived.out("x", 1)
    place.answer("ws8")
    with pytest.raises(px.errors.IdentityError, match="ws8 answers, but ws7 is expected"):
        pickle.loads(sent)


def test_a_space_of_a_hosts_file_expects_the_machines_of_the_file(place: Place) -> None:
    hosts = place.folder / "hosts.txt"
    hosts.write_text(f"ws7 = {place.address}\n")
    options: dict[str, Any] = {"identity": place.executors.identity, "policy": place.policy}
    place.answer("ws7")
    with px.Space(f"{hosts}/jobs", **options) as opened:
        opened.out("x", 1)
    place.answer("ws8")
    with pytest.raises(px.errors.IdentityError, match="ws8 answers, but ws7 is expected"):
        px.Space(f"{hosts}/jobs", **options)
    with pytest.raises(px.errors.IdentityError, match="ws8 answers, but ws7 is expected"):
        px.Space(f"{place.address}/jobs", certificates={place.address: "ws7"}, **options)


def test_the_name_is_shown_beside_the_level(place: Place) -> None:
    place.answer("ws7")
    grid = place.grid("ws7 = {}")
    report = grid.copy(place.folder / "file", f"ws7:{place.exported}/")
    assert report.peers == ["ws7"]
    options = ["--identity", str(place.executors.identity), "--policy", str(place.policy.path)]
    shown = place.run("cp", *options, str(place.folder / "file"), f"{place.address}:{place.exported}/again")
    assert "private with ws7: " in shown.output
    space(place, grid)
    shown = place.run("space", "info", *options, f"{place.address}/jobs")
    assert "server ws7" in " ".join(shown.output.replace("│", " ").split())
    facts = json.loads(place.run("space", "info", "--json", *options, f"{place.address}/jobs").output)
    assert (facts["level"], facts["peer"]) == ("private", "ws7")


def test_an_own_process_without_a_certificate_is_said_to_be_one(tmp_path: Path) -> None:
    with px.Space() as owner:
        address = owner.serve(f"unix:{tmp_path / 's'}")
        shown = CliRunner().invoke(commands, ["space", "info", address], standalone_mode=False).output
        assert "server this user's, without certificate" in " ".join(shown.replace("│", " ").split())


def test_explain_tells_who_must_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHALANX_HOME", str(tmp_path))
    (tmp_path / "known_members").write_text(f"ws9 {'0' * 32} 127.0.0.3:7400\n")
    (tmp_path / "known_members").chmod(0o600)
    hosts = tmp_path / "hosts.txt"
    hosts.write_text("ws7 = 127.0.0.1\nfast = 127.0.0.2 as ws8\n127.0.0.3\n127.0.0.4\n")
    rows = json.loads(CliRunner().invoke(commands, ["explain", str(hosts), "--json"]).output)
    proves = {row["other"]: row["proves"] for row in rows}
    assert proves == {"ws7": "ws7", "fast": "ws8", "127.0.0.3:7400": "ws9", "127.0.0.4:7400": None}
    shown = CliRunner().invoke(commands, ["explain", str(hosts)]).output
    assert "fast (ws8)" in shown
    assert "127.0.0.3:7400 (ws9)" in shown
    assert "the first member that answers will be remembered" in shown


def test_lists_of_machines_tell_names_in_certificates() -> None:
    known = read_hosts(["ws7 = a:7400", "fast = b as ws8", "c 7401 as WS9", "<d, 7402>", "ws7b = a:7400 as ws7"])
    assert known is not None
    assert known.certificates == {"a:7400": "ws7", "b:7400": "ws8", "c:7401": "WS9"}
    assert known.only(["fast", "d"]).certificates == {"b:7400": "ws8"}
    assert px.Grid("a,b").certificates == {}
    with pytest.raises(px.errors.RecruitError, match="one certificate is at a:7400, not those of ws7 and ws8"):
        px.Grid(["ws7 = a", "ws8 = a"])
    for line in ("ws7 = a as", "ws7 = a as -x", "ws7 = a as b c", "a as b.c"):
        with pytest.raises(px.errors.RecruitError, match="is not: machine port, or: name = machine:port as CERT"):
            px.Grid([line])


def test_replicas_are_known_by_their_names(tmp_path: Path) -> None:
    """A list of machines that is wrong about one of them is found out before a space is made there."""
    with Executors(tmp_path) as executors:
        env = {"XDG_RUNTIME_DIR": str(tmp_path / "run")}
        (tmp_path / "run").mkdir()
        addresses = [
            executors.start(name, "--directory", str(tmp_path / name), env=env) for name in ("ws1", "ws2", "ws3")
        ]
        right = [f"ws{at} = {address}" for at, address in enumerate(addresses, 1)]
        with pytest.raises(px.errors.IdentityError, match="ws3 answers, but ws9 is expected"):
            px.Grid([*right[:2], f"ws9 = {addresses[2]}"], identity=executors.identity).space("jobs", replicas=3)
        with px.Grid(right, identity=executors.identity).space("jobs", replicas=3) as jobs:
            assert {replica.name for replica in jobs.info().replicas} == {"ws1", "ws2", "ws3"}


def test_a_command_line_refuses_the_stand_in(place: Place) -> None:
    place.answer("ws8")
    hosts = place.folder / "hosts.txt"
    hosts.write_text(f"ws7 = {place.address}\n")
    command = [
        PHALANX,
        "ls",
        "--hosts",
        str(hosts),
        "--identity",
        str(place.executors.identity),
        f"ws7:{place.exported}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert f"{place.address}: ws8 answers, but ws7 is expected" in done.stderr
    assert _native.known_members(place.known) == []
