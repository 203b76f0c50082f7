"""A grid of two executors on this machine: names of machines, and all that is made from a grid."""

from __future__ import annotations

import inspect
import pickle
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import phalanx as px
import pytest
from api.executors import PHALANX, Executors
from click.testing import CliRunner, Result
from conftest import Eventually
from phalanx import _native
from phalanx.cli import commands
from phalanx.hosts import read_hosts
from phalanx.launching import BspOptions, LaunchOptions, MpiOptions, RunOptions, _run
from phalanx.manager import ManagerOptions
from phalanx.space._option_types import GridSpaceOptions, MoreOptions, ServeOptions
from phalanx.space._serve import serving, start
from phalanx.transfer._copy import CopyOptions
from phalanx.transfer._sync import SyncOptions

from laboratory import identities


def _identity(folder: Path) -> Path:
    """The identity of a user of a grid that has no machines."""
    path = folder / "user.pem"
    identities.write(path, _native.issue_member(_native.create_grid(), "user", "ada"))
    return path


@dataclass
class Lab:
    """Two executors that a hosts file names, a folder that the first exports, and the user's identity."""

    hosts: Path
    scratch: Path
    identity: Path
    addresses: list[str]

    @property
    def grid(self) -> px.Grid:
        return px.Grid(self.hosts, identity=self.identity)

    def run(self, *words: str) -> Result:
        options = ["--hosts", str(self.hosts), "--identity", str(self.identity)]
        return CliRunner().invoke(commands, [*words, *options], standalone_mode=False)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    scratch = folder / "scratch"
    scratch.mkdir()
    with Executors(folder) as executors:
        home = {"PHALANX_HOME": str(folder)}
        addresses = [
            executors.start("labpc1", "--export", f"{scratch}:rw", env=home),
            executors.start("labpc2", env=home),
        ]
        hosts = folder / "hosts.txt"
        lines = [f"ws{at + 6} = {address} as labpc{at}\n" for at, address in enumerate(addresses, 1)]
        hosts.write_text("".join(lines))
        yield Lab(hosts, scratch, executors.identity, addresses)


@pytest.mark.parametrize(
    ("text", "machines"),
    [
        ("ws7 = 10.0.0.7:7300\nlab 7401", {"ws7": "10.0.0.7:7300", "lab": "lab:7401"}),
        ("ws7=10.0.0.7  # a desktop", {"ws7": "10.0.0.7:7400"}),
        ("ws-7.lab = <lab, 7402>", {"ws-7.lab": "lab:7402"}),
        ("six = [::1]:7400", {"six": "[::1]:7400"}),
        ("lab:7400\nlab:7401", {"lab": "lab:7400", "lab:7401": "lab:7401"}),
        ("lab = other:7400\nlab:7401", {"lab": "other:7400", "lab:7401": "lab:7401"}),
        ("lab:7401\nlab = other:7400", {"lab:7401": "lab:7401", "lab": "other:7400"}),
    ],
)
def test_hosts_files_name_machines(tmp_path: Path, text: str, machines: dict[str, str]) -> None:
    (tmp_path / "hosts.txt").write_text(text)
    hosts = px.Hosts(tmp_path / "hosts.txt")
    assert hosts.machines == machines
    assert sorted(hosts.addresses) == sorted(machines.values())
    assert [hosts.address(name) for name in machines] == list(machines.values())


@pytest.mark.parametrize("text", ["ws7 = ws7 = lab", "= lab:7400", "ws7 =", "ws 7 = lab:7400", "trusted = 10.0.0.0/8"])
def test_lines_that_name_no_machine(tmp_path: Path, text: str) -> None:
    (tmp_path / "hosts.txt").write_text(f"lab:7400\n{text}\n")
    with pytest.raises(px.errors.RecruitError, match=r"line 2: .* is not: (machine port|trusted NETWORK)"):
        px.Hosts(tmp_path / "hosts.txt")


def test_two_machines_with_one_name() -> None:
    with pytest.raises(px.errors.RecruitError, match="two machines are called ws7: a:7400 and b:7400"):
        px.Grid(["ws7 = a", "ws7 = b"])


def test_a_name_goes_before_a_host_and_a_host_before_the_default_port() -> None:
    grid = px.Grid(["a = b:7401", "c = a:7402"])
    assert [grid.address(machine) for machine in ("a", "b", "c", "d", "d:1")] == [
        "b:7401",
        "b:7401",
        "a:7402",
        "d:7400",
        "d:1",
    ]


