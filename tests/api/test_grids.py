"""Grids that were joined with a token: their folders, their machines by name, and what a program makes of them."""

from __future__ import annotations

import json
import os
import pickle
import re
import stat
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import phalanx as px
import pytest
from api.joined import ROOT, FakeHub, join, row
from click.testing import CliRunner
from conftest import Eventually
from phalanx import _grids, _native
from phalanx._grids import (
    JoinedHosts,
    Listening,
    good_identity,
    names_grid,
    read_joined,
    read_listening,
    write_joined,
    write_listening,
)
from phalanx._identities import GRID, joined_names
from phalanx.cli import commands
from phalanx.members import AT_HUB, Member, from_json, is_name, members_of, to_json, to_name
from phalanx.space import _space
from phalanx.space._open import in_joined_grid
from skips import require

from laboratory import identities


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    monkeypatch.setenv("PHALANX_HOME", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    return FakeHub(monkeypatch)


@pytest.fixture(scope="module")
def ada() -> str:
    """The text of a user's identity file."""
    return _native.issue_member(_native.create_grid(), "user", "ada")


class TestFolders:
    def test_a_grid_is_read_as_it_was_written(self, home: Path, ada: str) -> None:
        before = os.umask(0o002)
        joined = join(home, ada)
        os.umask(before)
        assert read_joined("lab") == joined
        assert joined_names() == ["lab"]
        for folder in (home, home / "grids", joined.folder):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((joined.folder / GRID).stat().st_mode) == 0o600
        told = {"grid": "lab", "hubs": ["10.0.0.5:7400"], "root": joined.root}
        assert json.loads((joined.folder / GRID).read_text()) == told

    @pytest.mark.parametrize("role", ["user", "executor"])
    def test_a_grid_that_does_not_fit_its_certificate_is_an_error_that_says_what_to_do(
        self, home: Path, ada: str, role: str
    ) -> None:
        joined = join(home, ada, role=role)
        write_joined(joined._replace(root=ROOT))
        with pytest.raises(px.errors.IdentityError) as found:
            read_joined("lab")
        file = joined.folder / f"{role}.pem"
        assert str(found.value).startswith(f"{joined.folder / 'grid.json'} names the root {ROOT[:16]}…, and ")
        assert f"the certificate in {file} is of the root {joined.root[:16]}…" in str(found.value)
        assert f'write there "root": "{joined.root}"; if not, leave the grid with phalanx leave lab' in str(found.value)
        write_joined(joined)
        assert read_joined("lab") == joined

    def test_without_a_home_folder_no_grid_was_joined(self, home: Path) -> None:
        assert joined_names() == []
        assert not names_grid("lab")
        with pytest.raises(px.errors.IdentityError, match=r"no grid called lab \(it has joined none\); .*phalanx join"):
            read_joined("lab")

    def test_the_error_about_another_grid_names_those_that_were_joined(self, home: Path, ada: str) -> None:
        join(home, ada, "one")
        join(home, ada, "two")
        with pytest.raises(px.errors.IdentityError, match=r"it has joined one, two\)"):
            read_joined("three")
        with pytest.raises(px.errors.RecruitError, match=r"no joined grid is called so \(joined: one, two\)"):
            px.Grid("three")

    @pytest.mark.parametrize("name", ["", "..", "a/b", "../lab", "Lab", "-a", "a" * 64, "a\n", "é"])
    def test_what_is_no_name_of_a_grid(self, home: Path, name: str) -> None:
        assert not names_grid(name)
        with pytest.raises(px.errors.IdentityError, match="is no name of a grid"):
            read_joined(name)

    @pytest.mark.parametrize(
        "text",
        [
            *("", "{", "[]", "null", "7", '"lab"', "{}", "[" * 100_000, "\x00", "NaN"),
            json.dumps({"grid": "../x", "hubs": ["a:1"], "root": ROOT}),
            json.dumps({"grid": 7, "hubs": ["a:1"], "root": ROOT}),
            json.dumps({"grid": "lab", "hubs": [], "root": ROOT}),
            json.dumps({"grid": "lab", "hubs": "a:1", "root": ROOT}),
            json.dumps({"grid": "lab", "hubs": [7], "root": ROOT}),
            json.dumps({"grid": "lab", "hubs": ["a:99999"], "root": ROOT}),
            json.dumps({"grid": "lab", "hubs": ["a b:1"], "root": ROOT}),
            json.dumps({"grid": "lab", "hubs": ["a:1"] * 65, "root": ROOT}),
            json.dumps({"grid": "lab", "hubs": ["a:1"], "root": ROOT[1:]}),
            json.dumps({"grid": "lab", "hubs": ["a:1"], "root": ROOT.upper()}),
            json.dumps({"grid": "lab", "hubs": ["a:1"], "root": None}),
        ],
        ids=range(21),
    )
    def test_a_damaged_file_is_named_with_its_remedy(self, home: Path, ada: str, text: str) -> None:
        file = join(home, ada).folder / GRID
        file.write_text(text)
        with pytest.raises(px.errors.IdentityError) as caught:
            px.Grid("lab")
        assert str(caught.value).startswith(f"{file} is damaged: ")
        assert "phalanx leave lab" in str(caught.value)

    def test_a_file_that_is_no_text(self, home: Path, ada: str) -> None:
        file = join(home, ada).folder / GRID
        file.write_bytes(b"\xff\xfe\x00")
        with pytest.raises(px.errors.IdentityError, match="is damaged"):
            read_joined("lab")
        file.unlink()
        file.mkdir()
        with pytest.raises(px.errors.IdentityError, match="cannot be read"):
            read_joined("lab")

    def test_a_folder_that_others_can_change_is_refused(self, home: Path, ada: str) -> None:
        folder = join(home, ada).folder
        folder.chmod(0o720)
        with pytest.raises(px.errors.IdentityError, match=r"mode 720\); mend that with: chmod 700 "):
            read_joined("lab")

    @pytest.mark.parametrize("above", ["grids", "."])
    def test_a_folder_that_others_can_put_in_its_place_is_refused(self, home: Path, ada: str, above: str) -> None:
        join(home, ada)
        folder = home / above
        folder.chmod(0o777)
        refused = f"the files in {folder} (mode 777); mend that with: chmod go-w {folder}"
        with pytest.raises(px.errors.IdentityError, match=re.escape(refused)):
            read_joined("lab")
        for mode in (0o1777, 0o755):
            folder.chmod(mode)
            assert read_joined("lab").name == "lab"

    def test_only_root_has_group_0(self, home: Path, ada: str) -> None:
        require("root")
        join(home, ada)
        home.chmod(0o770)  # as in the image for containers
        assert read_joined("lab").name == "lab"
        os.chown(home, -1, 1)
        with pytest.raises(px.errors.IdentityError, match=r"\(mode 770\); mend that with: chmod go-w "):
            read_joined("lab")

    def test_where_something_listens_is_kept(self, home: Path, ada: str) -> None:
        joined = join(home, ada)
        assert read_listening(joined) is None
        write_listening(joined, Listening("0.0.0.0:7400", ("lab.example.org",)))
        assert read_listening(joined) == Listening("0.0.0.0:7400", ("lab.example.org",))
        (joined.folder / "listening.json").write_text('{"address": 7}')
        with pytest.raises(px.errors.IdentityError, match=r"is damaged: .*--listen HOST:PORT"):
            read_listening(joined)


class TestMembers:
    def test_a_member_is_its_json_and_back(self) -> None:
        (member,) = members_of([row("ws7", "10.0.0.7:7400", cores="4")])
        assert from_json(json.loads(json.dumps(to_json(member)))) == member
        assert (member.name, member.role, member.is_here, member.facts) == ("ws7", "executor", True, {"cores": "4"})
        assert timedelta(0) < member.until - datetime.now(timezone.utc) < timedelta(hours=2)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"name": "../x"},
            {"name": "\x1b[2J"},
            {"name": 7},
            {"role": "a role"},
            {"address": "nowhere"},
            {"address": "a:0"},
            {"address": 7},
            {"is_here": 1},
            {"facts": []},
            {"facts": {"cores": 4}},
            {"since": "yesterday"},
            {"until": None},
            {"more": 1},
        ],
        ids=repr,
    )
    def test_what_is_no_member(self, wrong: dict[str, Any]) -> None:
        (member,) = members_of([row("ws7", "10.0.0.7:7400")])
        with pytest.raises(px.errors.IdentityError, match="an entry"):
            from_json({**to_json(member), **wrong})
        with pytest.raises(px.errors.IdentityError, match="an entry"):
            from_json([])

    def test_times_beyond_the_calendar_are_its_ends(self) -> None:
        name, role, address, is_here, _, _, facts = row("ws7", None)
        (member,) = members_of([(name, role, address, is_here, -5, 1 << 63, facts)])
        assert (member.since.year, member.until.year) == (1970, 9999)

    @pytest.mark.parametrize(
        ("text", "name"), [("LabPC-7", "labpc-7"), ("ada lovelace", "ada-lovelace"), ("ä", "d"), ("-" * 99, "d")]
    )
    def test_names_are_made_of_any_text(self, text: str, name: str) -> None:
        assert to_name(text, "d") == name
        assert is_name(to_name("x" * 80 + "-", "d"))


