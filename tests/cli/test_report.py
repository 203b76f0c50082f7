"""`phalanx report`: what it shows of a grid's history, and that a real grid has one."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from api.hubs import PATIENCE, site
from api.joined import FakeHub
from click.testing import CliRunner
from phalanx import _native
from phalanx.cli import commands

from laboratory.processes import until

HOUR = 3_600_000
DAY = 20_000
#: Days, machines, milliseconds offered, and what users have used.
ROWS = [
    (0, "ws7", 900 * HOUR, [("ada", "ranks", 90 * HOUR, 80 * HOUR, 0, 12)]),
    (DAY, "ws7", 48 * HOUR, [("ada", "interpreters", 12 * HOUR, 6 * HOUR, 7_200_000_000, 8)]),
    (DAY + 1, "ws8", 24 * HOUR, [("bob", "jobs", 2 * HOUR, HOUR, 0, 30), ("ada", "jobs", HOUR, HOUR, 0, 1)]),
]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The first day that was asked for, each time. The hub is a stand-in."""
    FakeHub(monkeypatch)
    since: list[int] = []

    def history(dialler: Any, hubs: list[str], first: int) -> list[Any]:
        since.append(first)
        return [row for row in ROWS if row[0] >= first]

    monkeypatch.setattr(_native, "hub_history", history)
    monkeypatch.setattr("phalanx.cli.report.one_joined", lambda name: _Joined())
    monkeypatch.setattr("phalanx.cli.report.dialler_of", lambda joined: (None, []))
    return since


class _Joined:
    name = "lab"


def run(*words: str) -> str:
    done = CliRunner().invoke(commands, ["report", *words])
    assert done.exit_code == 0, done.output
    return done.output


def cells(shown: str, first: str) -> list[str]:
    """The cells of the line of a table that begins with this word."""
    (line,) = [line for line in shown.splitlines() if line.strip("┃│ ").startswith(first)]
    return [cell.strip() for cell in line.strip("┃│ ").replace("┃", "│").split("│")]


def test_the_hours_of_users_and_machines_are_added_up(asked: list[int]) -> None:
    shown = run("--all")
    assert asked == [0]
    assert shown.startswith("lab, ever: 2 machines offered 972.0 h of places, of which users used 105.0 h (11%)\n")
    assert cells(shown, "ada") == ["ada", "103.00", "87.00", "21", "2.000"]
    assert cells(shown, "bob") == ["bob", "2.00", "1.00", "30", "0.000"]
    assert cells(shown, "ws7") == ["ws7", "948.0", "102.00", "86.00", "20", "2.000"]


def test_days_and_kinds_of_work_have_tables_too(asked: list[int]) -> None:
    first = date(1970, 1, 1) + timedelta(days=DAY)
    by_day = run("--all", "--by", "day")
    assert cells(by_day, "before")[1:3] == ["900.0", "90.00"]
    assert cells(by_day, f"{first}")[1:3] == ["48.0", "12.00"]
    by_what = run("--all", "--by", "what")
    assert [cells(by_what, what)[1] for what in ("ranks", "interpreters", "jobs")] == ["90.00", "12.00", "3.00"]


def test_the_last_days_are_asked_for_and_a_grid_that_did_nothing_has_no_hours(asked: list[int]) -> None:
    today = (date.today() - date(1970, 1, 1)).days
    assert "0 machines offered 0.0 h" in run("--days", "1")
    assert asked[0] - today in (-1, 0, 1)  # the days of the hub are those of UTC
    found = json.loads(run("--all", "--json"))
    assert (len(found["uses"]), len(found["offered"])) == (4, 3)
    assert found["uses"][0]["day"] is None
    assert found["uses"][1]["energy"] == 7_200_000


@pytest.mark.timeout(300)
@pytest.mark.xdist_group("jobs")
def test_a_grid_remembers_what_was_computed_for_whom(tmp_path: Path) -> None:
    with site(tmp_path) as lab:
        lab.join("ws7", lab.up("--hub-only"))
        lab.say("hub", "submit", "--wait", "-n", "3", "--", "sh", "-c", "sleep 0.5")

        def started() -> int:
            found = json.loads(lab.say("hub", "report", "--json"))
            assert all(use["machine"] == "ws7" and use["what"] == "jobs" for use in found["uses"])
            return sum(use["started"] for use in found["uses"])

        until(lambda: started() == 3, timeout=PATIENCE, what="the history of three jobs")
        lab.kill("hub")
        lab.up("--hub-only")
        assert started() == 3
        (offered,) = json.loads(lab.say("hub", "report", "--json"))["offered"]
        assert offered["places"] > 0