def test_machines_come_from_files_texts_and_lists(tmp_path: Path) -> None:
    file = tmp_path / "hosts.txt"
    file.write_text("one:7400\nother:7401\n")
    wanted = ["one:7400", "other:7401"]
    ways: list[Any] = [file, str(file), px.Hosts(file), "one:7400, other:7401", "one,other:7401", wanted, iter(wanted)]
    for way in ways:
        hosts = read_hosts(way)
        assert hosts is not None
        assert hosts.addresses == wanted, way
    assert read_hosts(None) is None
    with pytest.raises(px.errors.RecruitError, match="the hosts file nosuch cannot be read"):
        px.Grid("nosuch")
    with pytest.raises(px.errors.RecruitError, match="the list of machines is empty"):
        px.Grid([])


def test_a_part_of_a_grid_keeps_the_rest(lab: Lab) -> None:
    grid = px.Grid(lab.hosts, identity=lab.identity, policy="marked", trusted="10.0.0.0/8").only("ws8")
    assert grid.machines == {"ws8": lab.addresses[1]}
    assert grid.reach[1:] == (lab.identity, "marked", ("10.0.0.0/8",))
    with pytest.raises(px.errors.RecruitError, match="no machine is called 'ws9'; there are ws8"):
        grid.only("ws9")
    with pytest.raises(px.errors.RecruitError, match="this grid is this machine"):
        px.Grid().only("ws7")


def test_networks_are_trusted_by_the_grid_and_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "hosts.txt").write_text("lab\ntrusted 10.1.0.0/16\n")
    grid = px.Grid(tmp_path / "hosts.txt", trusted=["10.2.0.0/16", "10.1.0.0/16"])
    assert grid.reach.words() == ("links", ["10.2.0.0/16", "10.1.0.0/16"], None)
    assert pickle.loads(pickle.dumps(grid)).only("lab").reach.words() == grid.reach.words()


def test_a_manager_recruits_from_all_machines_or_from_some(lab: Lab, eventually: Eventually) -> None:
    with lab.grid.manager(contract=px.ParDegree(4)) as manager:
        assert list(manager.map(abs, range(-100, 0))) == list(range(100, 0, -1))
        eventually(lambda: {one.machine for one in manager.summary().interpreters} == {*lab.addresses})
    with lab.grid.only("ws8").manager(contract=px.ParDegree(2)) as manager:
        assert list(manager.map(abs, range(-10, 0))) == list(range(10, 0, -1))
        assert {one.machine for one in manager.summary().interpreters} == {lab.addresses[1]}


def test_programs_run_on_all_machines_or_on_some(lab: Lab) -> None:
    ran = lab.grid.mpirun(["echo", "hello"], n=4, capture_output=True)
    assert (ran.stdout, {rank.machine for rank in ran.ranks}) == ("hello\n" * 4, {"labpc1", "labpc2"})
    ran = lab.grid.only("ws7").bsprun(["echo", "hello"], n=2, checkpoint=0, capture_output=True)
    assert (ran.stdout, {rank.machine for rank in ran.ranks}) == ("hello\n" * 2, {"labpc1"})


def test_copies_and_files_take_names(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "x").write_text("1")
    place = lab.scratch / "data"
    assert lab.grid.copy(tmp_path / "data", f"ws7:{place}").files == 1
    assert (place / "x").read_text() == "1"
    (place / "y").write_text("2")
    assert lab.grid.sync(f"ws7:{place}", tmp_path / "data", dry_run=True).changes != []
    assert lab.grid.sync(f"ws7:{place}", tmp_path / "data", checksum=True).failures == []
    assert (tmp_path / "data" / "y").read_text() == "2"
    with lab.grid.files("ws7", level="private") as files:
        assert sorted(entry.path for entry in files.entries(place)) == ["x", "y"]
        assert files.level == "private"
    back = px.copy(f"ws7:{place}/y", tmp_path / "z", hosts=lab.hosts, identity=lab.identity)
    assert (back.files, (tmp_path / "z").read_text()) == (1, "2")


def test_spaces_are_at_the_first_machine_or_at_a_named_one(lab: Lab) -> None:
    assert lab.grid.space_address("jobs") == f"{lab.addresses[0]}/jobs"
    assert lab.grid.space_address("ws8/jobs") == f"{lab.addresses[1]}/jobs"
    with lab.grid.space("jobs", order="fifo") as jobs, lab.grid.space("ws7/jobs") as same:
        jobs.out("job", 1)
        assert same.in_("job", int, timeout=30) == ("job", 1)
        assert same.info().options["order"] == "fifo"
    with lab.grid.space("ws8/jobs") as other:
        assert other.inp("job", int) is None


