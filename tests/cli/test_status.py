"""`phalanx status` with a hub that is a function of the test: what it shows, and what hostile members make of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import phalanx as px
import pytest
from api.joined import FakeHub, join
from click.testing import CliRunner, Result
from phalanx import _native
from phalanx.cli import commands, status
from phalanx.errors import RecruitError
from phalanx.status import Relayed, RelayedLink, Running

SINCE = 1_700_000_000


def executor(
    name: str, *running: tuple[Any, ...], lost: int = 0, last_loss: str = "", more: int = 0, closed: str = ""
) -> tuple[Any, ...]:
    return name, True, SINCE, (4, len(running), [*running], more, lost, last_loss, closed)


class Answers:
    """The answers of a hub, one after the other; None: it is away."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.all: list[tuple[Any, ...] | None] = []
        patch.setattr(_native, "hub_status", lambda dialler, hubs: self.answer(), raising=False)

    def answer(self) -> tuple[Any, ...]:
        if not self.all:
            raise KeyboardInterrupt
        found = self.all.pop(0)
        if found is None:
            raise RecruitError("no hub of the grid answers: \x1b[2J")
        return found


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Answers:
    home = tmp_path / "home"
    monkeypatch.setenv("PHALANX_HOME", str(home))
    monkeypatch.setattr(status, "_INTERVAL", 0)
    join(home, _native.issue_member(_native.create_grid(), "user", "ada"))
    FakeHub(monkeypatch)
    return Answers(monkeypatch)


def call(*words: str) -> Result:
    return CliRunner(env={"COLUMNS": "160"}).invoke(commands, ["status", *words], standalone_mode=False)


def test_a_table_says_who_runs_what_where(hub: Answers) -> None:
    running = [
        ("ada", "interpreters", "private", False, 2, 0),
        ("bob", "copies", "safe", True, 1, 12_000_000),
        ("bob", "ranks", None, False, 3, 0),
    ]
    executors = [executor("ws7", *running, lost=1, last_loss="killed"), executor("ws8"), ("ws9", False, SINCE, None)]
    hub.all = [(executors, [(("user", "ada"), ("executor", "ws7"), 5_000_000, 7)], 1, 6_000_000)]
    told = call().output
    for text in (
        "ada: 2 interpreters (private)",
        "bob: 1 copy (safe, relayed, 12 MB/s)",
        "bob: 3 ranks",
        "3 of 4",
        "0 of 4",
        "1: killed",
        "relayed by the hub: 1 link now, 6 MB since it started",
        "user ada to executor ws7: 5 MB in 7 s",
    ):
        assert text in told


def test_a_table_says_why_a_machine_is_closed(hub: Answers) -> None:
    hub.all = [([executor("ws7", closed="its owner \x1b[2Juses it")], [], 0, 0)]
    told = call().output
    assert "0 of 4, closed: its owner" in told
    assert "\x1b" not in told


def test_a_program_gets_the_same_as_objects(hub: Answers) -> None:
    running = ("ada", "interpreters", "private", True, 2, 3000)
    link = (("user", "ada"), ("executor", "ws7"), 5, 7)
    answer = ([executor("ws7", running, more=5), ("ws9", False, SINCE, None)], [link], 9, 10)
    hub.all = [answer, answer]
    found = px.Grid("lab").status()
    ws7, ws9 = found.executors
    assert (found.grid, ws7.name, ws7.interpreters, ws7.used, ws7.more) == ("lab", "ws7", 4, 1, 5)
    assert ws7.running == (Running("ada", "interpreters", "private", True, 2, 3000),)
    assert (ws9.is_here, ws9.used, ws9.running, ws9.since) == (False, None, (), ws7.since)
    assert found.relayed == Relayed(9, 10, (RelayedLink("user ada", "executor ws7", 5, 7),))
    assert found.to_json() == json.loads(call("--json", "lab").output)
    with pytest.raises(RecruitError, match="no hub that knows its members"):
        px.Grid().status()


def test_json_has_everything(hub: Answers) -> None:
    running = ("ada", "spaces", "private", True, 2, 3000)
    hub.all = [([executor("ws7", running, more=5)], [(("user", "ada"), ("executor", "ws7"), 5, 7)], 9, 10)]
    found = json.loads(call("--json", "lab").output)
    assert found["grid"] == "lab"
    (ws7,) = found["executors"]
    assert ws7 == {
        "name": "ws7",
        "is_here": True,
        "since": "2023-11-14T22:13:20+00:00",
        "interpreters": 4,
        "used": 1,
        "running": [
            {"user": "ada", "what": "spaces", "level": "private", "is_relayed": True, "count": 2, "rate": 3000},
        ],
        "more": 5,
        "lost": 0,
        "last_loss": "",
        "closed": "",
    }
    assert found["relayed"] == {
        "links": 9,
        "bytes": 10,
        "largest": [{"from": "user ada", "to": "executor ws7", "bytes": 5, "seconds": 7}],
    }


def test_what_members_tell_is_text(hub: Answers) -> None:
    hostile = "\x1b[2J[red]\n\u202e"
    running = (hostile, "interpreters", None, False, 1, 0)
    hub.all = [([executor("ws7", running, lost=1, last_loss=hostile)], [((hostile, "a"), ("b", hostile), 1, 1)], 1, 1)]
    told = call().output
    assert "\x1b" not in told
    assert "\u202e" not in told
    assert "[red]" in told


def test_watching_shows_changes_only(hub: Answers) -> None:
    first: tuple[Any, ...] = ([executor("ws7")], [], 0, 0)
    second: tuple[Any, ...] = ([executor("ws7", ("ada", "ranks", None, False, 1, 0))], [], 0, 0)
    older = ([executor("ws7")], [(("user", "a"), ("executor", "b"), 5, 1)], 1, 0)
    older_still = ([executor("ws7")], [(("user", "a"), ("executor", "b"), 5, 2)], 1, 0)
    hub.all = [first, first, second, None, second, older, older_still]
    done = call("--watch", "--json")
    assert done.exception is not None, "Ctrl-C"
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert [len(json.loads(line)["executors"][0]["running"]) for line in lines] == [0, 1, 0]
    assert "\x1b" not in done.output


def test_a_hub_that_is_away_is_an_error(hub: Answers) -> None:
    hub.all = [None]
    assert isinstance(call().exception, RecruitError)
