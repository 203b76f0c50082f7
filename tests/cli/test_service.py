"""`phalanx service`: units of systemd, with a systemctl that is a stand-in, and texts for other systems."""

from __future__ import annotations

import configparser
import json
import plistlib
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import click
import pytest
from api.joined import join
from click.testing import CliRunner, Result
from phalanx import _native
from phalanx.cli import commands
from phalanx.deploying import services
from phalanx.errors import DeployError, IdentityError
from skips import require

#: Notes its words, and prints into the log of a unit that is started what its service would print.
SYSTEMCTL = """#!/bin/sh
echo "systemctl $*" >> "$SAID"
for word; do unit=$word; done
case "$*" in
  *is-active*) exit 3;;
  *restart*) file=$(ls "$XDG_CONFIG_HOME/systemd/user/$unit" "$UNITS/$unit" 2> /dev/null)
    log=$(sed -n 's/^StandardOutput=append://p' "$file")
    echo "$PRINTS" >> "$log";;
esac
"""
LOGINCTL = """#!/bin/sh
echo "loginctl $*" >> "$SAID"
"""


class Manager:
    """A manager of systemd that starts nothing."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.home, self.config, self.units = folder / "home", folder / "config", folder / "units"
        self._said = folder / "said"
        (folder / "bin").mkdir()
        self.units.mkdir()
        for name, text in {"systemctl": SYSTEMCTL, "loginctl": LOGINCTL}.items():
            (folder / "bin" / name).write_text(text)
            (folder / "bin" / name).chmod(0o755)
        patch.setenv("PATH", f"{folder / 'bin'}:/usr/bin:/bin")
        patch.setenv("PHALANX_HOME", str(self.home))
        patch.setenv("XDG_CONFIG_HOME", str(self.config))
        patch.setenv("SAID", str(self._said))
        patch.setenv("UNITS", str(self.units))
        patch.setenv("PRINTS", "listening on 0.0.0.0:7400 as ws7")
        patch.setattr(services, "_SYSTEM_UNITS", self.units)
        patch.setattr(services, "PATIENCE", 0.5)

    @property
    def said(self) -> list[str]:
        return self._said.read_text().splitlines() if self._said.exists() else []

    @property
    def unit(self) -> Path:
        return self.config / "systemd" / "user" / "phalanx-lab.service"


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Manager:
    found = Manager(tmp_path, monkeypatch)
    join(found.home, _native.issue_member(_native.create_grid(), "executor", "ws7"), role="executor")
    return found


def call(*words: str) -> Result:
    return CliRunner().invoke(commands, ["service", *words], standalone_mode=False)


def run(*words: str) -> str:
    done = call(*words)
    assert done.exception is None, done.output
    return done.output


def error(*words: str) -> str:
    done = call(*words)
    assert isinstance(done.exception, DeployError | IdentityError), done.output
    return str(done.exception)


def program(unit: str) -> list[str]:
    read = configparser.RawConfigParser(strict=True)
    read.optionxform = str  # type: ignore[method-assign,assignment]
    read.read_string(unit)
    return shlex.split(read["Service"]["ExecStart"])


def test_a_unit_starts_the_executor_of_a_grid(manager: Manager) -> None:
    told = run("install", "join", "lab", "--interpreters", "4", "--export", "/a $b%:rw")
    assert "listening on 0.0.0.0:7400 as ws7\n" in told
    assert "phalanx-lab.service runs, and starts with the machine; it prints to " in told
    text = manager.unit.read_text()
    assert program(text)[1:] == ["join", "lab", "--interpreters", "4", "--export", "/a $$b%%:rw"]
    assert f'Environment="PHALANX_HOME={manager.home}"' in text
    assert "WantedBy=default.target" in text
    assert stat.S_IMODE((manager.home / "services" / "lab.log").stat().st_mode) == 0o600
    for line in (
        "systemctl --user show-environment",
        "loginctl enable-linger",
        "systemctl --user daemon-reload",
        "systemctl --user enable phalanx-lab.service",
        "systemctl --user restart phalanx-lab.service",
    ):
        assert line in manager.said


@pytest.mark.parametrize("words", [(), ("join", "lab"), ("lab",), ("join",)])
def test_uninstalling_leaves_nothing(manager: Manager, words: tuple[str, ...]) -> None:
    run("install", "join", "lab")
    run("install", "join", "lab", "--interpreters", "2")  # other options
    told = run("uninstall", *words)
    assert f"removed {manager.unit}" in told
    assert not manager.config.exists()
    assert not (manager.home / "services").exists()
    assert "systemctl --user disable --now phalanx-lab.service" in manager.said
    assert manager.said[-2:] == ["systemctl --user daemon-reload", "loginctl disable-linger"]
    assert "no such service is installed" in error("uninstall")


def test_a_unit_of_the_user_is_neither_overwritten_nor_removed(manager: Manager) -> None:
    manager.unit.parent.mkdir(parents=True)
    manager.unit.write_text("mine")
    assert "phalanx service has not written it: move it away" in error("install", "join", "lab")
    assert "no such service" in error("uninstall")
    assert manager.unit.read_text() == "mine"


def test_a_service_of_the_machine(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "--system needs the rights of root" in error("install", "--system", "join", "lab")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    run("install", "--system", "join", "lab")
    text = (manager.units / "phalanx-lab.service").read_text()
    assert "WantedBy=multi-user.target" in text
    assert "systemctl restart phalanx-lab.service" in manager.said
    assert not [line for line in manager.said if "linger" in line or "--user" in line]
    run("uninstall")
    assert list(manager.units.iterdir()) == []


def test_the_first_start_of_a_hub_shows_its_first_line(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRINTS", "listening on 0.0.0.0:7400 as labpc\nphalanx join phalanx1-x")
    assert "phalanx join phalanx1-x\n" in run("install", "up", "--grid", "new")
    unit = manager.config / "systemd" / "user" / "phalanx-new.service"
    assert program(unit.read_text())[1:] == ["up", "--grid", "new"]
    monkeypatch.setattr("platform.node", lambda: "labpc9")
    run("install")
    assert program((unit.parent / "phalanx-labpc9.service").read_text())[1:] == ["up", "--grid", "labpc9"]
    assert "say which, labpc9 or new" in error("uninstall")
    assert "say which, labpc9 or new" in error("uninstall", "up")
    run("uninstall", "new")
    run("uninstall", "up")


def test_a_service_that_ends_is_an_error_with_its_words(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRINTS", "phalanx: no cage here\nphalanx: help: phalanx help PolicyError")
    assert "is not ready; it says:\nphalanx: no cage here" in error("install", "join", "lab")
    monkeypatch.setenv("PRINTS", "something else")
    assert "is not ready" in error("install", "join", "lab")
    run("uninstall")


def test_without_systemd_the_error_says_what_else_there_is(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert "no user manager of systemd is here" in error("install", "join", "lab")
    assert not (manager.home / "services").exists()
    monkeypatch.setattr("sys.platform", "darwin")
    assert "for this system: --print launchd" in error("install", "join", "lab")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["down"], "a service runs up, or join GRID, and not 'down'"),
        (["join", "lab", "--no-start"], "the service only starts the executor"),
        (["join", "lab", "--interpreters", "0"], "0 is too small"),
        (["join"], "Missing argument"),
        (["up", "lab"], "unexpected extra argument"),
    ],
)
def test_wrong_words_are_usage_errors(manager: Manager, words: list[str], told: str) -> None:
    done = call("install", *words)
    assert isinstance(done.exception, click.UsageError), done.output
    assert told in done.exception.format_message()


def test_a_token_is_no_grid(manager: Manager) -> None:
    assert "first, phalanx join --no-start TOKEN" in error("install", "join", "phalanx1-x")


def test_launchd_reads_its_text(manager: Manager) -> None:
    told = plistlib.loads(run("install", "--print", "launchd", "join", "lab", "--accept", "a<b&c").encode())
    assert told["ProgramArguments"][1:] == ["join", "lab", "--accept", "a<b&c"]
    assert told["EnvironmentVariables"] == {"PHALANX_HOME": str(manager.home)}
    assert manager.said == []


def test_windows_gets_commands(manager: Manager) -> None:
    told = run("install", "--print", "windows", "join", "lab", "--accept", "it's me")
    assert "-Argument 'join lab --accept \"it''s me\"'" in told
    assert "Register-ScheduledTask -TaskName 'phalanx-lab'" in told


@pytest.mark.parametrize("kind", ["--user", "--system"])
def test_systemd_accepts_a_unit(manager: Manager, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    require("systemd-analyze")
    monkeypatch.setenv("PHALANX_HOME", str(manager.home))
    words = ["--system"] if kind == "--system" else []
    file = tmp_path / "phalanx-lab.service"
    file.write_text(run("install", *words, "--print", "systemd", "join", "lab"))
    assert program(file.read_text())[0] == str(Path(sys.executable).with_name("phalanx"))
    done = subprocess.run(["systemd-analyze", kind, "verify", file], capture_output=True, text=True, timeout=60)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "phalanx" in line]) == (0, [])


def test_a_record_that_is_damaged_is_no_service(manager: Manager) -> None:
    run("install", "join", "lab")
    record = manager.home / "services" / "lab.json"
    told = json.loads(record.read_text())
    assert told["lingers"] is True
    record.write_text("{")
    assert "no such service" in error("uninstall")
    run("install", "join", "lab")
    run("uninstall")


def test_leaving_says_that_a_service_stays(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    run("install", "join", "lab")
    monkeypatch.setattr(_native, "hub_leave", lambda *words: None, raising=False)
    done = CliRunner().invoke(commands, ["leave", "lab"], standalone_mode=False)
    assert done.exception is None, done.output
    assert "still to remove: its service, with phalanx service uninstall lab" in done.output
    run("uninstall", "lab")