def test_a_space_is_spread_over_all_machines(lab: Lab) -> None:
    with lab.grid.space("work", placement="hash(1)") as work:
        work.out_many(("item", number) for number in range(100))
        with lab.grid.space("ws7/work") as one, lab.grid.space("ws8/work") as other:
            counts = one.count("item", int), other.count("item", int)
        assert min(counts) > 0
        assert sum(counts) == work.count("item", int) == 100
    with lab.grid.space(["ws8/work", "ws7/work"], placement="hash(1)") as again:
        assert again.count("item", int) == 100


def test_replicas_are_at_the_first_machines() -> None:
    with pytest.raises(px.errors.SpaceError, match="3 replicas need 3 members, but there are 2"):
        px.Grid(["a = 127.0.0.1:9", "b = 127.0.0.1:10"]).space("jobs", replicas=3)


def test_a_space_without_a_machine() -> None:
    with pytest.raises(px.errors.SpaceError, match=r"write MACHINE/jobs, or px\.Grid\(hosts\)"):
        px.Grid().space("jobs")
    assert px.Grid().space_address("unix:/run/s/jobs") == "unix:/run/s/jobs"


def test_a_machine_called_redis_is_one_of_the_grid(tmp_path: Path) -> None:
    grid = px.Grid(["redis:7400"], identity=tmp_path / "nobody.pem")
    assert grid.space_address("redis:7400/jobs") == "redis:7400/jobs"
    with pytest.raises(px.IdentityError, match="nobody"):
        grid.space("redis:7400/jobs")
    with pytest.raises(px.SpaceError, match="no members of a grid"):
        grid.space(["redis://one/0/jobs"], placement="owner")


def test_members_may_come_one_by_one(lab: Lab) -> None:
    names = (f"{machine}/one-by-one" for machine in lab.grid.machines)
    with lab.grid.space(names, placement="hash(1)") as space:
        space.out_many(("item", number) for number in range(100))
        with lab.grid.space(f"{list(lab.grid.machines)[1]}/one-by-one") as part:
            assert 0 < part.count("item", int) < 100


def test_a_file_does_not_hide_a_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ws7").write_text("elsewhere 7400\n")
    assert px.Grid(["ws7 = 10.0.0.7"]).space_address("ws7/jobs") == "10.0.0.7:7400/jobs"


def test_many_machines_in_one_text() -> None:
    names = [f"node{number:03}.lab.example" for number in range(40)]
    grid = px.Grid(",".join(f"{name}:7400" for name in names))
    assert list(grid.machines) == names
    assert grid.space_address(f"{'x' * 300}/jobs") == f"{'x' * 300}:7400/jobs"
    with pytest.raises(px.PhalanxError):
        px.Space(f"{'x' * 300}/jobs")


@pytest.mark.parametrize("line", ["trusted 10", "trusted 10.0.0.0/8", "runs/hosts.txt"])
def test_what_is_no_machine_in_a_list(line: str) -> None:
    with pytest.raises(px.RecruitError, match="is not"):
        px.Grid(["ws7", line])


def test_a_word_that_is_no_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnicodeEncodeError):
        px.copy(tmp_path, "ws7:/x", include="not\udcff text", identity=_identity(tmp_path))


def test_a_grid_without_machines_is_this_one() -> None:
    with px.Grid().manager(contract=px.ParDegree(1)) as manager:
        assert manager.submit(abs, -1).result() == 1
    assert px.Grid().mpirun(["echo", "hello"], n=1, capture_output=True).stdout == "hello\n"
    assert px.Grid().machines == {}


def test_commands_take_names(lab: Lab) -> None:
    (lab.scratch / "named").mkdir()
    (lab.scratch / "named" / "x").write_text("1")
    assert lab.run("ls", f"ws7:{lab.scratch}/named").output == "x\n"
    assert lab.run("cat", f"ws7:{lab.scratch}/named/x").output == "1"
    lab.run("space", "create", "ws8/made", "--order", "lifo")
    assert '"order": "lifo"' in lab.run("space", "info", "ws8/made", "--json").output
    explained = CliRunner().invoke(commands, ["explain", str(lab.hosts), "--json"], standalone_mode=False).output
    assert all(word in explained for word in ('"ws7"', '"ws8"'))


