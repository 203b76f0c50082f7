"""The commands of a grid with a hub, where the hub is a stand-in: what they write, say and refuse."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import shutil
import socket
import stat
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import pytest
from api.joined import FakeHub, row
from click.testing import CliRunner, Result
from phalanx import _addresses, _native
from phalanx._grids import Listening, fingerprint_of_root, read_joined, read_listening
from phalanx.cli import _donating, _listening, _running, commands, leave, members, up
from phalanx.cli import join as joining
from phalanx.cli._numbers import Duration, in_units
from phalanx.cli._running import running, what_runs
from phalanx.errors import IdentityError, RecruitError

TOKEN = "phalanx1-A2xhYghleGVjdXRvcg"


class Pauses:
    """The clock of a command that waits. Its first pause does something."""

    monotonic = staticmethod(time.monotonic)

    def __init__(self, do: Callable[[], None]) -> None:
        self._do = do

    def sleep(self, seconds: float) -> None:
        self._do()


class FounderOfTokens:
    """A hub in the process of `phalanx up`."""

    def __init__(self, native: StandIn, words: tuple[Any, ...], options: dict[str, Any]) -> None:
        (self.folder,), self.native, self.options = words, native, options

    def invite(self, *words: Any) -> str:
        self.native.invited.append(words)
        return TOKEN

    def close(self) -> None:
        """Nothing runs."""


class StandIn:
    """The native functions of a hub. ``root``: the authority of the grid that tokens are for."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.root = _native.create_grid()
        self.role, self.grid = "executor", "lab"
        self.hubs, self.hub_names = ["10.0.0.5:7400"], ["labpc"]
        self.joined: list[str] = []
        self.owners: list[str] = []
        self.left: list[str] = []
        self.invited: list[tuple[Any, ...]] = []
        self.expelled: list[str] = []
        self.started: list[dict[str, Any]] = []
        self.fails: Exception | None = None
        self.closed: str | None = None
        names = ("token_parts", "join_grid", "become_owner", "found_grid", "found_member")
        for name in (*names, "hub_invite", "hub_expel", "hub_leave"):
            patch.setattr(_native, name, getattr(self, name), raising=False)
        patch.setattr(_native, "Hub", lambda *words, **options: FounderOfTokens(self, words, options), raising=False)
        patch.setattr(_native, "HubServer", self.start_hub, raising=False)
        for module in (up, joining):
            patch.setattr(module, "start_executor", self.start)
            patch.setattr(module, "Ending", lambda: self)

    @property
    def fingerprint(self) -> str:
        return fingerprint_of_root(_native.issue_member(self.root, "user", "x"))

    def token_parts(self, token: str) -> tuple[str, str, list[str], str]:
        if token != TOKEN:
            raise IdentityError("the token is damaged: copy the whole line that phalanx up or phalanx invite prints")
        return self.grid, self.role, self.hubs, self.fingerprint

    def join_grid(self, token: str, name: str) -> tuple[str, str, list[str], str, str]:
        if self.fails:
            raise self.fails
        self.joined.append(name)
        role = "user" if self.role == "owner" else self.role
        return _native.issue_member(self.root, role, name), self.grid, self.hubs, self.fingerprint, self.role

    def become_owner(self, token: str, identity: str) -> tuple[str, str, list[str], str, str]:
        if self.fails:
            raise self.fails
        name = _native.certificate_of(identity)[1]
        self.owners.append(name)
        return _native.issue_member(self.root, "user", name), self.grid, self.hubs, self.fingerprint, self.role

    def found_grid(self, authority: str, file: str, passphrase: str | None, hub: str) -> tuple[str, str]:
        assert passphrase is None
        self.root = authority
        return authority, _native.issue_member(authority, "executor", hub)

    def found_member(self, issuer: str, role: str, name: str, hours: float) -> str:
        return _native.issue_member(issuer, role, name, days=hours / 24)

    def hub_invite(self, dialler: Any, hubs: list[str], role: str, uses: int, seconds: int) -> str:
        self.invited.append((_native.certificate_of(dialler[0])[1], role, uses, seconds))
        return TOKEN

    def hub_expel(self, dialler: Any, hubs: list[str], name: str) -> int:
        self.expelled.append(name)
        return 2

    def hub_members(self, dialler: Any, hubs: list[str], programs: list[str]) -> list[tuple[Any, ...]]:
        return [(name, "hub", self.hubs[0], True, 0, 0, {}) for name in self.hub_names]

    def hub_leave(self, dialler: Any, hubs: list[str]) -> None:
        if self.fails:
            raise self.fails
        self.left.append(Path(dialler[5]).name)

    # A service, and the signals that end it.

    address, name, cage = "0.0.0.0:7400", "labpc", "files"

    status: str | None = None

    def observe(self, *_: object, **__: object) -> None:
        """The sensors have seen something."""

    #: The limits of the cage, in words.
    limits: tuple[str, ...] = ()

    def look_at_owner(self) -> None:
        """No sensor says anything."""

    def used(self) -> tuple[list[object], float]:
        return [], 0.0

    @property
    def hub_status(self) -> str | None:
        return self.status

    def wait_for_hub(self, seconds: float) -> bool:
        return self.status is None

    def start(self, listen: str, identity: Path, donating: _donating.Donating, **more: Any) -> StandIn:
        if self.fails:
            raise self.fails
        self.started.append({"listen": listen, "identity": identity, "donating": donating, **more})
        return self

    def start_hub(self, address: str, hub: Any, log_level: str) -> StandIn:
        self.started.append({"listen": address, "hub": hub})
        return self

    def wait(self, executor: object = None, hub: object = None) -> None:
        """It was ended at once."""

    def close(self) -> None:
        """Nothing runs."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    monkeypatch.setenv("PHALANX_HOME", str(folder))
    monkeypatch.setattr(_listening, "free_port", lambda host, *ports: 7400)
    monkeypatch.setattr(_listening, "machine_hosts", lambda: ["10.0.0.5", "192.168.1.5"])
    return folder


@pytest.fixture
def native(home: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    FakeHub(monkeypatch)
    return StandIn(monkeypatch)


def call(*words: str) -> Result:
    return CliRunner().invoke(commands, [*words], standalone_mode=False)


def run(*words: str) -> str:
    done = call(*words)
    assert done.exception is None, done.output
    return done.output


def error(*words: str) -> str:
    done = call(*words)
    assert isinstance(done.exception, IdentityError | RecruitError), done.output
    return str(done.exception)


def usage_error(*words: str) -> str:
    done = call(*words)
    assert isinstance(done.exception, click.UsageError), done.output
    return done.exception.format_message()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class FormerHub:
    """A hub that was expelled, and whose store has ended with it."""

    has_failed, expelled = True, "hub2 is no member of this grid, or was expelled"


def test_a_hub_that_was_expelled_is_not_said_to_have_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with pytest.raises(IdentityError, match="no hub of the grid any more: hub2 is no member"):
        _donating.Ending().wait(None, FormerHub())  # type: ignore[arg-type]


class TestUp:
    def test_the_first_time_begins_a_grid(self, home: Path, native: StandIn) -> None:
        told = run("up", "--grid", "lab", "--interpreters", "3", "--accept", "ada").splitlines()
        assert told[0].startswith("the grid lab begins; its root's key is in ")
        assert told[1:3] == ["listening on 0.0.0.0:7400 as labpc", "cage: files"]
        assert told[3:5] == ["known to the hub of the grid lab", f"phalanx join {TOKEN}"]
        assert "phalanx invite" in told[5]
        joined = read_joined("lab")
        assert joined.hubs == ("10.0.0.5:7400", "192.168.1.5:7400")
        assert joined.root == native.fingerprint
        for file in ("user.pem", "executor.pem", "hub/issuer.pem", "hub/hub.pem", "grid.json"):
            assert mode(joined.folder / file) == 0o600
        for folder in (joined.folder, joined.hub, home / "authorities" / "lab"):
            assert mode(folder) == 0o700
        assert mode(home / "authorities" / "lab" / "authority.pem") == 0o600
        owner = _native.certificate_of(joined.user.read_text())[1]
        assert native.invited == [(owner, "executor", 1, 3600)]
        (started,) = native.started
        assert started["listen"] == "0.0.0.0:7400"
        assert started["identity"] == joined.executor
        assert started["donating"].accept == ("ada",)
        assert started["hub"].folder == joined.folder
        assert started["hub"].options == {
            "grid": "lab",
            "owners": [owner],
            "addresses": ["10.0.0.5:7400", "192.168.1.5:7400"],
            "least_cage": None,
            "log_level": "info",
        }
        hubs, addresses, facts = started["grid"]
        assert addresses == ["10.0.0.5:7400", "192.168.1.5:7400"]
        assert hubs == ["127.0.0.1:7400"]
        assert facts["interpreters"] == "3"
        assert {"cores", "memory", "python", "system", "processor"} <= set(facts)
        assert all(len(fact) <= 200 for fact in facts.values())

    def test_the_next_time_starts_the_same_grid(self, home: Path, native: StandIn) -> None:
        run("up", "--grid", "lab", "--listen", "0.0.0.0:7411", "--advertise", "lab.example.org")
        before = {path: path.read_bytes() for path in home.rglob("*.pem")}
        told = run("up")
        assert TOKEN not in told
        assert "begins" not in told
        assert {path: path.read_bytes() for path in home.rglob("*.pem")} == before
        assert [started["listen"] for started in native.started] == ["0.0.0.0:7411"] * 2
        assert read_joined("lab").hubs == ("lab.example.org:7411",)

    def test_the_addresses_of_the_machine_are_looked_up_anew(
        self, home: Path, native: StandIn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run("up", "--grid", "lab")
        monkeypatch.setattr(_listening, "machine_hosts", lambda: ["10.0.0.6"])
        run("up")
        assert read_joined("lab").hubs == ("10.0.0.6:7400",)
        assert native.started[1]["hub"].options["addresses"] == ["10.0.0.6:7400"]

    def test_a_first_start_that_fails_leaves_nothing(self, home: Path, native: StandIn) -> None:
        run("up", "--grid", "other")
        native.fails = IdentityError("no cage")
        done = call("up", "--grid", "lab")
        assert str(done.exception) == "no cage"
        assert done.output.endswith("the grid lab was not begun: its files are removed\n")
        for folder in ("grids", "authorities"):
            assert [path.name for path in (home / folder).iterdir()] == ["other"]
        native.fails = None
        run("up")  # there is still only one grid
        assert f"phalanx join {TOKEN}" in run("up", "--grid", "lab")

    def test_a_later_start_that_fails_keeps_the_grid(self, home: Path, native: StandIn) -> None:
        run("up", "--grid", "lab")
        native.fails = IdentityError("no cage")
        assert error("up", "--grid", "lab") == "no cage"
        assert error("up", "--grid", "lab", "--tes", "0") == "no cage"
        assert read_joined("lab").executor.exists()

    @pytest.mark.parametrize("listen", ["300.1.1.1:5", "192.0.2.1:7400", "used", "127.0.0.1:99999"])
    def test_nothing_begins_where_nothing_can_listen(self, home: Path, native: StandIn, listen: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as used:
            listen = listen if listen != "used" else f"127.0.0.1:{used.getsockname()[1]}"
            for words in (("up", "--grid", "lab"), ("join", TOKEN)):
                done = call(*words, "--listen", listen)
                assert isinstance(done.exception, RecruitError | click.UsageError), done.output
                assert listen in str(done.exception)
            assert native.joined == []
        assert not (home / "grids").exists()
        assert not (home / "authorities").exists()

    def test_a_founding_that_was_cut_off_is_done_again(self, home: Path, native: StandIn) -> None:
        for folder in ("grids", "authorities"):
            (home / folder / ".lab.new").mkdir(parents=True)
            (home / folder / ".lab.new" / "left").touch()
        run("up", "--grid", "lab")
        assert sorted(path.name for path in (home / "grids").iterdir()) == ["lab"]
        assert sorted(path.name for path in (home / "authorities").iterdir()) == ["lab"]
        assert not (home / "grids" / "lab" / "left").exists()

    def test_the_root_of_an_earlier_grid_is_not_taken(self, home: Path, native: StandIn) -> None:
        run("up", "--grid", "lab")
        run("leave", "--with-hub")
        assert "was begun before: name another grid with --grid" in error("up", "--grid", "lab")
        run("up", "--grid", "new")

    def test_the_hub_alone(self, home: Path, native: StandIn) -> None:
        told = run("up", "--grid", "lab", "--hub-only")
        assert "listening on 0.0.0.0:7400 as the hub of lab" in told
        assert not (home / "grids" / "lab" / "executor.pem").exists()
        run("up")
        assert (home / "grids" / "lab" / "executor.pem").exists()

    def test_the_grid_has_the_name_of_the_machine(
        self, home: Path, native: StandIn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("platform.node", lambda: "Lab_PC7.example.org")
        run("up")
        assert read_joined("lab-pc7").grid == "lab-pc7"

    def test_several_hubs_need_a_name(self, home: Path, native: StandIn) -> None:
        run("up", "--grid", "one")
        run("up", "--grid", "two")
        assert "say which, --grid one or --grid two" in error("up")

    def test_the_hub_of_another_machine_is_not_started(self, home: Path, native: StandIn) -> None:
        run("join", "--no-start", TOKEN)
        assert re.search("is on another machine; .*phalanx join lab", error("up", "--grid", "lab"))

    @pytest.mark.parametrize("words", [("--listen", "7400"), ("--listen", "a b:0"), ("--advertise", "a b")])
    def test_what_is_no_address(self, home: Path, native: StandIn, words: tuple[str, str]) -> None:
        assert words[1] in usage_error("up", "--grid", "lab", *words)
        assert not (home / "grids").exists()

    def test_a_certificate_that_has_ended_is_made_anew(self, home: Path, native: StandIn) -> None:
        run("up", "--grid", "lab")
        folder = home / "grids" / "lab"
        old = _native.issue_member(native.root, "executor", "labpc9", days=1 / 86400)
        (folder / "executor.pem").write_text(old)
        deadline = time.monotonic() + 30
        while old == (folder / "executor.pem").read_text():
            assert time.monotonic() < deadline
            run("up")
        assert _native.certificate_of((folder / "executor.pem").read_text())[:2] == ("executor", "labpc9")


class TestJoin:
    def test_a_token_makes_a_member_and_starts_its_executor(self, home: Path, native: StandIn) -> None:
        told = run("join", TOKEN, "--name", "ws7", "--export", "/scratch:rw")
        assert told.splitlines()[:2] == ["joined the grid lab as ws7", "listening on 0.0.0.0:7400 as labpc"]
        joined = read_joined("lab")
        assert (joined.grid, joined.hubs, joined.root) == ("lab", ("10.0.0.5:7400",), native.fingerprint)
        assert mode(joined.folder) == 0o700
        assert mode(joined.executor) == 0o600
        (started,) = native.started
        assert started["donating"].exports == ("/scratch:rw",)
        assert started["grid"][:2] == (["10.0.0.5:7400"], [])
        assert read_listening(joined) == Listening("0.0.0.0:7400")

    def test_no_token_is_used_where_there_is_no_room(self, home: Path, native: StandIn) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (32 << 10, hard))  # as a disk that is full after 32 KB
        try:
            refused = error("join", TOKEN, "--no-start")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert "has no room for the files of a member: File too large; the token was not used" in refused
        assert native.joined == []
        assert list((home / "grids").iterdir()) == []
        run("join", TOKEN, "--no-start")
        assert not (read_joined("lab").folder / ".room").exists()

    def test_it_starts_again_by_the_name_of_the_grid(self, home: Path, native: StandIn) -> None:
        run("join", TOKEN, "--no-start")
        assert native.started == []
        run("join", "lab", "--listen", "10.0.0.7:7411")
        run("join", "lab")
        assert [started["listen"] for started in native.started] == ["10.0.0.7:7411"] * 2
        assert native.started[1]["grid"][1] == ["10.0.0.7:7411"]
        run("join", "lab", "--advertise", "lab.example.org:80")
        assert native.started[2]["grid"][1] == ["lab.example.org:80"]
        assert len(native.joined) == 1
        native.status = "no hub listens there"
        assert "knows this machine yet, and it is called again: no hub listens there" in run("join", "lab")

    def test_labels_are_told_and_kept_until_others_are_given(self, home: Path, native: StandIn) -> None:
        def told(*words: str) -> str | None:
            run(*words)
            found = native.started[-1]["grid"][2]
            assert "gpus" not in found, "was not granted"
            label = found.get("labels")
            assert label is None or isinstance(label, str)
            return label

        assert told("join", TOKEN, "--label", "lab-b", "--label", "quiet") == "lab-b quiet"
        assert told("join", "lab") == "lab-b quiet"
        assert told("join", "lab", "--label", "lab-c") == "lab-c"
        assert told("join", "lab", "--label", "") is None
        assert told("join", "lab") is None
        assert "label='a b'" in usage_error("join", "lab", "--label", "a b")
        assert "200 characters" in usage_error("join", "lab", *(f"--label={'x' * 60}{it}" for it in range(4)))

    def test_the_hub_is_told_what_programs_may_use(
        self, home: Path, native: StandIn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_native, "cores", lambda: 8)
        monkeypatch.setattr("phalanx.space._serve.memory", lambda: 20 << 30)

        def told(*words: str) -> tuple[str, str]:
            run("join", *words)
            facts = native.started[-1]["grid"][2]
            return facts["cores"], facts["memory"]

        assert told(TOKEN) == ("8", str(18 << 30))
        assert told("lab", "--memory", "1GB", "--interpreters", "2") == ("8", str(10**9))
        assert told("lab") == ("8", str(10**9)), "limits of an earlier start hold"
        assert told("lab", "--cpu", "30%") == ("2", str(18 << 30))
        assert told("lab", "--cpu", "1%", "--memory", "99TB") == ("1", str(20 << 30))

    def test_graphics_processors_are_told_where_they_are_granted(
        self, home: Path, native: StandIn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_native, "gpus", lambda: 3)
        run("join", TOKEN, "--grant", "gpu")
        assert native.started[-1]["grid"][2]["gpus"] == "3"

    def test_a_user_is_told_what_to_type_next(self, home: Path, native: StandIn) -> None:
        native.role = "user"
        told = run("join", TOKEN, "--name", "bob")
        assert told.splitlines() == [
            "joined the grid lab as bob",
            "its members: phalanx members --grid lab; in Python: px.Manager('lab')",
        ]
        assert read_joined("lab").user.exists()
        assert "has no executor to start" in error("join", "lab")

    def test_an_owner_is_told_so(self, home: Path, native: StandIn) -> None:
        native.role = "owner"
        told = run("join", TOKEN, "--name", "bob").splitlines()
        assert told[0] == "joined the grid lab as bob, an owner"
        assert told[1].startswith("its members: phalanx members --grid lab")
        assert _native.certificate_of(read_joined("lab").user.read_text())[:2] == ("user", "bob")
        assert (native.joined, native.owners) == (["bob"], [])

    def test_a_user_becomes_an_owner(self, home: Path, native: StandIn) -> None:
        native.role = "user"
        run("join", TOKEN, "--name", "bob")
        before = read_joined("lab").user.read_text()
        native.role = "owner"
        assert "this account is bob in the grid lab already: leave out --name" in error("join", TOKEN, "--name", "eve")
        native.fails = IdentityError("the token is not good here")
        assert "not good here" in error("join", TOKEN)
        assert read_joined("lab").user.read_text() == before
        native.fails = None
        assert run("join", TOKEN).startswith("joined the grid lab as bob, an owner\n")
        assert (native.joined, native.owners) == (["bob"], ["bob"])
        assert read_joined("lab").user.read_text() != before

    def test_an_owner_of_another_grid_of_that_name_is_none(self, home: Path, native: StandIn) -> None:
        native.role = "user"
        run("join", TOKEN, "--name", "bob")
        native.root, native.role = _native.create_grid(), "owner"
        assert "another grid called lab" in error("join", TOKEN)
        assert native.owners == []

    def test_one_account_may_be_both(self, home: Path, native: StandIn) -> None:
        run("join", TOKEN, "--no-start")
        native.role = "user"
        run("join", TOKEN)
        folder = read_joined("lab").folder
        assert {"user.pem", "executor.pem"} <= {path.name for path in folder.iterdir()}

    def test_whoever_has_joined_does_not_use_up_a_token(self, home: Path, native: StandIn) -> None:
        run("join", TOKEN, "--name", "ws7", "--no-start")
        told = error("join", TOKEN)
        assert "is ws7 in the grid lab already; start it with: phalanx join lab" in told
        assert "phalanx leave lab" in told
        assert native.joined == ["ws7"]

    def test_another_grid_of_the_same_name_gets_another_one(self, home: Path, native: StandIn) -> None:
        run("join", TOKEN, "--no-start")
        native.root = _native.create_grid()
        assert "another grid called lab: choose a name for this one with --as NAME" in error("join", TOKEN)
        assert len(native.joined) == 1
        assert "joined the grid lab2 as" in run("join", TOKEN, "--as", "lab2", "--no-start")
        assert read_joined("lab2").grid == "lab"

    @pytest.mark.parametrize("token", ["phalanx1-A2xhYghleGVjdXRvc", "PHALANX", "phalanx1-", "../lab"])
    def test_a_damaged_token_says_what_to_copy(self, home: Path, native: StandIn, token: str) -> None:
        assert "copy the whole line" in error("join", token)

    def test_a_name_of_no_grid_is_no_token(self, home: Path, native: StandIn) -> None:
        assert "no grid called lab, and it is no token: paste the whole line" in error("join", "lab")

    def test_a_hub_that_refuses_leaves_nothing_behind(self, home: Path, native: StandIn) -> None:
        native.fails = IdentityError("the token's time is over; ask for a new one: phalanx invite")
        assert "time is over" in error("join", TOKEN)
        assert not (home / "grids" / "lab").exists()
        native.fails = RecruitError("10.0.0.5:7400: no hub listens there")
        assert "no hub listens" in error("join", TOKEN)

    def test_a_hostile_token_makes_no_folder_elsewhere(self, home: Path, native: StandIn) -> None:
        native.grid = "../../evil"
        assert "is no name: say --as NAME" in error("join", TOKEN)
        assert run("join", TOKEN, "--as", "fine", "--no-start").startswith("joined the grid fine")
        assert read_joined("fine").grid == "fine"
        native.role, native.grid = "\x1b[2J", "lab"
        assert "the token is for the role" in error("join", TOKEN)

    def test_a_token_for_a_hub_is_refused_before_it_is_used(self, home: Path, native: StandIn) -> None:
        native.role = "hub"
        assert "phalanx up --join TOKEN" in error("join", TOKEN)

    def test_what_is_no_name_of_a_member(self, home: Path, native: StandIn) -> None:
        assert "is no name of a member" in error("join", TOKEN, "--name", "a b")
        assert native.joined == []
        run("join", TOKEN, "--no-start")
        assert "for joining with a token" in usage_error("join", "lab", "--name", "x")

    def test_the_hub_itself_is_started_with_up(self, home: Path, native: StandIn) -> None:
        run("up", "--grid", "lab")
        assert "start it with phalanx up" in error("join", "lab")

    def test_one_process_runs_a_grid(self, home: Path, native: StandIn) -> None:
        run("join", TOKEN, "--no-start")
        joined = read_joined("lab")
        with running(joined, "phalanx join lab"):
            assert what_runs(joined) == f"phalanx join lab, process {os.getpid()}"
            assert f"runs here already: phalanx join lab, process {os.getpid()}" in error("join", "lab")
        assert what_runs(joined) is None
        run("join", "lab")


class TestInvite:
    def test_the_first_line_is_the_command(self, home: Path, native: StandIn) -> None:
        run("up", "--grid", "lab")
        done = CliRunner().invoke(commands, ["invite", "--role", "user", "--uses", "3", "--for", "2d"])
        assert done.stdout == f"phalanx join {TOKEN}\n"
        assert done.stderr == "good for 3 users, for 2d\n"
        assert native.invited[-1][1:] == ("user", 3, 2 * 86400)
        assert json.loads(run("invite", "--json"))["token"] == TOKEN

    @pytest.mark.parametrize(
        ("words", "told"),
        [
            (["--for", "31d"], "31d is too long: write 30d or less"),
            (["--for", "0s"], "0s is too short: write 1s or more"),
            (["--for", "1"], "'1' is no time: write a number with s, m, h or d"),
            (["--for", "-1h"], "is no time"),
            (["--for", "1" * 400 + "d"], "… is too long: write 30d or less"),
            (["--uses", "0"], "0 is too small: write 1 or more"),
            (["--uses", "100001"], "100001 is too large: write 100000 or less"),
        ],
    )
    def test_bounds_are_told_in_words(self, home: Path, words: list[str], told: str) -> None:
        assert told in usage_error("invite", *words)

    def test_a_line_makes_one_owner(self, home: Path, native: StandIn) -> None:
        run("up", "--grid", "lab")
        done = CliRunner().invoke(commands, ["invite", "--role", "owner"])
        assert (done.stdout, done.stderr) == (f"phalanx join {TOKEN}\n", "good for one owner, for 1h\n")
        assert native.invited[-1][1:] == ("owner", 1, 3600)
        assert "leave out --uses" in usage_error("invite", "--role", "owner", "--uses", "2")

    @pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("10m", 600), ("1h", 3600), ("2d", 172800)])
    def test_times_have_units(self, text: str, seconds: int) -> None:
        assert Duration(1, 1 << 30).convert(text, None, None) == seconds
        assert in_units(seconds) == text
        assert in_units(61) == "61s"

    def test_without_a_grid_it_says_how_to_get_one(self, home: Path, native: StandIn) -> None:
        assert "has joined no grid: join one" in error("invite")

    def test_of_several_grids_one_is_named(self, home: Path, native: StandIn) -> None:
        run("up", "--grid", "one")
        run("up", "--grid", "two")
        assert "several grids: say which, with --grid one or --grid two" in error("invite")
        assert TOKEN in run("invite", "--grid", "two")


class TestMembers:
    @pytest.fixture(autouse=True)
    def _joined(self, native: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
        native.role = "user"
        run("join", TOKEN, "--name", "ada")
        self.hub = FakeHub(monkeypatch)
        self.hub.rows = [
            row("ws7", "10.0.0.7:7300", cores="4", memory="8000000000", python="3.11"),
            row("ws9", "10.0.0.9:7400", is_here=False, cores="\x1b[2J"),
            row("ada", None, role="user", is_here=False),
        ]

    def test_a_table(self) -> None:
        lines = run("members").splitlines()
        (ws7,) = [line for line in lines if "ws7" in line]
        for word in ("executor", "yes", "10.0.0.7:7300", "4 cores, 8.0 GB, Python 3.11"):
            assert word in ws7
        assert "\x1b[2J" not in "".join(lines)

    def test_addresses_are_whole_in_a_narrow_terminal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(members, "_WIDTH", 80)
        address = "workstation-7.lab.example.org:12345"
        self.hub.rows = [row("workstation-7", address, cores="4", memory="8000000000", closed="its owner uses it")]
        lines = run("members").splitlines()
        assert "workstation-7  executor" in lines[2]
        assert address in lines[2]
        assert max(map(len, lines)) <= 80
        assert "closed: its" in lines[2]
        assert "uses it" in lines[3]
        assert "machine" not in lines[0]

    def test_json(self) -> None:
        found = json.loads(run("members", "--json", "--grid", "lab"))
        assert [it["name"] for it in found] == ["ws7", "ws9", "ada"]
        assert found[0]["facts"]["cores"] == "4"

    def test_owners_are_shown(self) -> None:
        assert self.hub.rows is not None
        self.hub.rows = [
            *self.hub.rows[:2],
            row("ada", None, role="user", is_here=False, owner="yes"),
            row("bob", None, role="user", is_here=False),
            row("ws8", "10.0.0.8:7400", owner="yes"),
        ]
        shown = {line.split()[0]: line for line in run("members").splitlines()}
        assert "owner" in shown["ada"]
        assert not any("owner" in shown[name] for name in ("bob", "ws7", "ws8"))
        found = {it["name"]: it for it in json.loads(run("members", "--json"))}
        assert found["ada"]["facts"] == {"owner": "yes"}

    def test_watching_prints_changes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        answers: list[Any] = [
            [row("ws7", "10.0.0.7:7300", is_here=False), row("ws9", "10.0.0.9:7400"), row("ws8", "10.0.0.8:7400")],
            None,
            [row("ws7", "10.0.0.7:7300", is_here=False), row("ws8", "10.0.0.8:7400")],
            [row("bob", None, role="user", is_here=False)],
            [row("bob", None, role="user", is_here=False, owner="yes")],
            KeyboardInterrupt,
        ]

        def sleep(seconds: float) -> None:
            self.hub.rows = answers.pop(0)
            if self.hub.rows is KeyboardInterrupt:
                raise KeyboardInterrupt

        monkeypatch.setattr("phalanx.cli.members.time.sleep", sleep)
        done = call("members", "--watch")
        assert isinstance(done.exception, KeyboardInterrupt | click.Abort | SystemExit)
        said = [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in done.output.splitlines()]
        for line in (
            "executor ws7 has gone",
            "executor ws8 has joined",
            "executor ws8 is here, at 10.0.0.8:7400",
            "executor ws9 is here, at 10.0.0.9:7400",
            "user ada is no member any more",
            "user bob is an owner now",
            "executor ws9 is no member any more",
            "phalanx: a hub answers again",
        ):
            assert line in said


class TestEnds:
    def test_expelling_asks_first(self, home: Path, native: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(_native, "hub_members", native.hub_members)
        run("up", "--grid", "lab")
        assert "add --yes" in usage_error("expel", "ws7")
        assert native.expelled == []
        assert "ws7 is no member of the grid lab any more; 2 certificates are revoked" in run("expel", "--yes", "ws7")
        assert native.expelled == ["ws7"]

    def test_expelling_the_machine_of_the_only_hub_says_that_the_hub_stays(
        self, home: Path, native: StandIn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(_native, "hub_members", native.hub_members)
        run("up", "--grid", "lab")
        told = run("expel", "--yes", "labpc")
        assert "the executor labpc is no member of the grid lab any more" in told
        assert "stays the only hub of the grid, and starts so: phalanx up --hub-only" in told
        native.hub_names.append("pc2")
        told = run("expel", "--yes", "labpc")
        assert told.startswith("labpc is no member of the grid lab any more")
        assert "--hub-only" not in told

    def test_leaving_tells_the_hub_and_removes_the_folder(self, home: Path, native: StandIn) -> None:
        run("join", TOKEN, "--no-start")
        native.role = "user"
        run("join", TOKEN)
        (home / "spaces").mkdir()
        assert "left the grid lab; " in run("leave")
        assert native.left == ["user.pem", "executor.pem"]
        assert [path.name for path in home.iterdir()] == ["spaces"]

    def test_leaving_without_a_hub_that_answers(self, home: Path, native: StandIn) -> None:
        run("join", TOKEN, "--no-start")
        native.fails = RecruitError("no hub listens there")
        told = run("leave", "lab")
        assert "the hub was not told about executor.pem, which ends within a day: no hub listens there" in told
        assert "left the grid lab" in told

    def test_leaving_does_not_name_an_executor_that_its_hub_has_ended(
        self, home: Path, native: StandIn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run("join", TOKEN, "--no-start")
        with ExitStack() as executor:
            executor.enter_context(running(read_joined("lab"), "phalanx join lab"))
            # It ends while the command waits for that.
            monkeypatch.setattr(_running, "time", Pauses(executor.close))
            assert "still to end" not in run("leave")

    def test_leaving_says_what_still_runs(self, home: Path, native: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(leave, "_ENDING", 0.1)
        run("join", TOKEN, "--no-start")
        with running(read_joined("lab"), "phalanx join lab"):
            assert f"still to end: phalanx join lab, process {os.getpid()}" in run("leave")

    def test_a_folder_into_which_something_writes_is_removed(
        self, home: Path, native: StandIn, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run("join", TOKEN, "--no-start")
        folder, remove, tries = read_joined("lab").folder, shutil.rmtree, []

        def rmtree(path: Path) -> None:
            tries.append(path)
            if len(tries) == 1:
                raise OSError(errno.ENOTEMPTY, "Directory not empty", str(path))
            remove(path)

        monkeypatch.setattr(shutil, "rmtree", rmtree)
        assert "left the grid lab; " in run("leave")
        assert tries == [folder, folder]
        assert not folder.exists()

    def test_a_hub_is_not_left_by_mistake(self, home: Path, native: StandIn) -> None:
        run("up", "--grid", "lab")
        assert "To end the grid all the same: phalanx leave --with-hub lab" in error("leave")
        with running(read_joined("lab"), "phalanx up"):
            assert "the hub of the grid lab runs" in error("leave", "--with-hub")
        told = run("leave", "--with-hub")
        assert "the root's key is still in" in told
        assert (home / "authorities" / "lab" / "authority.pem").exists()

    @pytest.mark.parametrize("words", [("leave",), ("leave", "lab")])
    def test_a_damaged_grid_is_left(self, home: Path, native: StandIn, words: tuple[str, ...]) -> None:
        run("join", TOKEN, "--no-start")
        (home / "grids" / "lab" / "grid.json").write_text("{")
        assert "phalanx leave lab" in error("join", "lab")
        told = run(*words)
        assert "is damaged" in told
        assert "no hub was told: the membership ends within a day" in told
        assert "left the grid lab" in told
        assert native.left == []
        assert not (home / "grids").exists()
        run("join", TOKEN, "--no-start")

    def test_a_damaged_grid_of_a_hub_is_not_left_by_mistake(self, home: Path, native: StandIn) -> None:
        run("up", "--grid", "lab")
        joined = read_joined("lab")
        (joined.folder / "grid.json").write_text("{")
        refused = error("leave", "lab")
        assert "put back a copy of it" in refused
        assert refused.endswith("To remove the hub all the same: phalanx leave --with-hub lab")
        with running(joined, "phalanx up"):
            assert "the hub of the grid lab runs" in error("leave", "--with-hub", "lab")
        assert joined.hub.is_dir()
        assert "the root's key is still in" in run("leave", "--with-hub", "lab")
        assert not joined.folder.exists()

    def test_grids_are_listed(self, home: Path, native: StandIn) -> None:
        assert "none; join one with phalanx join TOKEN" in run("grids")
        assert json.loads(run("grids", "--json")) == []
        run("up", "--grid", "own")
        run("join", TOKEN, "--name", "ws7", "--no-start")
        own, lab = json.loads(run("grids", "--json"))[::-1]
        assert (own["grid"], own["is_hub"], lab["executor"], lab["user"]) == ("own", True, "ws7", None)
        assert "the hub" in run("grids")
        (home / "grids" / "lab" / "grid.json").write_text("{")
        done = call("grids")
        assert done.return_value == 1
        assert "is damaged" in done.output


class TestListening:
    def test_the_default_port_is_taken_if_it_is_free(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            monkeypatch.setattr("phalanx._addresses.PORT", port)
            other = _addresses.free_port("127.0.0.1")
        assert other not in (0, port)
        assert _addresses.free_port("127.0.0.1") == port

    def test_port_0_is_any_port_that_is_kept(self, home: Path, native: StandIn) -> None:
        run("up", "--grid", "lab", "--listen", "127.0.0.1:0")
        assert read_joined("lab").hubs == ("127.0.0.1:7400",)  # as the fixture chooses

    def test_a_host_that_is_not_of_this_machine(self) -> None:
        with pytest.raises(IdentityError, match="name another one with --listen"):
            _addresses.free_port("192.0.2.77")

    def test_addresses_are_not_loopback(self) -> None:
        hosts = _addresses.machine_hosts()
        assert hosts
        assert hosts == ["127.0.0.1"] or not any(host.startswith("127.") for host in hosts)

    @pytest.mark.parametrize(
        ("chosen", "addresses"),
        [
            (Listening("10.0.0.5:7400"), ["10.0.0.5:7400"]),
            (Listening("[::1]:7400"), ["[::1]:7400"]),
            (Listening("0.0.0.0:7411", ("lab", "other:80", "[::2]")), ["lab:7411", "other:80", "[::2]:7411"]),
        ],
    )
    def test_addresses_by_which_others_reach_it(self, chosen: Listening, addresses: list[str]) -> None:
        assert _listening.addresses_of(chosen) == addresses
        assert _listening.here(chosen.address).startswith(("127.", "10.", "[::1]"))
