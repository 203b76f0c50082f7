"""Private keys that never leave their machine: `phalanx grid request`, `sign` and `accept`."""

from __future__ import annotations

import os
from pathlib import Path

import phalanx as px
import pytest
from click.testing import CliRunner, Result
from phalanx import _native
from phalanx._reach import EXECUTOR, read_identity
from phalanx.cli.grid import grid as command


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The authority's folder, and a folder for everything that is carried."""
    monkeypatch.setenv("PHALANX_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert grid("create").exit_code == 0


def grid(*words: str) -> Result:
    return CliRunner().invoke(command, words, standalone_mode=False)


def test_the_key_stays_where_the_request_was_made(tmp_path: Path) -> None:
    assert grid("request", "ws7").exit_code == 0
    key = (tmp_path / "ws7.key").read_text()
    assert (tmp_path / "ws7.key").stat().st_mode & 0o777 == 0o600
    assert "PRIVATE KEY" not in (tmp_path / "ws7.request").read_text()
    signed = grid("sign", "ws7.request")
    assert "ws7 is a member in the role executor" in signed.output
    assert "PRIVATE KEY" not in (tmp_path / "ws7.cert").read_text()
    assert grid("accept", "ws7.cert").exit_code == 0
    identity = (tmp_path / "ws7.pem").read_text()
    assert identity.endswith(key)
    assert not (tmp_path / "ws7.key").exists()
    assert _native.check_member(identity, "ws7.pem") == ("executor", "ws7", False)


def test_it_is_a_member_of_the_grid_like_any_other(tmp_path: Path) -> None:
    for words in (["request", "ws7"], ["sign", "ws7.request"], ["accept", "ws7.cert"]):
        assert grid(*words).exit_code == 0
    with px.Space() as own:
        address = own.serve("127.0.0.1:0", identity=tmp_path / "ws7.pem")
        with px.Space(address) as space:
            space.out("hello")
        assert own.inp("hello") is not None


@pytest.mark.parametrize("role", ["user", "executor"])
def test_a_request_says_its_role_and_name(role: str) -> None:
    grid("request", "Ada", "--role", role)
    assert f"ada is a member in the role {role}" in grid("sign", "Ada.request").output


def test_what_does_not_fit_is_refused_with_the_reason(tmp_path: Path) -> None:
    for name in ("ws7", "ws8"):
        grid("request", name)
        grid("sign", f"{name}.request")
    refusals = {
        ("sign", "ws7.cert"): "is no request that phalanx grid request has made",
        ("sign", "none.request"): "none.request cannot be read",
        ("request", "a/b"): "'a/b' is no name for a member",
        ("request", "ws7"): "ws7.key cannot be written",
        ("accept", "ws7.cert", "--key", "ws8.key"): "ws7.cert and ws8.key",
        ("accept", "ws7.cert", "--key", "none.key"): "it is where the request was made",
    }
    for words, reason in refusals.items():
        with pytest.raises(px.errors.IdentityError) as refused:
            raise grid(*words).exception or AssertionError(f"{words} was accepted")
        assert reason in str(refused.value).replace('"', "'")
    assert (tmp_path / "ws7.key").exists()
    assert not (tmp_path / "ws7.pem").exists()


@pytest.mark.parametrize("cut", [0, 30, 200, -30])
def test_a_damaged_request_is_refused(tmp_path: Path, cut: int) -> None:
    grid("request", "ws7")
    text = (tmp_path / "ws7.request").read_text()
    (tmp_path / "ws7.request").write_text(text[:cut])
    refused = grid("sign", "ws7.request").exception
    assert isinstance(refused, px.errors.IdentityError), refused


@pytest.mark.skipif(os.name != "posix", reason="files have no modes here")
def test_a_private_key_that_others_may_read_is_refused_with_the_command_that_mends_it(tmp_path: Path) -> None:
    file = tmp_path / "its own.pem"
    grid("issue", "ws7", "--out", str(file))
    file.chmod(0o640)
    with pytest.raises(px.errors.IdentityError, match=r"mode 640\); mend that with: chmod 600 '.*its own.pem'"):
        read_identity(file, EXECUTOR)
    file.chmod(0o400)
    assert read_identity(file, EXECUTOR) == file.read_text()
    authority = tmp_path / "home" / "authority.pem"
    authority.chmod(0o644)
    assert "chmod 600" in str(grid("issue", "ws8").exception)


def test_a_register_says_what_was_issued(tmp_path: Path) -> None:
    grid("issue", "ws7", "--out", "ws7.pem")
    grid("request", "ada", "--role", "user")
    grid("sign", "ada.request")
    lines = [line.split() for line in grid("list").output.splitlines()]
    assert [words[1:3] for words in lines][1:] == [["executor", "ws7"], ["user", "ada"]]
    assert lines[1][3] == _native.certificate_of((tmp_path / "ws7.pem").read_text())[2]
    assert all(len(words[3]) == 64 for words in lines)
    again = grid("issue", "ws7", "--out", "again.pem")
    assert f"ws7 was issued before, on {lines[1][0]}" in again.stderr
    grid("revoke", "ws7", "--role", "executor")
    assert "issued before" not in grid("issue", "ws7", "--out", "third.pem").stderr
    (tmp_path / "home" / "issued.txt").write_text("what\n")
    assert "line 1 of the register" in str(grid("list").exception)


def test_a_locked_authority_makes_members_only_with_its_passphrase(tmp_path: Path) -> None:
    authority = tmp_path / "home" / "authority.pem"
    (tmp_path / "old").write_text("long and odd\n")
    (tmp_path / "new").write_text("longer and odder\n")
    assert grid("lock", "--new-passphrase-file", "old").exit_code == 0
    assert "PRIVATE KEY" not in authority.read_text()
    assert "no terminal to ask on" in str(grid("issue", "ws7").exception)
    assert grid("issue", "ws7", "--passphrase-file", "old").exit_code == 0
    assert grid("lock", "--passphrase-file", "old", "--new-passphrase-file", "new").exit_code == 0
    assert "not the passphrase" in str(grid("issue", "ws8", "--passphrase-file", "old").exception)
    grid("request", "ws8")
    assert grid("sign", "ws8.request", "--passphrase-file", "new").exit_code == 0
    assert authority.stat().st_mode & 0o777 == 0o600
    assert not authority.with_suffix(".pem.new").exists()


def test_a_passphrase_is_asked_for_twice(tmp_path: Path) -> None:
    typed = "long and odd\nlong and odd\n"
    done = CliRunner().invoke(command, ["lock"], standalone_mode=False, input=typed)
    assert "is locked by your passphrase" in done.output
    assert "long and odd" not in done.output
    (tmp_path / "file").write_text("long and odd")
    assert grid("issue", "ws7", "--passphrase-file", "file").exit_code == 0
