"""`phalanx dashboard` with a hub that is a function of the test, and once with a real one."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from subprocess import Popen
from threading import Event
from typing import Any

import phalanx as px
import pytest
from api.executors import Executors
from api.hubs import PATIENCE, PHALANX, Site, site
from api.joined import FakeHub, join, row
from click.testing import CliRunner
from phalanx import _native
from phalanx._grids import read_joined
from phalanx.cli import commands
from phalanx.dashboard import _grid
from phalanx.dashboard._executors import ExecutorsSource
from phalanx.dashboard._grid import GridSource
from phalanx.dashboard._metrics import exposition
from phalanx.dashboard._spaces import Asked
from phalanx.errors import IdentityError, PhalanxError, RecruitError
from prometheus_client.parser import text_string_to_metric_families

from laboratory.processes import Process, until

SINCE = 1_700_000_000
HOSTILE = 'x"} 1\nphalanx_up{a="\\'


class Hub(FakeHub):
    """Answers about members, what they run, jobs and the history."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        super().__init__(patch)
        self.rows = [row("ada", None, role="user", owner="yes"), row("ws7", "10.0.0.7:7400", cores="4")]
        self.executors: list[tuple[Any, ...]] = [("ws7", True, SINCE, (4, 2, [], 0, 0, "", ""))]
        self.relayed: list[Any] = []
        self.jobs: list[dict[str, Any]] | Exception = []
        patch.setattr(_native, "hub_status", lambda *_: (self.executors, self.relayed, 1, 5000), raising=False)
        history = [(20_000, "ws7", 7_200_000, [("bob", "jobs", 3_600_000, 1, 0, 1)])]
        patch.setattr(_native, "hub_history", lambda *_: history)
        patch.setattr(_native, "JobsAtHub", lambda *_: self)

    def runs(self, *running: tuple[Any, ...], lost: int = 0, closed: str = "", here: bool = True) -> None:
        told = (4, len(running), [*running], 0, lost, "killed by signal 9" if lost else "", closed)
        self.executors = [("ws7", here, SINCE, told if here else None)]
        self.rows = [row("ada", None, role="user", owner="yes"), row("ws7", "10.0.0.7:7400", is_here=here, cores="4")]

    def ask(self, request: str) -> str:
        assert json.loads(request)["List"]["all"] is False
        if isinstance(self.jobs, Exception):
            raise self.jobs
        return json.dumps({"Jobs": {"rows": self.jobs, "goes_on": False}})

    def log(self, job: int, index: int, is_error: bool, start: int) -> tuple[bytes, str]:
        if is_error:
            return json.dumps({"Here": [*b"whole \x1b[2J"]}).encode(), "all"
        return b"line \xff\n" * 20_000, "part"


def job(number: int, state: str) -> dict[str, Any]:
    counts = {"queued": 1, "running": 0, "complete": 0, "failed": 0, "lost": 0, "canceled": 0}
    told = {"id": number, "state": state, "user": "bob", "name": None, "command": ["./x"], "submitted": 1000 * SINCE}
    return {**told, "counts": counts, "first": 0, "last": 0, "why": ""}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    monkeypatch.setenv("PHALANX_HOME", str(tmp_path / "home"))
    join(tmp_path / "home", _native.issue_member(_native.create_grid(), "user", "ada"))
    return Hub(monkeypatch)


@pytest.fixture
def source(hub: Hub) -> Iterator[GridSource]:
    with closing(GridSource(read_joined("lab"))) as source:
        yield source


def events(source: GridSource) -> list[tuple[str, str, str]]:
    return [(it["what"], it["interpreter"], it["text"]) for it in source.read()["events"]]


def test_members_links_and_copies_are_those_that_the_hub_tells(hub: Hub, source: GridSource) -> None:
    hub.runs(("bob", "interpreters", "private", True, 2, 0), ("bob", "copies", "safe", False, 4, 9_000_000))
    told = source.read()
    assert told["about"] == {"kind": "grid", "title": "lab", "hub": "10.0.0.5:7400"}
    ws7, ada = told["members"]
    assert (ws7["name"], ws7["here"], ws7["places"], ws7["used"], ws7["machine"]) == ("ws7", True, 4, 2, "cores 4")
    assert ws7["running"] == ["bob: 2 interpreters", "bob: 4 copies"]
    assert ada["role"] == "owner"
    assert [(it["from"], it["to"], it["level"], it["relayed"]) for it in told["links"]] == [
        ("bob", "ws7", "private", True),
        ("bob", "ws7", "safe", False),
    ]
    (copies,) = told["copies"]
    assert (copies["count"], copies["rate"]) == (4, 9_000_000)
    assert [(it["user"], it["what"], it["count"]) for it in told["programs"]] == [
        ("bob", "copies", 4),
        ("bob", "interpreters", 2),
    ]
    assert told["totals"]["places"] == 4
    assert told["history"] == [
        {"who": "bob", "what": "used", "hours": 1.0},
        {"who": "ws7", "what": "offered", "hours": 2.0},
    ]