@pytest.mark.parametrize(("option", "rate"), [("100", 102_400), ("1.5m", 1_572_864), ("2MB", 2_000_000), ("0", None)])
def test_bwlimit_counts_as_rsync_does(lab: Lab, monkeypatch: pytest.MonkeyPatch, option: str, rate: int | None) -> None:
    asked = list[object]()

    def copy(*_: object, limit: object, **__: object) -> None:
        asked.append(limit)
        raise px.errors.TransferError("nothing is copied")

    monkeypatch.setattr(px.Grid, "copy", copy)
    assert isinstance(lab.run("cp", "--bwlimit", option, "x", "ws7:/x").exception, px.errors.TransferError)
    assert asked == [rate]


def test_a_program_is_ended_in_time() -> None:
    words = [PHALANX, "mpirun", "--timeout", "0.5", "-n", "2", "sleep", "1000"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 124, ended.stderr
    assert "did not end within 0.5 s and was ended" in ended.stderr


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "a policy": (lambda word: px.Grid(policy=word), px.errors.PolicyError, "'marked', 'all'"),
    "the policy of a manager": (lambda word: px.Manager(policy=word), px.errors.PolicyError, "'marked', 'all'"),
    "the policy of rules": (lambda word: px.Rules("x", policy=word), px.errors.PolicyError, "'marked', 'all'"),
    "the policy of a program": (lambda word: px.mpirun("x", policy=word), px.errors.PolicyError, "'marked', 'all'"),
    "the policy of a copy": (lambda word: px.copy("x", "h:/x", policy=word), px.errors.PolicyError, "'marked', 'all'"),
    "a level": (lambda word: px.copy("x", "h:/x", level=word), px.errors.PolicyError, "'clear', 'authenticated'"),
    "the level of files": (lambda word: px.Files("h", level=word), px.errors.PolicyError, "'clear', 'authenticated'"),
    "the level of a program": (lambda word: px.mpirun("x", level=word), px.errors.LaunchError, "clear, authenticated"),
    "a transport": (lambda word: px.mpirun("x", transport=word), px.errors.LaunchError, '"shared" or "sockets"'),
    "an order": (lambda word: px.Space(order=word), px.errors.SpaceError, "'any', 'fifo', 'lifo', 'priority'"),
    "a placement": (lambda word: px.Space(placement=word), px.errors.SpaceError, '"owner", "local" or like'),
    "a move": (lambda word: px.space.move_tuples("h/x", placement=word), px.errors.SpaceError, '"owner", "local" or'),
    "links": (lambda word: px.sync("x", "h:/x", links=word), px.errors.TransferError, '"keep", "follow" or "skip"'),
    "what is kept": (lambda word: px.copy("x", "h:/x", keep=word), px.errors.TransferError, "owner, group, "),
    "a mark": (lambda word: px.Farm(abs, secure=word), px.errors.PolicyError, "'data', 'code' or 'both'"),
    "an output": (lambda word: px.Manager(output=word), px.errors.PhalanxError, '"prefix", "plain", "off"'),
}


@pytest.mark.parametrize(("call", "error", "words"), WRONG.values(), ids=WRONG)
def test_a_wrong_word_raises_at_once_and_lists_the_right_ones(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        call("wrng")
    assert words in str(caught.value)


REACH = {"hosts", "identity", "policy", "trusted"}


def names(function: Any) -> set[str]:
    """The keywords of a function that have a name of their own."""
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return {name for name, one in inspect.signature(function).parameters.items() if one.kind in kinds}


def test_typed_options_are_those_that_functions_take() -> None:
    assert CopyOptions.__annotations__.keys() == names(px.copy) - REACH - {"src", "dst"}
    assert SyncOptions.__annotations__.keys() == names(px.sync) - REACH - {"src", "dst"}
    assert ManagerOptions.__annotations__.keys() == names(px.Manager) - REACH - {"where"}
    run = names(_run) - {"program", "n", "checkpoints", "move_slow", "survive"}
    assert LaunchOptions.__annotations__.keys() == run
    assert RunOptions.__annotations__.keys() == run - REACH
    assert MpiOptions.__annotations__.keys() == (run - REACH) | names(px.mpirun) - {"program", "n"}
    assert BspOptions.__annotations__.keys() == (run - REACH) | names(px.bsprun) - {"program", "n"}
    own = names(px.Space) - {"address", "placement"}
    assert GridSpaceOptions.__annotations__.keys() == own | MoreOptions.__annotations__.keys() - REACH - {
        "certificates",
        "hosts_file",
    }
    assert ServeOptions.__annotations__.keys() == (names(start) | names(serving)) - {"address", "creates"}
