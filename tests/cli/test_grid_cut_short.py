"""Commands of `phalanx grid` that end early or find something in their way, and folders from a backup."""

from __future__ import annotations

import fcntl
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from api.executors import PHALANX
from api.members import PATIENCE, Lab
from phalanx import _native
from phalanx.cli.grid import _note

from laboratory.processes import until


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    there = Lab(tmp_path)
    yield there
    there.end()


def listed(lab: Lab) -> list[str]:
    return [line.split()[2] for line in lab.grid("list").splitlines()]


def revoked(lab: Lab) -> tuple[str, list[str]]:
    """The number of the list, and the names in it."""
    title, *lines, _ = (lab.home / "revoked.txt").read_text().splitlines()
    return title.split()[2], [line.split()[2] for line in lines]


def test_no_identity_file_exists_that_the_register_lacks(lab: Lab) -> None:
    there = lab.folder / "there"
    there.write_text("a file")
    lab.grid("issue", "ws7", "--out", str(there), fails=True)
    assert there.read_text() == "a file"
    assert listed(lab) == ["ada"], "nothing was signed that could not be written"
    why = lab.grid("issue", "ws7", "--out", str(there / "ws7.pem"), fails=True)
    assert "cannot be written" in why
    assert listed(lab) == ["ada", "ws7"], "the register comes first"


@pytest.mark.parametrize("word", ["issue", "sign"])
def test_ctrl_c_ends_a_command_that_waits_for_the_lock(lab: Lab, word: str) -> None:
    out, request = lab.folder / "ws7.out", lab.folder / "ws7.request"
    named = "ws7"
    if word == "sign":
        subprocess.run([PHALANX, "grid", "request", "ws7", "--out", str(request)], check=True, timeout=PATIENCE)
        named = str(request)
    command = [PHALANX, "grid", word, named, "--out", str(out), "--home", str(lab.home)]
    lock = lab.home / ".phalanx.lock"
    with lock.open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        opened = Path(f"/proc/{waiting.pid}/fd")

        def is_waiting() -> bool:
            return any(str(it.resolve()) == str(lock) for it in opened.iterdir())

        until(is_waiting, timeout=PATIENCE, what="the lock is waited for")
        waiting.send_signal(signal.SIGINT)
        begun = time.monotonic()
        waiting.communicate(timeout=PATIENCE)
        assert time.monotonic() - begun < PATIENCE / 2, "it would wait for a minute otherwise"
    assert waiting.returncode != 0
    assert not out.exists()
    assert listed(lab) == ["ada"]


def test_a_renewal_that_was_cut_short_is_handed_on_by_the_next(lab: Lab) -> None:
    lab.issue("executor", "labpc")
    authority, issued = lab.home / "authority.pem", (lab.home / "issued.pem").read_text()
    fingerprint = lab.grid("list").split()[-1]
    [text] = _native.renew_members(authority.read_text(), str(authority), None, issued, {fingerprint}, 400)
    _note(lab.home, text)
    assert "no certificate is in the last third of its life" in lab.grid("renew")
    assert (lab.home / "renewed.pem").read_text() == text


def test_after_a_backup_came_back_no_revoked_certificate_is_forgotten(lab: Lab) -> None:
    for name in ("one", "two", "three", "four"):
        lab.issue("executor", name)
    lab.revoke("one")
    backup = lab.folder / "backup"
    shutil.copytree(lab.home, backup)
    lab.revoke("two")
    lab.revoke("three")
    theirs = (lab.home / "revoked.txt").read_text()
    shutil.rmtree(lab.home)
    shutil.copytree(backup, lab.home)
    lab.revoke("four")
    assert revoked(lab) == ("2", ["one", "four"]), "the members have another list, with the number 3"
    (lab.home / "revoked.txt").write_text(theirs)  # as a link brings it
    said = lab.grid("list")
    assert "four was revoked here" in said
    assert "once more: phalanx grid revoke four" in said
    lab.revoke("four")
    assert revoked(lab) == ("4", ["one", "two", "three", "four"])
    assert "once more" not in lab.grid("list")


def test_a_list_that_is_older_than_the_register_is_followed_by_one_with_a_higher_number(lab: Lab) -> None:
    for name in ("one", "two", "three"):
        lab.issue("executor", name)
    lab.revoke("one")
    older = (lab.home / "revoked.txt").read_text()
    lab.revoke("two")
    for put_back in (lambda file: file.write_text(older), Path.unlink):
        put_back(lab.home / "revoked.txt")
        lab.revoke("three")
        assert revoked(lab)[1] == ["one", "two", "three"]
    assert revoked(lab)[0] == "4"


def test_nothing_is_signed_without_the_lock(lab: Lab) -> None:
    lab.issue("executor", "ws7")
    (lab.home / ".phalanx.lock").unlink()
    (lab.home / ".phalanx.lock").mkdir()  # in the way, also of root
    for words in (["revoke", "ws7"], ["renew", "ws7"], ["issue", "ws8", "--out", str(lab.folder / "ws8.pem")]):
        assert ".phalanx.lock cannot be opened" in lab.grid(*words, fails=True)
    assert listed(lab) == ["ada", "ws7"]
    assert not (lab.home / "revoked.txt").exists()


def test_a_list_that_is_a_link_is_replaced_where_it_leads_to(lab: Lab) -> None:
    lab.issue("executor", "ws7")
    elsewhere = lab.folder / "public"
    elsewhere.mkdir()
    lab.revoke("ws7")
    (lab.home / "revoked.txt").rename(elsewhere / "revoked.txt")
    (lab.home / "revoked.txt").symlink_to(elsewhere / "revoked.txt")
    lab.issue("executor", "ws8")
    lab.revoke("ws8")
    assert revoked(lab) == ("2", ["ws7", "ws8"])
    assert (lab.home / "revoked.txt").is_symlink()