class TestNames:
    def test_the_machines_are_the_executors_that_run(self, home: Path, hub: FakeHub, ada: str) -> None:
        joined = join(home, ada)
        hub.rows = [
            row("ws8", "10.0.0.8:7400"),
            row("ws7", "10.0.0.7:7300", cores="4"),
            row("ws9", "10.0.0.9:7400", is_here=False),
            row("ada", None, role="user", is_here=False),
        ]
        grid = px.Grid("lab")
        assert hub.asked == [ada]
        assert hub.guided == ["lab"]
        assert grid.machines == {"ws7": "ws7.lab.phalanx:7400", "ws8": "ws8.lab.phalanx:7400"}
        assert grid.certificates == {
            "ws7.lab.phalanx:7400": "ws7",
            "ws8.lab.phalanx:7400": "ws8",
            "10.0.0.7:7300": "ws7",
            "10.0.0.8:7400": "ws8",
        }
        assert [grid.address(one) for one in ("ws7", "other:1")] == ["ws7.lab.phalanx:7400", "other:1"]
        dialler = grid.reach.dialler()
        assert dialler.text == ada
        assert dialler.certificates == grid.certificates
        assert dialler.machines == {"ws7": "10.0.0.7:7300", "ws8": "10.0.0.8:7400"}  # for processes that act for ada
        assert dialler.file == str(joined.user)
        assert (dialler.known, dialler.revoked) == (
            str(joined.folder / "known_members"),
            [str(joined.folder / "revoked.txt")],
        )
        assert [member.name for member in grid.members()] == ["ws7", "ws8", "ws9", "ada"]
        assert isinstance(grid.members()[0], Member)
        assert repr(grid) == "Grid(['ws7', 'ws8'])"

    def test_a_member_that_does_not_run_is_an_error_that_says_since_when(
        self, home: Path, hub: FakeHub, ada: str
    ) -> None:
        join(home, ada)
        hub.rows = [row("ws7", "10.0.0.7:7300"), row("ws9", "10.0.0.9:7400", is_here=False)]
        grid = px.Grid("lab")
        since = r"ws9 is a member of the grid lab, and does not run since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d; .* join lab"
        for call in (grid.address, grid.only, grid.files):
            with pytest.raises(px.errors.RecruitError, match=since):
                call("ws9")
        with pytest.raises(px.errors.RecruitError, match=since):
            px.copy("here", "ws9:/there", hosts="lab")
        with pytest.raises(px.errors.RecruitError, match=r"no executor of the grid lab is called 'ws1'; .* members"):
            grid.address("ws1")

    def test_some_machines_of_a_grid(self, home: Path, hub: FakeHub, ada: str) -> None:
        join(home, ada)
        hub.rows = [row("ws7", "10.0.0.7:7300"), row("ws8", "10.0.0.8:7300")]
        grid = px.Grid("lab").only("ws8")
        assert grid.machines == {"ws8": "ws8.lab.phalanx:7400"}
        assert set(grid.certificates.values()) == {"ws8"}
        assert len(grid.members()) == 2

    def test_a_grid_travels_with_its_machines(self, home: Path, hub: FakeHub, ada: str) -> None:
        join(home, ada)
        hub.rows = [row("ws7", "10.0.0.7:7300")]
        grid = pickle.loads(pickle.dumps(px.Grid("lab")))
        assert grid.machines == {"ws7": "ws7.lab.phalanx:7400"}
        assert len(hub.asked) == 1

    def test_without_executors_a_manager_says_what_to_do(self, home: Path, hub: FakeHub, ada: str) -> None:
        join(home, ada)
        hub.rows = [row("ws9", "10.0.0.9:7400", is_here=False)]
        assert px.Grid("lab").machines == {}
        for call in (lambda: px.Manager("lab"), px.Grid("lab").manager, lambda: px.mpirun("true", hosts="lab")):
            with pytest.raises(px.errors.RecruitError, match=r"no executor of the grid lab runs now; .* members"):
                call()

    def test_a_file_comes_first_then_an_address_then_a_grid(
        self, home: Path, hub: FakeHub, ada: str, tmp_path: Path
    ) -> None:
        join(home, ada)
        hub.rows = [row("ws7", "10.0.0.7:7300")]
        assert list(px.Grid("lab").machines) == ["ws7"]
        assert list(px.Grid("lab:7400").machines) == ["lab"]
        assert list(px.Grid(["lab"]).machines) == ["lab"]
        assert list(px.Grid("lab,ws8").machines) == ["lab", "ws8"]
        (tmp_path / "lab").write_text("file 7400\n")
        assert list(px.Grid("lab").machines) == ["file"]
        assert len(hub.asked) == 1

    def test_a_grid_without_a_hub_has_no_members(self) -> None:
        with pytest.raises(px.errors.RecruitError, match=r"no hub .*px\.Grid\('lab'\)"):
            px.Grid(["ws7 = 10.0.0.7"]).members()

    def test_another_identity_asks_the_hub_too(self, home: Path, hub: FakeHub, ada: str, tmp_path: Path) -> None:
        join(home, ada)
        other = identities.write(tmp_path / "bob.pem", _native.issue_member(_native.create_grid(), "user", "bob"))
        px.Grid("lab", identity=other)
        assert hub.asked == [other.read_text()]

    def test_spaces_without_a_machine_are_at_the_hub(self, home: Path, hub: FakeHub, ada: str) -> None:
        join(home, ada)
        own: Any = {AT_HUB: "yes"}
        away = row("ws9", "10.0.0.9:1", is_here=False)
        hub.rows = [row("a", "10.0.0.5:7400"), row("ws5", "10.0.0.5:7400", **own), away]
        grid = px.Grid("lab")
        assert grid.space_address("jobs") == "ws5.lab.phalanx:7400/jobs"
        assert grid.space_address("a/jobs") == "a.lab.phalanx:7400/jobs"
        with pytest.raises(px.errors.RecruitError, match="does not run"):
            grid.space("ws9/jobs")
        # Neither the name nor the address of the hub makes an executor its own.
        hub.rows = [row("b", "10.0.0.5:7400"), row("b", "10.0.0.5:7400", role="hub")]
        with pytest.raises(px.errors.SpaceError, match="no executor runs at the hub"):
            px.Grid("lab").space_address("jobs")
        hub.rows = [row("a", "10.0.0.1:7400")]
        for call in (px.Grid("lab").space, lambda name: px.Space(f"lab/{name}")):
            with pytest.raises(px.errors.SpaceError, match="no executor runs at the hub of the grid lab, where jobs"):
                call("jobs")

    def test_a_space_at_a_machine_has_the_grid_before_it(
        self, home: Path, hub: FakeHub, ada: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        join(home, ada)
        hub.rows = [row("ws7", "10.0.0.7:7300"), row("ws9", "10.0.0.9:1", is_here=False)]
        opened: list[str] = []

        def open_engine(address: str, *_: Any) -> Any:
            opened.append(address)
            raise px.errors.SpaceError("seen")

        monkeypatch.setattr(_space, "open_engine", open_engine)
        with pytest.raises(px.errors.SpaceError, match="seen"):
            px.Space("lab/ws7/jobs")
        assert opened == ["ws7.lab.phalanx:7400/jobs"]
        with pytest.raises(px.errors.RecruitError, match="ws9 is a member of the grid lab, and does not run"):
            px.Space("lab/ws9/jobs")
        with pytest.raises(px.errors.RecruitError, match="no executor of the grid lab is called 'ws8'"):
            px.Space("lab/ws8/jobs")
        # A hosts file in a folder of the grid's name comes first.
        Path("lab").mkdir()
        Path("lab/hosts.txt").write_text("10.0.0.8 7400\n")
        assert in_joined_grid("lab/hosts.txt/jobs", {}) == ("lab/hosts.txt/jobs", {})


class TestWithoutAHub:
    def test_an_answer_that_cannot_be_kept_is_used_with_a_warning(
        self, home: Path, hub: FakeHub, ada: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        join(home, ada)
        hub.rows = [row("ws7", "10.0.0.7:7400")]

        def full(file: Path, text: str) -> None:
            raise px.errors.IdentityError(f"{file} cannot be written: No space left on device")

        monkeypatch.setattr(_grids, "replace", full)
        with pytest.warns(UserWarning, match=r"not kept .*members.json cannot be written: No space left"):
            (member,) = px.Grid("lab").members()
        assert member.name == "ws7"

    def test_the_last_answer_is_used_with_a_warning(self, home: Path, hub: FakeHub, ada: str) -> None:
        join(home, ada)
        hub.rows = [row("ws7", "10.0.0.7:7300", cores="4")]
        before = px.Grid("lab").members()
        hub.rows = None
        with pytest.warns(UserWarning, match=r"no hub of the grid lab answers, so its members are .* \d\d:.*: 10"):
            grid = px.Grid("lab")
        assert grid.machines == {"ws7": "ws7.lab.phalanx:7400"}
        with pytest.warns(UserWarning, match="no hub"):
            assert grid.members() == before

    def test_without_an_earlier_answer_it_is_an_error(self, home: Path, hub: FakeHub, ada: str) -> None:
        join(home, ada)
        hub.rows = None
        with pytest.raises(px.errors.RecruitError, match="no hub listens there"):
            px.Grid("lab")

    @pytest.mark.parametrize("text", ["", "{}", "[7]", '[{"name": "ws7"}]', "[" * 100_000])
    def test_a_damaged_answer_is_named_with_its_remedy(self, home: Path, hub: FakeHub, ada: str, text: str) -> None:
        file = join(home, ada).folder / "members.json"
        file.write_text(text)
        hub.rows = None
        with (
            pytest.warns(UserWarning, match="no hub"),
            pytest.raises(px.errors.IdentityError, match=r"is damaged: .*remove it"),
        ):
            px.Grid("lab")
        hub.rows = []
        px.Grid("lab")
        assert json.loads(file.read_text()) == []

    def test_an_answer_that_is_none_is_refused(self, home: Path, hub: FakeHub, ada: str) -> None:
        join(home, ada)
        hub.rows = [row("\x1b[2J", "10.0.0.7:7300")]
        with pytest.raises(px.errors.IdentityError, match="an entry is no member"):
            px.Grid("lab")


def near_its_end(patch: pytest.MonkeyPatch) -> None:
    check = _native.check_member
    patch.setattr(_native, "check_member", lambda text, file: (*check(text, file)[:2], "2030-01-01 00:00"))


@pytest.fixture
def ended(eventually: Eventually) -> str:
    """The identity of a user whose certificate has ended."""
    text = _native.issue_member(_native.create_grid(), "user", "ada", days=1 / 86400)

    def is_over() -> bool:
        try:
            _native.check_member(text, "user.pem")
        except px.errors.IdentityError:
            return True
        return False

    eventually(is_over, what="the end of the certificate")
    return text


class TestRenewal:
    def test_a_certificate_with_long_to_go_is_left(self, home: Path, hub: FakeHub, ada: str) -> None:
        joined = join(home, ada)
        assert good_identity(joined, joined.user) == ada
        assert hub.renewed == 0

    def test_one_near_its_end_is_renewed(
        self, home: Path, hub: FakeHub, ada: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        joined = join(home, ada)
        new = _native.issue_member(_native.create_grid(), "user", "ada")
        hub.renews = lambda text: new
        near_its_end(monkeypatch)
        with pytest.warns(UserWarning, match="a hub of the grid renews it"):
            px.Grid("lab").reach.dialler()
        assert hub.asked == [new]
        assert joined.user.read_text() == new
        assert stat.S_IMODE(joined.user.stat().st_mode) == 0o600

    def test_one_near_its_end_is_used_while_no_hub_answers(
        self, home: Path, hub: FakeHub, ada: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        joined = join(home, ada)
        near_its_end(monkeypatch)
        hub.rows = None
        assert good_identity(joined, joined.user) == ada

    def test_one_that_has_ended_is_renewed(self, home: Path, hub: FakeHub, ada: str, ended: str) -> None:
        joined = join(home, ended)
        hub.renews = lambda text: ada
        assert px.Grid("lab").reach.dialler().text == ada
        assert joined.user.read_text() == ada

    def test_one_that_has_ended_needs_a_hub(self, home: Path, hub: FakeHub, ended: str) -> None:
        joined = join(home, ended)
        hub.rows = None
        with pytest.raises(px.errors.IdentityError, match=r"ended on .*A hub renews it by itself, but none answers"):
            good_identity(joined, joined.user)
        hub.rows = []
        with pytest.raises(px.errors.IdentityError, match="ended on"):
            good_identity(joined, joined.user)

    def test_a_hub_that_refuses_is_heard(self, home: Path, hub: FakeHub, ended: str) -> None:
        joined = join(home, ended)

        def refuse(text: str) -> str | None:
            raise px.errors.IdentityError("ada is no member of this grid, or was expelled; join again with a new token")

        hub.renews = refuse
        with pytest.raises(px.errors.IdentityError, match="was expelled"):
            good_identity(joined, joined.user)

    def test_without_an_identity_the_error_says_how_to_join(self, home: Path, hub: FakeHub, ada: str) -> None:
        join(home, ada).user.unlink()
        with pytest.raises(px.errors.IdentityError, match=r"no identity in .*phalanx invite --role user"):
            px.Grid("lab")


class TestCommands:
    def test_hosts_and_grid_are_one_too_many(self, home: Path, tmp_path: Path) -> None:
        (tmp_path / "hosts.txt").write_text("ws7\n")
        for words in (["ls", "ws7:/"], ["mpirun", "true"]):
            done = CliRunner().invoke(commands, [words[0], "--hosts", "hosts.txt", "--grid", "lab", *words[1:]])
            assert done.exit_code == 2
            assert "leave one out" in done.output

    def test_an_unknown_grid_is_an_error_of_the_command(self, home: Path) -> None:
        done = CliRunner().invoke(commands, ["ls", "--grid", "none", "ws7:/"])
        assert isinstance(done.exception, px.errors.IdentityError)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("words", [("members",), ("ls", "--grid", "lab", "ws9:/x")])
def test_a_command_says_a_warning_without_the_line_of_its_code(
    home: Path, hub: FakeHub, ada: str, words: tuple[str, ...]
) -> None:
    join(home, ada)
    hub.rows = [row("ws9", "10.0.0.9:1", is_here=False)]
    px.Grid("lab").members()
    hub.rows = None
    told = CliRunner().invoke(commands, words, standalone_mode=False).output
    assert re.search(r"^phalanx: no hub of the grid lab answers, so its members are those of ", told, re.MULTILINE)
    assert "Warning" not in told
    assert ".py" not in told


class TestTheOnlyGrid:
    """Commands that need an identity, without ``--hosts``, ``--grid`` and ``--identity``."""

    #: Commands, and what they say of the member ws9, which does not run.
    ALL = (
        ("cp", "here", "ws9:/there"),
        ("sync", "here", "ws9:/there"),
        ("ls", "ws9:/there"),
        ("cat", "ws9:/there"),
        ("rm", "ws9:/there"),
        ("space", "info", "ws9/jobs"),
        ("space", "create", "ws9/jobs"),
        ("space", "move", "--placement", "local", "ws9/jobs"),
    )

    @pytest.mark.parametrize("words", ALL)
    def test_is_meant(self, home: Path, hub: FakeHub, ada: str, words: tuple[str, ...]) -> None:
        join(home, ada)
        Path("here").mkdir()
        hub.rows = [row("ws7", "10.0.0.7:7300"), row("ws9", "10.0.0.9:1", is_here=False)]
        told = CliRunner().invoke(commands, words, standalone_mode=False)
        assert "ws9 is a member of the grid lab, and does not run" in f"{told.exception}{told.output}"
        assert set(hub.asked) == {ada}

    @pytest.mark.parametrize("words", ALL)
    def test_of_several_one_is_to_be_named(self, home: Path, hub: FakeHub, ada: str, words: tuple[str, ...]) -> None:
        join(home, ada, "lab")
        join(home, ada, "other")
        told = CliRunner().invoke(commands, words, standalone_mode=False)
        assert isinstance(told.exception, px.errors.IdentityError)
        assert (
            str(told.exception) == "this account has joined several grids: say which, with --grid lab or --grid other"
        )
        assert hub.asked == []

    @pytest.mark.parametrize("word", ["unix:none.socket/jobs", "127.0.0.1:1/jobs", "localhost:1/jobs"])
    def test_is_not_asked_about_spaces_of_this_machine(self, home: Path, hub: FakeHub, ada: str, word: str) -> None:
        join(home, ada)
        told = CliRunner().invoke(commands, ["space", "info", word], standalone_mode=False)
        assert isinstance(told.exception, px.errors.SpaceError)
        assert hub.asked == []

    def test_is_not_meant_beside_an_identity(self, home: Path, hub: FakeHub, ada: str) -> None:
        join(home, ada)
        identities.write(home / "user.pem", ada)
        told = CliRunner().invoke(commands, ["ls", "127.0.0.1:1:/x"], standalone_mode=False)
        assert "no executor listens there" in f"{told.exception}{told.output}"
        assert hub.asked == []

    def test_a_program_is_told_how_to_name_it(self, home: Path, ada: str) -> None:
        join(home, ada)
        with pytest.raises(
            px.errors.IdentityError, match=r"joined the grid lab: name it, .*--grid lab, or .*px\.Grid\('lab'\)"
        ):
            px.copy("here", "ws7:/there")
        join(home, ada, "other")
        with pytest.raises(
            px.errors.IdentityError, match="several grids: say which, with --grid lab or --grid other, or"
        ):
            px.copy("here", "ws7:/there")


def test_hosts_of_a_grid_are_shown_by_their_names(home: Path, hub: FakeHub, ada: str) -> None:
    join(home, ada)
    hub.rows = [row("ws7", "10.0.0.7:7300")]
    hosts = px.Grid("lab").reach.hosts
    assert isinstance(hosts, JoinedHosts)
    assert repr(hosts) == "JoinedHosts('lab', ['ws7'])"


def test_the_file_of_members_is_written_when_it_changes_only(home: Path, hub: FakeHub, ada: str) -> None:
    file: Callable[[], os.stat_result] = (join(home, ada).folder / "members.json").stat
    now = int(time.time())
    hub.rows = [("ws7", "executor", "10.0.0.7:7300", True, now, now, {})]
    px.Grid("lab")
    before = file()
    px.Grid("lab")
    assert file().st_ino == before.st_ino
    hub.rows = []
    px.Grid("lab")
    assert file().st_ino != before.st_ino
