"""`phalanx doctor`: this machine, and executors at addresses."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from api.executors import Executors
from api.joined import ROOT, join
from click.testing import CliRunner, Result
from phalanx import _native
from phalanx._grids import write_joined
from phalanx.checking.executors import check_executor
from phalanx.checking.findings import Findings
from phalanx.cli import commands
from phalanx.grid import Grid


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHALANX_HOME", str(tmp_path / "identities"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def executors(tmp_path: Path) -> Iterator[Executors]:
    with Executors(tmp_path) as found:
        yield found


def doctor(*words: str | Path) -> tuple[Result, dict[str, dict[str, Any]]]:
    """The findings by what they are about."""
    result = CliRunner().invoke(commands, ["doctor", "--json", *map(str, words)], standalone_mode=False)
    assert result.exception is None, result.output
    return result, {finding["about"]: finding for finding in json.loads(result.stdout)}


def test_this_machine_is_fit_for_its_own_tests() -> None:
    result, found = doctor()
    assert result.return_value == 0, result.stdout
    assert found["Python"]["verdict"] == found["phalanx"]["verdict"] == "ok"
    assert found["identities"]["verdict"] == "warning"
    assert found["identities"]["mend"] == "phalanx grid create"
    assert {"cage", "open files", "/dev/shm", "ssh", "temporary files"} <= set(found)


def test_a_person_reads_one_line_for_each_finding() -> None:
    result = CliRunner().invoke(commands, ["doctor"], standalone_mode=False)
    lines = result.stdout.splitlines()
    assert lines
    assert all(line.split()[0] in ("ok", "warning", "error") and "  here  " in line for line in lines)


def test_a_key_that_others_can_read_is_an_error_with_its_command(tmp_path: Path) -> None:
    assert CliRunner().invoke(commands, ["grid", "create", "--user", "ada"], standalone_mode=False).exception is None
    _, found = doctor()
    assert found["user.pem"]["verdict"] == found["authority.pem"]["verdict"] == "ok"
    file = tmp_path / "identities" / "user.pem"
    file.chmod(0o644)
    result, found = doctor()
    assert result.return_value == 1
    assert found["user.pem"]["verdict"] == "error"
    assert found["user.pem"]["mend"] == f"chmod 600 {file}"


def test_grids_that_were_joined_are_named(tmp_path: Path) -> None:
    root = _native.create_grid()
    joined = join(tmp_path / "identities", _native.issue_member(root, "user", "bob"))
    result, found = doctor()
    assert result.return_value == 0, result.stdout
    assert found["identities"]["verdict"] == "ok"
    assert found["identities"]["text"] == "bob of the grid lab"
    join(tmp_path / "identities", _native.issue_member(root, "executor", "ws7"), role="executor")
    assert doctor()[1]["identities"]["text"] == "ws7 and bob of the grid lab"
    joined.folder.chmod(0o777)
    result, found = doctor()
    assert result.return_value == 1
    assert "the grid lab: other accounts may replace the files" in found["identities"]["text"]
    assert found["identities"]["mend"] == f"chmod 700 {joined.folder}"


def test_a_grid_that_does_not_fit_its_certificate_is_an_error(tmp_path: Path) -> None:
    joined = join(tmp_path / "identities", _native.issue_member(_native.create_grid(), "user", "bob"))
    write_joined(joined._replace(root=ROOT))
    result, found = doctor()
    assert result.return_value == 1
    assert found["identities"]["verdict"] == "error"
    assert f"the grid lab: {joined.folder / 'grid.json'} names the root" in found["identities"]["text"]
    assert found["identities"]["mend"].startswith("if the certificate is the right one, write there")


def test_a_hub_renews_a_certificate_of_a_joined_grid_that_has_ended(tmp_path: Path) -> None:
    ended = _native.issue_member(_native.create_grid(), "user", "bob", days=1 / 86400)
    join(tmp_path / "identities", ended)
    deadline = time.monotonic() + 30
    while "user.pem" not in (found := doctor()[1]):
        assert time.monotonic() < deadline
    assert found["user.pem"]["verdict"] == "warning"
    assert "the certificate of bob ended on" in found["user.pem"]["text"]
    assert found["user.pem"]["mend"] == "phalanx members --grid lab"


def test_a_certificate_that_is_revoked_is_an_error(tmp_path: Path) -> None:
    for words in (["create", "--user", "ada"], ["revoke", "ada"]):
        assert CliRunner().invoke(commands, ["grid", *words], standalone_mode=False).exception is None
    result, found = doctor()
    assert result.return_value == 1
    assert "is revoked" in found["user.pem"]["text"]


def test_an_executor_that_is_well(executors: Executors) -> None:
    address = executors.start("ws7")
    Path("hosts.txt").write_text(f"ws7 = {address}\n")
    result, found = doctor("--identity", executors.identity, "--hosts", "hosts.txt", "ws7")
    assert result.return_value == 0, result.stdout
    assert {finding["place"] for finding in found.values()} == {"ws7"}
    assert "ws7 has proved its name" in found["handshake"]["text"]
    assert "private" in found["levels"]["text"] or "clear" in found["levels"]["text"]
    for about in ("name", "port", "phalanx", "Python", "task", "clock", "numpy"):
        assert found[about]["verdict"] == "ok", found


def test_another_member_than_the_expected_one_is_an_error(executors: Executors) -> None:
    Path("hosts.txt").write_text(f"ws8 = {executors.start('ws7')}\n")
    result, found = doctor("--identity", executors.identity, "--hosts", "hosts.txt", "ws8")
    assert result.return_value == 1
    assert found["handshake"]["verdict"] == "error"
    assert "ws7" in found["handshake"]["text"]


def test_a_closed_port_and_a_name_that_does_not_resolve_are_errors(executors: Executors) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    result, found = doctor("--identity", executors.identity, f"127.0.0.1:{port}")
    assert result.return_value == 1
    assert found["port"]["text"] == f"{port} is closed: no process listens there"
    result, found = doctor("--identity", executors.identity, "no-such-machine.invalid")
    assert result.return_value == 1
    assert "does not resolve" in found["name"]["text"]


def test_clocks_and_versions_of_numpy_are_judged() -> None:
    found = Findings("ws7")
    for theirs in (100.5, 98.0, 130.0, 1000.0):
        found.clock(100.0, theirs, 101.0)
    for there, here in (("2.1", "2.1"), ("", ""), ("2.1", ""), ("", "2.1"), ("2.0", "2.1")):
        found.numpy(there, here, "pip install")
    verdicts = [finding.verdict for finding in found.all]
    assert verdicts == ["ok", "ok", "warning", "error", "ok", "ok", "ok", "warning", "warning"]
    assert "29 s ahead of" in found.all[2].text
    assert found.all[-1].mend == "pip install numpy==2.1"


@pytest.mark.parametrize("words", [["--ssh", "'", "a@b"], ["a..b:7400"], ["a@b..c"]])
def test_words_that_make_no_sense_are_usage_errors(words: list[str]) -> None:
    result = CliRunner().invoke(commands, ["doctor", *words])
    assert result.exit_code == 2, result.output


def test_another_executor_than_the_deployed_one_is_an_error(executors: Executors) -> None:
    address = executors.start("ws7")
    grid = Grid([address], identity=executors.identity)
    found = {it.about: it for it in check_executor(grid, address, "ws8")}
    assert found["handshake"].verdict == "error"
    assert found["handshake"].text == "ws7 answers there, and ws8 was deployed"
