"""Private keys that never leave their machine: `phalanx grid request`, `sign` and `accept`."""

from __future__ import annotations

import os
from pathlib import Path

import phalanx as px
import pytest
from click.testing import CliRunner, Result
from phalanx import _native
from phalanx._identities import EXECUTOR, USER, read_identity
from phalanx.cli.grid import _register
from phalanx.cli.grid import grid as command

from laboratory.processes import until


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
    assert _native.check_member(identity, "ws7.pem") == ("executor", "ws7", None)


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


def test_no_command_of_a_grid_makes_a_hub() -> None:
    with pytest.raises(px.IdentityError, match="phalanx up makes a hub"):
        _native.issue_member(_native.create_grid(), "hub", "front")
    with pytest.raises(px.IdentityError, match="nobody becomes a hub by asking"):
        _native.request_member("hub", "front")


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


def issued(tmp_path: Path, role: str, name: str, seconds: float) -> None:
    """Issues a certificate that is good for so long."""
    authority = tmp_path / "home" / "authority.pem"
    days = seconds / (24 * 3600)
    text = _native.issue_member(authority.read_text(), role, name, str(authority), None, days)
    (tmp_path / f"{name}.pem").write_text(text)
    _register(str(authority), text)


def renewed(tmp_path: Path) -> list[str]:
    """The names in the file of renewed certificates."""
    home = tmp_path / "home"
    if not (home / "renewed.pem").exists():
        return []
    rows = _native.issued_certificates((home / "renewed.pem").read_text(), (home / "authority.pem").read_text())
    return sorted(row[1] for row in rows)


def test_certificates_in_the_last_third_of_their_life_are_renewed(tmp_path: Path) -> None:
    grid("issue", "fresh", "--out", "fresh.pem")
    for name, seconds in (("soon", 3600.0), ("ended", 0.0), ("gone", 3600.0)):
        issued(tmp_path, "executor", name, seconds)
    grid("revoke", "gone")
    until(lambda: is_over(tmp_path / "ended.pem"), timeout=60, what="the end of a certificate")
    done = grid("renew")
    assert "soon in the role executor: good until 20" in done.output, done
    assert renewed(tmp_path) == ["soon"]
    entries = [line.split() for line in grid("list").output.splitlines()]
    assert [entry[2] for entry in entries][-2:] == ["gone", "soon"]
    new = _native.certificate_of((tmp_path / "home" / "renewed.pem").read_text())
    assert new == ("executor", "soon", entries[-1][3])
    grid("renew", "ENDED", "--days", "3")
    assert renewed(tmp_path) == ["ended", "soon"]
    assert (tmp_path / "home" / "renewed.pem").stat().st_mode & 0o777 == 0o644
    grid("revoke", "soon")
    assert grid("list").output.count("revoked") == 3, "what was renewed is revoked with the rest"


def is_over(identity: Path) -> bool:
    try:
        _native.check_member(identity.read_text(), "it")
    except px.IdentityError:
        return True
    return False


def test_who_keeps_the_grid_is_renewed_at_once(tmp_path: Path) -> None:
    user = tmp_path / "home" / "user.pem"
    before = user.read_text()
    _, name, _ = _native.check_member(before, "it")
    assert "no certificate is in the last third" in grid("renew").output
    assert grid("renew", name, "--days", "500").exit_code == 0
    after = user.read_text()
    assert after != before
    assert after.split("-----BEGIN PRIVATE KEY-----")[1] == before.split("-----BEGIN PRIVATE KEY-----")[1]
    assert user.stat().st_mode & 0o777 == 0o600


def test_a_certificate_is_renewed_in_the_second_in_which_it_was_made(tmp_path: Path) -> None:
    for number in range(4):
        grid("issue", f"ws{number}", "--out", f"ws{number}.pem")
        done = grid("renew", f"ws{number}")
        assert f"ws{number} in the role executor: good until 20" in done.output, done
    assert renewed(tmp_path) == ["ws0", "ws1", "ws2", "ws3"]
    before = (tmp_path / "home" / "renewed.pem").read_text()
    assert "no certificate is in the last third" in grid("renew").output
    assert (tmp_path / "home" / "renewed.pem").read_text() == before


def test_what_cannot_be_renewed_is_said(tmp_path: Path) -> None:
    grid("issue", "ws7", "--out", "ws7.pem")
    grid("issue", "ws8", "--out", "ws8.pem")
    grid("revoke", "ws8")
    home = tmp_path / "home"
    refusals = {
        ("renew", "nobody"): "no certificate of nobody can be renewed",
        ("renew", "ws7", "ws8"): "no certificate of ws8 can be renewed",
        ("renew", "ws7", "--days", "1"): "the certificate of ws7 is good until 20",
    }
    for words, reason in refusals.items():
        assert reason in str(grid(*words).exception), words
    assert renewed(tmp_path) == []
    (home / "issued.pem").unlink()
    why = str(grid("renew", "ws7").exception)
    assert "issued.pem beside it lacks it; make a new one with: phalanx grid issue" in why
    stranger = tmp_path / "stranger"
    grid("create", "--home", str(stranger), "--user", "ws7")
    with (home / "issued.txt").open("a") as register:
        register.write((stranger / "issued.txt").read_text().replace("user", "executor"))
    (home / "issued.pem").write_bytes((stranger / "issued.pem").read_bytes())
    assert isinstance(grid("renew", "ws7", "--days", "500").exception, px.IdentityError), "another grid's"
    assert renewed(tmp_path) == []


def test_a_locked_authority_renews_with_its_passphrase_only(tmp_path: Path) -> None:
    (tmp_path / "word").write_text("long and odd\n")
    grid("issue", "ws7", "--out", "ws7.pem")
    grid("lock", "--new-passphrase-file", "word")
    assert "no terminal to ask on" in str(grid("renew", "ws7").exception)
    assert grid("renew", "ws7", "--days", "500", "--passphrase-file", "word").exit_code == 0
    assert renewed(tmp_path) == ["ws7"]


def test_a_certificate_that_is_near_its_end_is_told_with_the_command_that_helps(tmp_path: Path) -> None:
    issued(tmp_path, "user", "ada", 3600)
    file = tmp_path / "ada.pem"
    file.chmod(0o600)
    with pytest.warns(UserWarning, match="the certificate of ada ends on 20.*: phalanx grid renew ada"):
        read_identity(file, USER)