def test_losses_and_recoveries_are_what_differs(hub: Hub, source: GridSource) -> None:
    assert events(source) == []
    hub.runs(lost=2)
    hub.jobs = [job(1, "QUEUED".title())]
    source.read()
    hub.runs(here=False)
    hub.jobs = [job(1, "SystemError")]
    source.read()
    hub.runs(lost=0)
    hub.runs(closed="its owner uses it")
    told = events(source)
    assert told == [
        ("lost", "executor ws7", "2 interpreters or ranks: killed by signal 9"),
        ("job", "job 1", "QUEUED"),
        ("lost", "executor ws7", "has gone"),
        ("job", "job 1", "SYSTEM_ERROR"),
        ("recruited", "executor ws7", "is here again"),
        ("released", "executor ws7", "is closed: its owner uses it"),
    ]


def test_events_are_bounded(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_grid, "_MOST_EVENTS", 5)
    source = GridSource(read_joined("lab"))
    for number in range(20):
        hub.runs(here=bool(number % 2))
        source.read()
    assert len(source.read()["events"]) == 5


def test_a_part_that_is_missing_says_why(hub: Hub, source: GridSource) -> None:
    hub.jobs = IdentityError("only owners may ask for the jobs of all users")
    told = source.read()
    assert told["jobs"] == []
    assert told["missing"] == ["jobs: only owners may ask for the jobs of all users"]
    assert told["members"]


def test_no_hub_is_an_error_of_the_whole_reading(hub: Hub, source: GridSource) -> None:
    hub.rows = None
    with pytest.raises(RecruitError, match="no hub listens there"):
        source.read()


def test_logs_come_in_whole_lines_and_without_steering_characters(hub: Hub, source: GridSource) -> None:
    told = source.log(1, 0, "out", 0)
    assert told["next"] == (64 << 10) // 7 * 7
    assert told["text"].startswith("line \\xff\n")
    assert told["state"] == "goes on"
    assert source.log(1, 0, "err", 0) == {"text": "whole \\x1b[2J", "next": 10, "state": "all"}
    assert source.log(1, 0, "err", 10)["text"] == ""


def test_a_space_that_does_not_answer_keeps_nothing_waiting(hub: Hub) -> None:
    told: dict[str, Any] = {"tuples": 3, "bytes": 9, "takers": 1, "readers": 0, "watches": 0, "transactions": 0}
    told |= {"expired": 0, "outs": 5, "reads": 0, "takes": 2, "partitions": [("str, int", 3, [(0,), (0, 1)])]}
    ends = Event()

    def gone() -> Any:
        raise PhalanxError("no space is called gone")

    def never() -> dict[str, Any]:
        ends.wait()
        return told

    spaces = [Asked("jobs", lambda: told), Asked("gone", gone), Asked("frozen", never)]
    jobs, missing, frozen = GridSource(read_joined("lab"), spaces).read()["spaces"]
    assert (jobs["tuples"], jobs["takers"], jobs["partitions"][0]["indexes"]) == (3, 1, [[0], [0, 1]])
    assert missing == {"name": "gone", "failure": "no space is called gone"}
    assert frozen == {"name": "frozen", "failure": "does not answer"}
    ends.set()


def test_prometheus_reads_the_metrics(hub: Hub, source: GridSource) -> None:
    hub.runs(("bob", "copies", "safe", False, 4, 9_000_000), lost=2)
    hub.rows = [*(hub.rows or ()), row("hub", "10.0.0.5:7400", role="hub")]
    told = source.read()
    told["members"][0]["name"] = HOSTILE  # names are checked before, and these would be harmless too
    told["spaces"] = [{"name": HOSTILE, "tuples": 7, "takers": 1, "readers": 0}]
    text = exposition(told)
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    found = {(it.name, *sorted(it.labels.items())): it.value for it in samples}
    assert found[("phalanx_up",)] == 1
    assert found["phalanx_members", ("here", "yes"), ("role", "executor")] == 1
    assert found[("phalanx_places",)] == 4
    assert found["phalanx_executor_lost_total", ("executor", HOSTILE)] == 2
    assert found["phalanx_space_tuples", ("space", HOSTILE)] == 7
    assert found["phalanx_link_rate_bytes", ("level", "safe")] == 9_000_000
    assert exposition({"failure": "no hub"}).endswith("phalanx_up 0.0\n")


