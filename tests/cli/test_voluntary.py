"""When a machine works for others: the options, how they are remembered, the owner's pause, and the owner's books."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

import click
import pytest
from api.joined import join
from click.testing import CliRunner
from phalanx import _native
from phalanx._grids import read_joined
from phalanx._voluntary import books, linux, pausing, rules
from phalanx._voluntary.rules import Rules
from phalanx.cli import _donating, _voluntary, commands
from phalanx.cli._donating import Donating
from phalanx.cli._voluntary import Voluntary
from phalanx.errors import IdentityError

from laboratory.processes import until


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PHALANX_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def read(*words: str) -> Voluntary:
    """The options of a command line."""
    found: list[Voluntary] = []

    @click.command()
    def command(**all_of: Any) -> None:
        found.append(Voluntary(**all_of))

    for option in _voluntary.OPTIONS:
        command = option(command)
    command.main([*words], standalone_mode=False)
    return found[0]


def test_the_options_are_rules() -> None:
    assert read().rules() == Rules()
    assert read("--when-idle").rules() == Rules(300, None, (), False, False)
    night = read("--when-idle", "--idle-after", "15m", "--hours", "22:00-7:00", "--on-battery", "--most-load", "0.5")
    assert night.rules() == Rules(900, 0.5, ((1320, 420),), True, False)
    assert read("--hours", "12:00-13:00", "--hours", "18:00-00:00").rules().hours == ((720, 780), (1080, 0))
    said = "when nobody has used it for 900 s, while its owner's programs use at most 0.5 cores, at 22:00-07:00"
    assert ", ".join(night.rules().words()) == f"{said}, not on a metered network"
    assert [it.niceness(it.rules()) for it in (read(), read("--when-idle"), read("--when-idle", "--nice", "3"))] == [
        0,
        19,
        3,
    ]


@pytest.mark.parametrize("word", ["22-7", "24:00-07:00", "22:60-07:00", "22:00", "x:00-07:00", "22:00-07:00-08:00"])
def test_hours_that_are_none_are_refused(word: str) -> None:
    with pytest.raises(click.BadParameter, match="write FROM-TO, like 22:00-07:00"):
        read("--hours", word)


def test_options_that_mean_nothing_without_the_idle_rule_are_refused() -> None:
    for words in (["--idle-after", "5m"], ["--on-battery"], ["--always", "--on-metered"]):
        with pytest.raises(click.UsageError, match="are for --when-idle"):
            read(*words).rules()


def test_rules_are_remembered_until_others_are_said(home: Path) -> None:
    join(home, _native.issue_member(_native.create_grid(), "executor", "ws7"), role="executor")
    joined = read_joined("lab")
    night = _voluntary.rules_of(joined, read("--hours", "22:00-07:00", "--most-load", "1"))
    _voluntary.remember(joined, night)
    assert _voluntary.rules_of(joined, read()) == night == Rules(None, 1.0, ((1320, 420),))
    assert _voluntary.rules_of(joined, read("--nice", "5")) == night, "it says nothing about when"
    assert _voluntary.rules_of(joined, read("--always")) == Rules()
    for text in ('{"hours": []}', "[]", json.dumps({**rules.to_json(night), "hours": ["25:00-01:00"]})):
        (joined.folder / "rules.json").write_text(text)
        with pytest.raises(IdentityError, match=r"rules.json is damaged: .*say again when this machine works"):
            _voluntary.rules_of(joined, read())


def test_limits_are_remembered_until_others_are_said(home: Path) -> None:
    join(home, _native.issue_member(_native.create_grid(), "executor", "ws7"), role="executor")
    joined = read_joined("lab")
    said = Donating(memory=8 << 30, network="grid", interpreters=4, accept=("ada",))
    assert _donating.as_before(joined, said) == said
    _donating.remember(joined, said)
    assert _donating.as_before(joined, Donating()) == said._replace(accept=())
    assert _donating.as_before(joined, Donating(cpu=50)) == Donating(cpu=50)
    for text in ('{"memory": "8GB"}', "[]", '{"accept": ["ada"]}', '{"cpu": true}'):
        (joined.folder / "limits.json").write_text(text)
        with pytest.raises(IdentityError, match=r"limits.json is damaged: .*say the limits of this machine again"):
            _donating.as_before(joined, Donating())


def test_a_pause_ends_when_its_time_is_over_or_the_owner_says_so(home: Path) -> None:
    assert pausing.paused() is None
    assert not pausing.resume()
    pausing.pause(None)
    assert (home / "paused.json").stat().st_mode & 0o777 == 0o600
    made = pausing.paused()
    assert made is not None
    assert made.until is None
    assert pausing.resume()
    assert pausing.paused() is None
    pausing.pause(0.01)
    until(lambda: pausing.paused() is None, timeout=30, what="its end")
    for text in ("", "[]", '{"since": "x", "until": null}'):
        (home / "paused.json").write_text(text)
        assert pausing.paused() == (0.0, None), "the owner has made the file, whatever is in it"


def test_the_books_of_executors_are_summed_once(home: Path) -> None:
    today = date.today().isoformat()

    def used(seconds: float) -> dict[str, dict[str, float]]:
        return {"ada": {"processor": seconds, "places": 2 * seconds, "started": 1.0}}

    kept = books.Books()
    kept.write({"closed": None}, used(1))
    kept.write({"closed": None}, used(3))
    assert books.days() == {today: {"ada": {"processor": 3.0, "places": 6.0, "started": 1.0}}}
    (told,) = books.asked(0)
    assert (told["pid"], told["closed"]) == (os.getpid(), None)
    assert kept.is_asked()
    assert not kept.is_asked()
    kept.close()
    assert books.asked(0) == []
    assert [file.name for file in (home / "here").glob("*.json")] == ["days.json"]
    assert books.days()[today]["ada"]["processor"] == 3.0
    killed = home / "here" / "1.json"
    state = {"written": 0, "days": {"2020-01-01": used(5)}}
    killed.write_text(json.dumps(state))
    books.Books().close()
    assert (books.days()["2020-01-01"], killed.exists()) == (used(5), False)
    (home / "here" / "2.json").write_text("{")
    assert books.asked(0) == []


def test_owners_read_that_nothing_runs(home: Path) -> None:
    runner = CliRunner()
    told = runner.invoke(commands, ["here"])
    assert told.output == "no executor of this account runs on this machine\ntoday for nobody\n"
    runner.invoke(commands, ["pause", "--for", "2h"])
    assert "paused since" in runner.invoke(commands, ["here"]).output
    found = json.loads(runner.invoke(commands, ["here", "--json"]).output)
    assert found["executors"] == []
    assert found["paused"]["until"]


def supply(folder: Path, **words: str) -> None:
    folder.mkdir(parents=True)
    for name, word in words.items():
        (folder / name).write_text(word + "\n")


def test_a_laptop_runs_on_battery_when_it_is_discharged_and_no_mains_is_there(tmp_path: Path) -> None:
    power = tmp_path / "power"
    assert not linux.runs_on_battery(power)
    supply(power / "hid", type="Battery", status="Discharging", scope="Device")
    assert not linux.runs_on_battery(power), "that of a mouse"
    supply(power / "BAT0", type="Battery", status="Discharging")
    assert linux.runs_on_battery(power)
    supply(power / "AC", type="Mains", online="0")
    assert linux.runs_on_battery(power)
    (power / "AC" / "online").write_text("1\n")
    assert not linux.runs_on_battery(power)
    (power / "AC" / "online").write_text("0\n")
    (power / "BAT0" / "status").write_text("Charging\n")
    assert not linux.runs_on_battery(power)


def test_load_is_that_of_others() -> None:
    burning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        load, began = linux.Load(), linux.busy_seconds()
        assert load.look(lambda: 0.0) is None
        assert until(lambda: load.look(lambda: 0.0), timeout=60, what="a load of others")
        assert linux.busy_seconds() > began
        own = linux.Load()
        own.look(linux.busy_seconds)
        mine = until(lambda: own.look(linux.busy_seconds) is not None, timeout=60, what="another one")
        assert mine
        assert own.look(linux.busy_seconds) == pytest.approx(0.0, abs=0.1)
    finally:
        burning.kill()
        burning.wait()


def test_terminals_tell_when_they_were_read(monkeypatch: pytest.MonkeyPatch) -> None:
    near, far = os.openpty()
    try:
        os.write(near, b"line\n")
        os.read(far, 5)
        idle = linux.Terminals().idle()
        assert idle is not None
        assert idle < 60
        monkeypatch.setattr(time, "time", lambda: 1e10)
        later = linux.Terminals().idle()
        assert later is not None
        assert later > 1e9
    finally:
        os.close(near)
        os.close(far)


def test_the_last_use_of_a_closed_terminal_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    open_, clock = [1000.0, 4000.0], [4010.0]
    monkeypatch.setattr(linux, "times_of_terminals", lambda: list(open_))
    monkeypatch.setattr(time, "time", lambda: clock[0])
    terminals = linux.Terminals()
    assert terminals.idle() == 10.0
    open_.remove(4000.0)
    clock[0] = 4030.0
    assert terminals.idle() == 30.0
    open_.clear()
    assert terminals.idle() == 30.0
    open_.append(4020.0)
    assert terminals.idle() == 10.0
    clock[0] = 500.0  # the clock was set back
    assert terminals.idle() is None
    assert linux.Terminals().idle() is None
