"""What is kept beside contents, permissions and times: owners, attributes, access control lists, hard links."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import phalanx as px
import pytest
from api.exporters import SIDES, Exporters, Folders, folders
from click.testing import CliRunner
from phalanx.cli import commands
from phalanx.words import Kept

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="gives files away, which only root on Linux can"
)
#: Of nobody on this machine.
USER, GROUP = 54321, 54322
ORDINARY = 65534
#: Divided between machines from 32 MiB on.
LARGE = 40_000_001


class Pair:
    """A folder, and where an executor puts its copy."""

    def __init__(self, folder: Path, grid: Exporters) -> None:
        self.source, self.target, self.grid = folder / "one" / "x", folder / "other" / "x", grid
        self.place = grid.start("other", f"{folder / 'other'}:rw")

    def sync(self, *keep: Kept, checksum: bool = False) -> px.SyncReport:
        to = f"{self.place}:{self.target}"
        return px.sync(self.source, to, keep=keep, checksum=checksum, identity=self.grid.identity)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    (tmp_path / "one" / "x" / "in").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    for name in ("a", "in/b"):
        (tmp_path / "one" / "x" / name).write_text(name)
    try:
        os.setxattr(tmp_path, "user.some", b"")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    with Exporters(tmp_path) as grid:
        yield Pair(tmp_path, grid)


def owner(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_uid, found.st_gid


def kept(report: px.SyncReport) -> int:
    assert report.copied is not None
    assert report.failures == []
    return report.copied.kept


def test_owners_arrive_where_they_are_asked_for(pair: Pair) -> None:
    for name in ("a", "in"):
        os.chown(pair.source / name, USER, GROUP)
    (pair.source / "link").symlink_to("a")
    os.lchown(pair.source / "link", USER, GROUP)
    pair.sync()
    assert owner(pair.target / "a") == (0, 0)
    assert kept(pair.sync("owner")) == 2
    assert [owner(pair.target / name) for name in ("a", "in", "link")] == [(USER, 0)] * 3
    assert kept(pair.sync("owner", "group", "numeric-ids", checksum=True)) == 2
    assert owner(pair.target / "a") == owner(pair.target / "in") == owner(pair.target / "link") == (USER, GROUP)
    assert owner(pair.target / "in" / "b") == (0, 0)


def test_a_file_that_is_given_away_lets_nobody_run_it_as_its_owner(pair: Pair) -> None:
    os.chown(pair.source / "a", USER, GROUP)
    (pair.source / "a").chmod(0o6755)
    pair.sync("owner", "group")
    assert (owner(pair.target / "a"), (pair.target / "a").stat().st_mode & 0o7777) == ((USER, GROUP), 0o755)


def test_attributes_arrive_and_go(pair: Pair) -> None:
    os.setxattr(pair.source / "a", "user.color", b"red\0\xff")
    os.setxattr(pair.source / "in", "user.kind", b"folder")
    os.setxattr(pair.source / "a", "security.capability", bytes.fromhex("0100000200040000000000000000000000000000"))
    pair.sync()
    assert os.listxattr(pair.target / "a") == []
    assert kept(pair.sync("xattrs")) == 2
    assert os.listxattr(pair.target / "a") == ["user.color"], "what gives rights stays where it is"
    assert os.getxattr(pair.target / "a", "user.color") == b"red\0\xff"
    assert os.getxattr(pair.target / "in", "user.kind") == b"folder"
    os.setxattr(pair.target / "a", "user.other", b"x")
    os.setxattr(pair.source / "a", "user.color", b"blue")
    pair.sync("xattrs")
    assert {name: os.getxattr(pair.target / "a", name) for name in os.listxattr(pair.target / "a")} == {
        "user.color": b"blue"
    }
    os.setxattr(pair.source / "in" / "b", "user.large", bytes(3000))
    (pair.source / "in" / "b").write_text("new")
    pair.sync("xattrs")
    assert len(os.getxattr(pair.target / "in" / "b", "user.large")) == 3000


def access_list(of_one_more: int) -> bytes:
    """An access control list as the kernel has it: the owner, one more user, the group, the mask, others."""
    rows = [(1, 7, -1), (2, of_one_more, USER), (4, 4, -1), (16, 7, -1), (32, 4, -1)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *row) for row in rows)


def test_access_control_lists_arrive(pair: Pair) -> None:
    os.setxattr(pair.source / "a", "system.posix_acl_access", access_list(6))
    os.setxattr(pair.source / "in", "system.posix_acl_default", access_list(7))
    pair.sync("xattrs")
    assert os.listxattr(pair.target / "a") == []
    pair.sync("acls")
    assert os.getxattr(pair.target / "a", "system.posix_acl_access") == access_list(6)
    assert os.listxattr(pair.target / "in") == ["system.posix_acl_default"]
    assert os.getxattr(pair.target / "in", "system.posix_acl_default") == access_list(7)


def test_names_of_one_file_stay_so(pair: Pair) -> None:
    for number in range(3):
        os.link(pair.source / "a", pair.source / "in" / f"{number}")
    pair.sync()
    assert (pair.target / "a").stat().st_nlink == 1
    pair.sync("hard-links")
    inodes = {(pair.target / name).stat().st_ino for name in ("a", "in/0", "in/1", "in/2")}
    assert (len(inodes), (pair.target / "a").stat().st_nlink) == (1, 4)
    assert kept(pair.sync("hard-links", checksum=True)) == 5
    (pair.source / "a").write_text("another")
    pair.sync("hard-links")
    assert [(pair.target / "in" / f"{number}").read_text() for number in range(3)] == ["another"] * 3
    assert (pair.target / "a").stat().st_nlink == 4


def furnish(folder: Path) -> None:
    """Files of others with attributes, lists and several names, one of them large enough for several machines."""
    (folder / "in").mkdir(parents=True)
    (folder / "a").write_text("a")
    (folder / "in" / "big").write_bytes(os.urandom(LARGE))
    (folder / "link").symlink_to("a")
    for name in ("a", "in", "in/big", "link"):
        os.lchown(folder / name, USER, GROUP)
    for name in ("a", "in", "in/big"):
        os.setxattr(folder / name, "user.name", name.encode())
    os.setxattr(folder / "in" / "big", "system.posix_acl_access", access_list(6))
    for name in ("a", "in/big"):
        os.link(folder / name, folder / f"{name}.again")


def kept_of(folder: Path) -> dict[str, object]:
    """What is kept of all that lies in a folder. Names of one file have a number in common."""
    found, numbers = dict[str, object](), dict[int, int]()
    for path in sorted(folder.rglob("*")):
        names = [] if path.is_symlink() else sorted(os.listxattr(path))
        number = numbers.setdefault(path.lstat().st_ino, len(numbers))
        found[str(path.relative_to(folder))] = owner(path), number, [(name, os.getxattr(path, name)) for name in names]
    return found


ALL: tuple[px.words.Kept, ...] = ("owner", "group", "xattrs", "acls", "hard-links")


@pytest.mark.parametrize("side", SIDES)
def test_all_is_kept_whichever_end_is_at_an_executor(tmp_path: Path, side: str) -> None:
    with folders(tmp_path, side, Folders) as lab:
        furnish(lab.source / "x")
        source, target = (f"{name}/x" for name in lab.names)
        assert px.copy(source, target, keep=ALL, identity=lab.identity).failures == []
        assert kept_of(lab.target / "x") == kept_of(lab.source / "x")
        assert kept(px.sync(source, target, keep=ALL, identity=lab.identity)) == 4
        os.chown(lab.source / "x" / "a", USER + 1, GROUP)
        os.setxattr(lab.source / "x" / "in" / "big", "user.name", b"new")
        px.sync(source, target, keep=ALL, checksum=True, delete=True, identity=lab.identity)
        assert kept_of(lab.target / "x") == kept_of(lab.source / "x")


@pytest.mark.parametrize("side", SIDES)
def test_a_dry_run_names_what_a_copy_would_set(tmp_path: Path, side: str) -> None:
    with folders(tmp_path, side, Folders) as lab:
        source, target = lab.source / "x", lab.target / "x"
        (source / "in").mkdir(parents=True)
        for name in ("a", "b", "in/c", "in/d", "in/e", "same"):
            (source / name).write_text(name)
        (source / "link").symlink_to("a")
        os.setxattr(source / "same", "user.name", b"same")
        for name in ("1", "2", "3"):
            os.link(source / "a", source / f"a.{name}")
        names = [f"{name}/x" for name in lab.names]

        def changes(*keep: Kept, checksum: bool) -> list[str]:
            report = px.sync(*names, keep=keep, checksum=checksum, dry_run=True, identity=lab.identity)
            assert (report.failures, {change.what for change in report.changes} - {"changed"}) == ([], set())
            return [change.path for change in report.changes]

        assert px.copy(*names, keep=ALL, identity=lab.identity).failures == []
        os.chown(source / "b", USER, GROUP)
        os.chown(source / "in", USER, -1)
        os.lchown(source / "link", -1, GROUP)
        os.setxattr(source / "in" / "c", "user.name", b"c")
        os.setxattr(source / "in" / "d", "system.posix_acl_access", access_list(6))
        os.setxattr(target / "in" / "e", "user.more", b"")
        (source / "in" / "d").chmod((target / "in" / "d").stat().st_mode & 0o777)
        time = (source / "a").stat().st_mtime_ns
        (target / "a.2").unlink()
        (target / "a.2").write_text("a")
        os.utime(target / "a.2", ns=(time, time))
        for checksum in (False, True):
            assert changes(checksum=checksum) == []
            assert changes("owner", checksum=checksum) == ["b", "in"]
            assert changes("group", "numeric-ids", checksum=checksum) == ["b", "link"]
            assert changes("xattrs", checksum=checksum) == ["in/c", "in/e"]
            assert len(changes("hard-links", checksum=checksum)) == 1
        for name in ("1", "2", "3"):
            (target / f"a.{name}").unlink()
            os.link(target / "a", target / f"a.{name}")
        assert changes("acls", checksum=True) == ["in/d"]
        done = px.sync(*names, keep=ALL, checksum=True, identity=lab.identity)
        assert [change.path for change in done.changes] == ["b", "in", "in/c", "in/d", "in/e", "link"]
        assert kept_of(target) == kept_of(source)
        for folder in (source, target):
            (folder / "link").unlink()  # the copy decides whether a link may be copied
        again = px.sync(*names, keep=ALL, checksum=True, identity=lab.identity)
        assert again.changes == []
        assert again.copied is not None
        assert again.copied.streams == 1, "nothing is left to be sent"
        assert changes(*ALL, checksum=False) == changes(*ALL, checksum=True) == []


def test_all_is_kept_by_several_machines(tmp_path: Path) -> None:
    furnish(tmp_path / "data" / "x")
    with Exporters(tmp_path) as grid:
        hosts = [grid.start(name, f"{tmp_path / 'data'}:rw") for name in ("one", "two")]
        there, back = tmp_path / "data" / "there", tmp_path / "back"
        for source, target in ((tmp_path / "data" / "x", f"{hosts[0]}:{there}"), (f"{hosts[0]}:{there}", back)):
            report = px.copy(source, target, keep=ALL, stripes=hosts[1], identity=grid.identity)
            assert (report.failures, report.stripes) == ([], 2)
        assert kept_of(there) == kept_of(back) == kept_of(tmp_path / "data" / "x")


def test_the_commands_have_the_options_of_rsync(pair: Pair) -> None:
    os.chown(pair.source / "a", USER, GROUP)
    os.setxattr(pair.source / "a", "user.color", b"red")
    os.link(pair.source / "a", pair.source / "c")
    words = ["-a", "-A", "-X", "-H", "-o", "-g", "--times", "--identity", str(pair.grid.identity)]
    for command, name in (("cp", "x"), ("sync", "y")):
        target = pair.target.with_name(name)
        line = [command, *words, str(pair.source), f"{pair.place}:{target}"]
        done = CliRunner().invoke(commands, line, standalone_mode=False)
        assert (done.return_value, done.exception) == (0, None), done.output
        assert (owner(target / "a"), os.listxattr(target / "a")) == ((USER, GROUP), ["user.color"])
        assert (target / "a").stat().st_ino == (target / "c").stat().st_ino


def test_what_is_no_word_is_refused(pair: Pair) -> None:
    with pytest.raises(px.TransferError, match=r"acls and|acls, hard-links can be kept"):
        pair.sync("everything")  # type: ignore[arg-type]


FETCH = """
import json, os, sys
import phalanx as px
px.copy(sys.argv[1], "memory:", identity=sys.argv[3])  # imports what may not be read any more
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
report = px.copy(sys.argv[1], sys.argv[2], keep=("owner", "group", "xattrs"), identity=sys.argv[3])
print(json.dumps([report.files, report.failures]))
"""


def test_an_ordinary_account_is_told_what_it_cannot_set() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        folder = Path(place)
        folder.chmod(0o755)
        (folder / "one").mkdir()
        (folder / "other").mkdir()
        os.chown(folder / "other", ORDINARY, ORDINARY)
        for name in ("a", "b"):
            (folder / "one" / name).write_text(name)
            os.chown(folder / "one" / name, USER, GROUP)
            os.setxattr(folder / "one" / name, "user.color", b"red")
            os.setxattr(folder / "one" / name, "trusted.color", b"red")
            (folder / "one" / name).chmod(0o444)
        with Exporters(folder) as grid:
            at = grid.start("one", f"{folder / 'one'}:rw") + f":{folder / 'one'}"
            shutil.copy(grid.identity, folder / "other" / "me.pem")
            os.chown(folder / "other" / "me.pem", ORDINARY, ORDINARY)
            line = [sys.executable, "-c", FETCH, at, str(folder / "other" / "x"), str(folder / "other" / "me.pem")]
            done = subprocess.run(line, capture_output=True, timeout=60, text=True)
        assert done.returncode == 0, done.stderr
        files, failures = json.loads(done.stdout)
        assert files == 2
        for reason in ("trusted.color was not set", "its group was not set", "only an end that runs as root can give"):
            assert [reason in told for _, told in failures].count(True) == 1, failures
        assert all("more)" in told for _, told in failures), "one line for all files"
        for name in ("a", "b"):
            assert owner(folder / "other" / "x" / name) == (ORDINARY, ORDINARY)
            assert os.listxattr(folder / "other" / "x" / name) == ["user.color"]
            assert (folder / "other" / "x" / name).stat().st_mode & 0o777 == 0o444