def refused(*words: str) -> str:
    done = CliRunner().invoke(commands, ["dashboard", *words], standalone_mode=False)
    assert done.exception is not None
    return str(done.exception)


def test_wrong_words_are_refused_before_anything_is_served(hub: Hub, tmp_path: Path) -> None:
    assert "joined no grid called nowhere" in refused("nowhere")
    assert "65536 is too large" in refused("--port", "65536")
    readable, short = tmp_path / "readable", tmp_path / "short"
    readable.write_text("x" * 43)
    readable.chmod(0o644)
    assert f"chmod 600 {readable}" in refused("--metrics-token", str(readable))
    short.write_text("secret")
    short.chmod(0o600)
    assert "has no token of 32 to 200 characters" in refused("--metrics-token", str(short))
    assert "cannot be made" in refused("--metrics-token", str(tmp_path / "nowhere" / "token"))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A real hub with its executor, and the user bob."""
    with site(tmp_path_factory.mktemp("dashboard")) as found:
        found.up()
        found.say("bob", "join", "--name", "bob", found.invite("--role", "user"))
        yield found


def ask(address: str, path: str, **headers: str) -> tuple[int, str, Any]:
    with closing(HTTPConnection(address, timeout=PATIENCE)) as connection:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers


@pytest.mark.xdist_group("dashboard")
@pytest.mark.timeout(300)
class TestRealHub:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_the_page_of_a_grid(self, lab: Site, number: signal.Signals) -> None:
        token_file = lab.folder / f"token-{number}"
        words = ["dashboard", "--json", "--space", "jobs", "--metrics-token", str(token_file)]
        files, env = lab.folder / f"page-{number}", lab.env("bob")
        process = Process([PHALANX, *words], title="dashboard", files=files, cwd=lab.folder, env=env)
        try:
            told = json.loads(process.line("{", timeout=PATIENCE))
            address, link = told["address"], told["link"]
            status, text, headers = ask(address, link.removeprefix(f"http://{address}"))
            assert status == 200
            cookie, page = headers["Set-Cookie"].partition(";")[0], re.search(r"url=(/[^/]+/)", text)
            assert page is not None
            lab.python("bob", 'px.Space("lab/jobs").out("todo", 1)')

            def shown() -> dict[str, Any]:
                state: dict[str, Any] = json.loads(ask(address, f"{page[1]}state", Cookie=cookie)[1])
                return state if state["spaces"][0].get("tuples") else {}

            state = until(shown, timeout=PATIENCE, what="a tuple on the page")
            assert {it["role"] for it in state["members"]} >= {"hub", "executor", "owner", "user"}
            assert state["spaces"][0]["tuples"] >= 1
            assert state["missing"] == []
            token = token_file.read_text().strip()
            assert token_file.stat().st_mode & 0o077 == 0
            text = ask(address, "/metrics", Authorization=f"Bearer {token}")[1]
            assert {it.name for it in text_string_to_metric_families(text)} >= {"phalanx_up", "phalanx_space_tuples"}
            process.signal(number)
            assert process.wait(timeout=PATIENCE) == 0, process.report()
        finally:
            process.kill()

    def test_enter_prints_another_link(self, lab: Site) -> None:
        ours, theirs = pty.openpty()
        file = lab.folder / "enter"

        def links() -> list[str]:
            return re.findall(r"^http://\S+$", file.read_text(), re.MULTILINE)

        with file.open("wb") as out:
            process = Popen([PHALANX, "dashboard"], stdin=theirs, stdout=out, env=lab.env("bob"))
        try:
            until(links, timeout=PATIENCE, what="a link")
            os.write(ours, b"\n")
            until(lambda: len(links()) == 2, timeout=PATIENCE, what="another link")
            first, second = (link.split("/enter/") for link in links())
            assert (first[0], first[1] != second[1]) == (second[0], True)
        finally:
            process.kill()
            process.wait()
            os.close(ours)
            os.close(theirs)

    def test_a_hub_that_is_away_and_comes_back_is_said(self, tmp_path: Path) -> None:
        with site(tmp_path) as own:
            own.up()
            own.say("bob", "join", "--name", "bob", own.invite("--role", "user"))
            follow_a_hub(own)


def follow_a_hub(lab: Site) -> None:
    """The page of a grid while its hub is away, and afterwards."""
    files, env = lab.folder / "away", lab.env("bob")
    process = Process([PHALANX, "dashboard", "--json"], title="dashboard", files=files, cwd=lab.folder, env=env)
    try:
        told = json.loads(process.line("{", timeout=PATIENCE))
        _, text, headers = ask(told["address"], told["link"].removeprefix(f"http://{told['address']}"))
        cookie, page = headers["Set-Cookie"].partition(";")[0], re.search(r"url=(/[^/]+/)", text)
        assert page is not None

        def now() -> dict[str, Any]:
            state: dict[str, Any] = json.loads(ask(told["address"], f"{page[1]}state", Cookie=cookie)[1])
            return state

        until(lambda: now()["failure"] is None, timeout=PATIENCE, what="the hub's first answer")
        lab.kill("hub")

        def failed() -> dict[str, Any]:
            state = now()
            return state if state["failure"] else {}

        state = until(failed, timeout=PATIENCE, what="that no hub answers")
        assert "no hub" in state["failure"]
        assert state["members"]  # the last ones stay
        lab.up()
        until(lambda: now()["failure"] is None, timeout=PATIENCE, what="the hub's answer after its return")
    finally:
        process.kill()


@pytest.fixture
def executors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Executors]:
    monkeypatch.setenv("PHALANX_HOME", str(tmp_path / "home"))
    with Executors(tmp_path) as found:
        yield found


@pytest.mark.timeout(300)
class TestExecutors:
    """Without a hub, each executor is asked itself."""

    def test_a_user_sees_what_runs_and_no_names_of_others(self, executors: Executors) -> None:
        address, bob = executors.start("ws7", interpreters=4), executors.user("bob")
        grid = px.Grid([f"ws7 = {address}", "gone = 127.0.0.1:1"], identity=executors.identity)
        source = ExecutorsSource(grid.machines, grid.reach.dialler, "lab.txt")
        first = source.read()
        assert [(it["name"], it["here"]) for it in first["members"]] == [("ws7", True), ("gone", False)]
        assert first["programs"] == []
        one = px.ParDegree(1)
        with (
            px.Manager(address, contract=one, identity=executors.identity) as own,
            px.Manager(address, contract=one, identity=bob) as other,
        ):
            assert [it.submit(abs, -1).result() for it in (own, other)] == [1, 1]

            def runs() -> Any:
                return (state := source.read())["programs"] and (len(state["programs"]) == 2 and state)

            state = until(runs, timeout=PATIENCE, what="two programs")
            shown = [(it["user"], it["what"], it["count"]) for it in state["programs"]]
            assert shown == [("ada", "interpreters", 1), ("other users", "interpreters", 1)]
            ws7, gone = state["members"]
            assert (ws7["places"], ws7["used"]) == (4, 2)
            assert ws7["running"] == ["ada: 1 interpreter", "other users: 1 interpreter"]
            assert "127.0.0.1:1" in gone["closed"]
            assert {it["from"] for it in state["links"]} == {"ada", "other users"}
            assert "bob" not in json.dumps(state)
        assert (state["about"], state["jobs"], state["missing"]) == ({"kind": "grid", "title": "lab.txt"}, [], [])
        until(lambda: source.read()["totals"]["used"] == 0, timeout=PATIENCE, what="free places")
        with pytest.raises(PhalanxError, match="no hub"):
            source.log(1, 0, "out", 0)
        executors.started[0].kill()
        with pytest.raises(RecruitError, match=re.escape(address)):
            source.read()

    def test_the_command_serves_the_page_of_an_address(self, executors: Executors, tmp_path: Path) -> None:
        address = executors.start("ws7")
        words = ["dashboard", address, "--identity", f"{executors.identity}", "--json"]
        process = Process(
            [PHALANX, *words], title="dashboard", files=tmp_path / "page", cwd=tmp_path, env={**os.environ}
        )
        try:
            told = json.loads(process.line("{", timeout=PATIENCE))
            assert told["executors"] == address
            at = told["address"]
            status, text, headers = ask(at, told["link"].removeprefix(f"http://{at}"))
            assert status == 200
            cookie, page = headers["Set-Cookie"].partition(";")[0], re.search(r"url=(/[^/]+/)", text)
            assert page is not None

            def shown() -> Any:
                return json.loads(ask(at, f"{page[1]}state", Cookie=cookie)[1]).get("members")

            [member] = until(shown, timeout=PATIENCE, what="the executor on the page")
            assert (member["address"], member["here"], member["places"]) == (address, True, 2)
            process.signal(signal.SIGINT)
            assert process.wait(timeout=PATIENCE) == 0, process.report()
        finally:
            process.kill()

    def test_what_is_about_hubs_is_refused(self, executors: Executors) -> None:
        for words, said in [
            (["127.0.0.1:1", "--all"], "which a grid with a hub has"),
            (["lab", "--identity", f"{executors.identity}"], "--identity is for HOSTS"),
        ]:
            done = CliRunner().invoke(commands, ["dashboard", *words])
            assert (done.exit_code, said in done.output) == (2, True), done.output
        lacking = CliRunner().invoke(commands, ["dashboard", "127.0.0.1:1"])
        assert isinstance(lacking.exception, IdentityError), lacking.output
