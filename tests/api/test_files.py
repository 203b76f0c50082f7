"""What users do with files at an executor beside copying: ls, cat, rm, standard streams, patterns."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import select
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import phalanx as px
import pytest
from api.exporters import TRUSTED, Exporters, no_file_beyond
from click.testing import CliRunner, Result
from phalanx import _native
from phalanx.cli import commands
from phalanx.errors import PhalanxError
from phalanx.transfer._files import ALL, Entry, Unknown

from laboratory import identities
from laboratory.processes import freeze, reads, thaw, until


@dataclass
class Lab:
    """An executor, what it exports, and its grid."""

    address: str
    rw: Path
    ro: Path
    grid: Exporters

    @property
    def identity(self) -> Path:
        return self.grid.identity

    def at(self, path: Path | str) -> str:
        return f"{self.address}:{path}"

    def files(self, **options: object) -> px.Files:
        return px.Files(self.address, **{"identity": self.identity, **options})  # type: ignore[arg-type]

    def run(self, *words: str | Path, **options: object) -> Result:
        text = [*map(str, words), "--identity", str(self.identity)]
        return CliRunner().invoke(commands, text, standalone_mode=False, **options)  # type: ignore[arg-type]

    def pipe(self, *words: str | Path) -> list[str]:
        return [str(Path(sys.executable).with_name("phalanx")), *map(str, words), "--identity", str(self.identity)]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    rw, ro, ada = tmp_path / "rw", tmp_path / "ro", tmp_path / "ada"
    for folder in (rw, ro, ada):
        folder.mkdir()
    with Exporters(ada) as grid:
        address = grid.start("labpc", f"{rw}:rw", f"{ro}:ro", trusted=TRUSTED)
        yield Lab(address, rw, ro, grid)


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def tree(folder: Path) -> None:
    (folder / "a" / "b").mkdir(parents=True)
    for name in ("1.csv", "2.csv", "3.txt", ".hidden.csv", "a/4.csv", "a/b/5.csv"):
        (folder / name).write_text(name)
    (folder / "a" / "up").symlink_to("../3.txt")


# What there is.


def test_a_folder_is_listed_as_it_is(lab: Lab) -> None:
    tree(lab.ro)
    os.utime(lab.ro / "1.csv", ns=(-1, -1_500_000_000))
    (lab.ro / "1.csv").chmod(0o640)
    os.mkfifo(lab.ro / "pipe")
    (lab.ro / "not\udcff text").write_text("")
    with lab.files() as files:
        found = {one.path: one for one in files.entries(lab.ro) if isinstance(one, Entry)}
        assert set(found) == {"1.csv", "2.csv", "3.txt", ".hidden.csv", "a", "pipe", "not\udcff text"}
        assert found["1.csv"] == Entry("1.csv", "file", 5, 0o640, -1_500_000_000, None)
        assert (found["a"].kind, found["pipe"].kind) == ("folder", "other")
        deep = {one.path: one for one in files.entries(lab.ro, depth=ALL) if isinstance(one, Entry)}
        assert {"a/b/5.csv", "a/up"} <= set(deep)
        assert (deep["a/up"].kind, deep["a/up"].target) == ("link", "../3.txt")
        look = files.look(lab.ro / "a" / "up")
        assert look is not None
        assert look.kind == "file"
        assert files.look(lab.ro / "no such") is None
        assert files.level == "private"


def test_a_large_folder_comes_in_pages(lab: Lab) -> None:
    names = {f"{number:060}" for number in range(10_100)}
    for name in names:
        (lab.ro / name).touch()
    with lab.files() as files:
        pages = []
        listing = files._native.entries(str(lab.ro), 0, [], [], [])
        while (page := listing.page()) is not None:
            pages.append(len(page))
        assert max(pages) <= 4096
        assert sum(pages) == 10_100
        halfway = files.entries(lab.ro)
        next(halfway)
        halfway.close()  # type: ignore[attr-defined]
        for _ in range(70):  # what was listed in part is not open for ever
            next(files.entries(lab.ro))
    shown = lab.run("ls", lab.at(lab.ro)).output.splitlines()
    assert set(shown) == names


@pytest.mark.parametrize("level", ["clear", "authenticated", "safe", "private"])
def test_every_level_answers(lab: Lab, level: str) -> None:
    (lab.rw / "x").write_bytes(noise(3_000_000))
    with lab.files(level=level, trusted=["127.0.0.0/8"]) as files:
        # what is asked of files is altered by nobody, also where copies are clear
        expected = (level, "as asked") if level in ("safe", "private") else ("safe", files.why)
        assert (files.level, files.why) == expected
        file = files.open(lab.rw / "x")
        assert b"".join(iter(file.next, None)) == noise(3_000_000)
        new = files.create(lab.rw / "y")
        new.write(noise(2_500_000))
        new.commit()
    assert (lab.rw / "y").read_bytes() == noise(2_500_000)


def test_a_level_that_nobody_takes_is_an_error(lab: Lab, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nnetwork = "any"\nrequired = "private"\n')
    with pytest.raises(px.PolicyError, match="requires private"):
        lab.files(level="clear", policy=px.Rules(rules))


@pytest.mark.parametrize("path", ["/", "/etc", "..", "RO/../..", "RO/way", "RW/out/etc"])
def test_nothing_outside_of_exported_folders_is_seen(lab: Lab, path: str) -> None:
    (lab.ro / "way").symlink_to("/etc")
    (lab.rw / "out").symlink_to("/")
    path = path.replace("RO", str(lab.ro)).replace("RW", str(lab.rw))
    with lab.files() as files:
        for question in (
            lambda: [*files.entries(path)],
            lambda: files.look(f"{path}/passwd"),
            lambda: files.open(f"{path}/passwd"),
            lambda: files.create(f"{path}/phalanx"),
            lambda: files.remove(path, ["passwd"]),
            lambda: [*files.digests(path, ["passwd"])],
            lambda: files.rename(f"{path}/passwd", lab.rw / "x"),
            lambda: files.make_folder(f"{path}/phalanx"),
        ):
            with pytest.raises(px.TransferError) as caught:
                question()
            assert caught.value.errno != errno.ENOENT
    assert not Path("/etc/phalanx").exists()


def test_folders_for_reading_are_not_written(lab: Lab) -> None:
    tree(lab.ro)
    with lab.files() as files:
        for change in (
            lambda: files.create(lab.ro / "x"),
            lambda: files.remove(lab.ro, ["1.csv"]),
            lambda: files.rename(lab.ro / "1.csv", lab.ro / "x"),
            lambda: files.rename(lab.ro / "1.csv", lab.rw / "x"),
            lambda: files.make_folder(lab.ro / "x"),
            lambda: files.set_times(lab.ro, [("1.csv", 0)]),
        ):
            with pytest.raises(px.TransferError, match="exported for reading only") as caught:
                change()
            assert caught.value.errno == errno.EACCES
    assert sorted(path.name for path in lab.ro.iterdir()) == [".hidden.csv", "1.csv", "2.csv", "3.txt", "a"]


def test_a_file_can_be_read_in_parts_and_by_many(lab: Lab) -> None:
    (lab.ro / "x").write_bytes(noise(5_000_000))
    with lab.files() as files:
        file = files.open(lab.ro / "x")
        for offset, length in ((0, 10), (1_048_570, 20), (4_999_990, 100), (0, 5_000_000), (6_000_000, 10), (0, 0)):
            assert file.read(offset, length) == noise(5_000_000)[offset : offset + length]
        file.settle()
        (lab.ro / "x").write_bytes(b"other")
        with pytest.raises(px.TransferError, match="changed while it was read"):
            file.settle()


def test_names_are_changed_and_folders_made(lab: Lab) -> None:
    (lab.rw / "x").write_text("x")
    with lab.files() as files:
        files.make_folder(lab.rw / "a" / "b", parents=True)
        files.make_folder(lab.rw / "a" / "b", parents=True)
        with pytest.raises(px.TransferError) as caught:
            files.make_folder(lab.rw / "a")
        assert caught.value.errno == errno.EEXIST
        files.rename(lab.rw / "x", lab.rw / "a" / "b" / "y")
        assert (lab.rw / "a" / "b" / "y").read_text() == "x"
        with pytest.raises(px.TransferError, match="exported folder itself"):
            files.rename(lab.rw, lab.rw / "z")


def test_who_is_not_accepted_is_told_so(lab: Lab) -> None:
    picky = lab.grid.start("pickypc", f"{lab.ro}:ro", accepted=["bob"])
    with pytest.raises(px.TransferError, match=r"the user \w+ is not among those accepted"):
        px.Files(picky, identity=lab.identity)


def test_users_of_another_grid_are_not_let_in(lab: Lab, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger.pem"
    identities.write(stranger, _native.issue_member(_native.create_grid(), "user", "eve"))
    with pytest.raises(px.TransferError, match="certificate"):
        lab.files(identity=stranger)


def test_a_link_that_ends_is_an_error_for_who_waits(lab: Lab) -> None:
    files = lab.files()
    new = files.create(lab.rw / "x")
    new.write(b"1")
    files.close()
    with pytest.raises(px.TransferError, match="the link was closed here"):
        files.look(lab.rw)
    until(lambda: not any(lab.rw.iterdir()), timeout=30, what="the end of what was not committed")


def test_a_fork_does_not_wait_for_answers_of_its_parent(lab: Lab) -> None:
    with lab.files() as files:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                files.look(lab.rw)
            except px.TransferError:
                files._native = None  # type: ignore[assignment]
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert files.look(lab.rw) is not None, "the parent's link goes on"


# The commands.


def test_ls_prints_what_there_is(lab: Lab) -> None:
    tree(lab.ro)
    assert lab.run("ls", lab.at(lab.ro)).output.splitlines() == [".hidden.csv", "1.csv", "2.csv", "3.txt", "a/"]
    deep = lab.run("ls", "-R", lab.at(lab.ro)).output.splitlines()
    assert "a/b/5.csv" in deep
    long = lab.run("ls", "-l", lab.at(lab.ro / "a")).output
    assert "up -> ../3.txt" in long
    assert long.splitlines()[0].startswith("-rw")
    facts = [json.loads(line) for line in lab.run("ls", "--json", lab.at(lab.ro / "*.csv")).output.splitlines()]
    assert [(one["folder"], one["size"]) for one in facts] == [(str(lab.ro / "1.csv"), 5), (str(lab.ro / "2.csv"), 5)]
    missing = lab.run("ls", lab.at(lab.ro / "no such"), lab.at(lab.ro))
    assert missing.return_value == 1
    assert "3.txt" in missing.output
    assert lab.run("ls", str(lab.ro)).exception.__class__.__name__ == "UsageError"


def test_machines_are_named_by_a_hosts_file(lab: Lab, tmp_path: Path) -> None:
    (lab.ro / "x").write_text("x")
    port = lab.address.rpartition(":")[2]
    (tmp_path / "hosts.txt").write_text(f"127.0.0.1 {port}\ntrusted 127.0.0.0/8\n")
    words = ("--hosts", tmp_path / "hosts.txt", f"127.0.0.1:{lab.ro}")
    assert lab.run("ls", *words).output == "x\n"
    with px.Files("127.0.0.1", hosts=tmp_path / "hosts.txt", identity=lab.identity) as files:
        assert (files.level, files.closed) == ("safe", False)
    assert files.closed


def test_names_do_not_steer_the_terminal(lab: Lab) -> None:
    (lab.ro / "\x1b[31mred").touch()
    assert "\x1b" not in lab.run("ls", lab.at(lab.ro)).output


def test_names_in_errors_do_not_steer_the_terminal_either(lab: Lab, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (lab.ro / folder).mkdir()
        (lab.ro / folder / "\x1b[31mred").touch()
    got = subprocess.run(
        lab.pipe("cp", lab.at(lab.ro / "*" / "*"), tmp_path), capture_output=True, text=True, check=False
    )
    assert (got.returncode, "are called" in got.stderr) == (1, True)
    assert "\x1b" not in got.stderr


def test_a_listing_without_end_does_not_fill_memory(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        (lab.ro / str(number)).touch()
    monkeypatch.setattr("phalanx.transfer._files._MOST", 9)
    with pytest.raises(px.TransferError, match="more than 9 files"):
        px.copy(lab.at(lab.ro / "*"), lab.rw, identity=lab.identity)
    with pytest.raises(px.TransferError, match="more than 9 files"):
        px.sync(lab.at(lab.ro), lab.rw / "x", delete=True, identity=lab.identity)


def test_rm_removes_files_and_folders_and_no_more(lab: Lab, tmp_path: Path) -> None:
    tree(lab.rw)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").touch()
    (lab.rw / "a" / "link").symlink_to(tmp_path / "outside")
    kept = lab.run("rm", lab.at(lab.rw / "a"))
    assert kept.return_value == 1
    assert "it is a folder" in kept.output
    assert lab.run("rm", lab.at(lab.rw / "no such")).return_value == 1
    assert lab.run("rm", "-f", lab.at(lab.rw / "no such")).return_value == 0
    assert lab.run("rm", lab.at(lab.rw / "*.csv")).return_value == 0
    assert sorted(path.name for path in lab.rw.iterdir()) == [".hidden.csv", "3.txt", "a"]
    gone = lab.run("rm", "-r", "--json", lab.at(lab.rw / "a"))
    assert json.loads(gone.output)["removed"] == 6
    assert (tmp_path / "outside" / "precious").exists()
    itself = lab.run("rm", "-r", lab.at(lab.rw))
    assert itself.return_value == 1
    assert f"{lab.address}:{lab.rw}: this is the exported folder itself, which stays" in itself.output
    assert lab.rw.is_dir()


def test_rm_says_what_stayed_and_why(lab: Lab) -> None:
    (lab.ro / "x").touch()
    (lab.rw / "y").touch()
    some = lab.run("rm", lab.at(lab.ro / "x"), lab.at(lab.rw / "y"))
    assert (some.return_value, (lab.ro / "x").exists(), (lab.rw / "y").exists()) == (1, True, False)
    assert "exported for reading only" in some.output


@pytest.mark.parametrize("size", [0, 1, 1 << 20, 5_000_001])
def test_cat_and_standard_streams_are_binary_safe(lab: Lab, size: int) -> None:
    put = subprocess.run(lab.pipe("cp", "-", lab.at(lab.rw / "x")), input=noise(size), capture_output=True, check=True)
    assert b"1 files" in put.stdout
    assert (lab.rw / "x").read_bytes() == noise(size)
    for words in (("cat", lab.at(lab.rw / "x")), ("cp", lab.at(lab.rw / "x"), "-")):
        got = subprocess.run(lab.pipe(*words), capture_output=True, check=True)
        assert got.stdout == noise(size), words
    assert [path.name for path in lab.rw.iterdir()] == ["x"]


def test_a_reader_that_has_seen_enough_is_no_error(lab: Lab) -> None:
    (lab.ro / "x").write_bytes(noise(20_000_000))
    for words in (("cat", lab.at(lab.ro / "x")), ("cp", lab.at(lab.ro / "x"), "-")):
        with subprocess.Popen(lab.pipe(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as cat:
            assert cat.stdout is not None
            assert cat.stderr is not None
            assert cat.stdout.read(10) == noise(20_000_000)[:10]
            cat.stdout.close()
            assert cat.stderr.read() == b""
            assert cat.wait() == 141


def test_cat_goes_on_after_what_cannot_be_read(lab: Lab) -> None:
    (lab.ro / "x").write_text("x")
    got = subprocess.run(
        lab.pipe("cat", lab.at(lab.ro / "no such"), lab.at(lab.ro), lab.at(lab.ro / "x")), capture_output=True
    )
    assert (got.returncode, got.stdout) == (1, b"x")
    assert len(got.stderr.splitlines()) == 3
    assert got.stderr.splitlines()[-1] == b"phalanx: help: phalanx help TransferError"


def test_a_stream_that_is_cut_leaves_nothing(lab: Lab) -> None:
    (lab.rw / "x").write_text("old")
    with subprocess.Popen(lab.pipe("cp", "-", lab.at(lab.rw / "x")), stdin=subprocess.PIPE) as put:
        assert put.stdin is not None
        put.stdin.write(noise(5_000_000))
        put.stdin.flush()
        while len([*lab.rw.iterdir()]) < 2 and put.poll() is None:
            time.sleep(0.01)
        put.kill()
    until(lambda: len([*lab.rw.iterdir()]) == 1, timeout=30, what="the end of the part")
    assert [path.name for path in lab.rw.iterdir()] == ["x"]
    assert (lab.rw / "x").read_text() == "old"


def test_ctrl_c_ends_a_stream_and_leaves_nothing(lab: Lab) -> None:
    with subprocess.Popen(lab.pipe("cp", "-", lab.at(lab.rw / "x")), stdin=subprocess.PIPE) as put:
        while not any(lab.rw.iterdir()) and put.poll() is None:
            time.sleep(0.01)
        put.send_signal(signal.SIGINT)
        assert put.wait(30) == 130
    until(lambda: not any(lab.rw.iterdir()), timeout=30, what="the end of the part")


def test_a_stream_does_not_take_the_place_of_a_folder(lab: Lab) -> None:
    (lab.rw / "d").mkdir()
    for name in ("d", "d/", "", "no such/x", ".x.phalanx-part"):
        put = lab.run("cp", "-", lab.at(f"{lab.rw}/{name}"), input=b"x")
        assert isinstance(put.exception, px.TransferError), name
    assert [path.name for path in lab.rw.rglob("*")] == ["d"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["cp", "-", "{rw}/"], "this is an exported folder itself"),
        (["cp", "-", "{rw}/no/such"], "No such file"),
        (["cp", "-", "{ro}/x"], "exported for reading only"),
        (["cp", "{rw}", "-"], "it is a folder"),
        (["cp", "{rw}/no", "-"], "No such file"),
    ],
)
def test_errors_of_standard_streams_name_the_place(lab: Lab, words: list[str], reason: str) -> None:
    command, *ends = (word.format(rw=lab.at(lab.rw), ro=lab.at(lab.ro)) for word in words)
    place = next(end for end in ends if end != "-")
    run = lab.run(command, *ends, input=b"x")
    assert isinstance(run.exception, px.TransferError)
    assert re.fullmatch(f"{re.escape(place)}: {reason}.*", str(run.exception))
    assert str(run.exception).count(place.rpartition(":")[2]) == 1
    assert run.exception.errno is not None


def test_a_full_disk_under_a_standard_stream_names_the_place(lab: Lab) -> None:
    with no_file_beyond(1 << 20):
        run = lab.run("cp", "-", lab.at(lab.rw / "x"), input=noise(8_000_000))
    assert str(run.exception).startswith(f"{lab.at(lab.rw / 'x')}: File too large")
    assert not [*lab.rw.iterdir()]


def test_errors_name_their_path_and_commands_say_it_once(lab: Lab) -> None:
    missing = lab.rw / "no such"
    with lab.files() as files:
        for ask in (
            lambda: [*files.entries(missing)],
            lambda: files.open(missing),
            lambda: files.create(missing / "x"),
        ):
            with pytest.raises(px.TransferError, match=re.escape(str(missing))) as error:
                ask()
            assert error.value.errno == errno.ENOENT
    (lab.ro / "x").touch()
    for command, path in (("cat", missing), ("rm", lab.ro / "x"), ("cat", Path("/etc/passwd")), ("ls", Path("/etc"))):
        run = lab.run(command, lab.at(path))
        assert run.return_value == 1
        assert run.output.count(str(path)) == 1, run.output


# Patterns.


def test_what_matches_there_is_copied(lab: Lab, tmp_path: Path) -> None:
    tree(lab.ro)
    target = tmp_path / "target"
    target.mkdir()
    report = px.copy(lab.at(lab.ro / "*.csv"), target, identity=lab.identity)
    assert (report.files, report.failed) == (2, 0)
    assert sorted(path.name for path in target.iterdir()) == ["1.csv", "2.csv"]
    assert px.copy(lab.at(lab.ro / "**" / "*.csv"), target, identity=lab.identity).files == 4
    assert sorted(path.name for path in target.iterdir()) == ["1.csv", "2.csv", "4.csv", "5.csv"]
    assert px.copy(lab.at(lab.ro / "[a-z]*"), tmp_path / "alone", identity=lab.identity).files == 2
    assert (tmp_path / "alone" / "b" / "5.csv").exists(), "one match is as if it had been named"
    with pytest.raises(px.TransferError, match="nothing there matches"):
        px.copy(lab.at(lab.ro / "*.png"), target, identity=lab.identity)
    with pytest.raises(px.TransferError, match="is no folder"):
        px.copy(lab.at(lab.ro / "*.csv"), tmp_path / "no such", identity=lab.identity)
    (lab.ro / "a" / "1.csv").touch()
    with pytest.raises(px.TransferError, match=r"are called 1\.csv"):
        px.copy(lab.at(lab.ro / "**" / "*.csv"), target, identity=lab.identity)


def test_a_name_like_a_pattern_can_be_meant(lab: Lab, tmp_path: Path) -> None:
    (lab.ro / "x[1].txt").write_text("x")
    px.copy(lab.at(lab.ro / "x[1].txt"), tmp_path / "x", identity=lab.identity)
    assert (tmp_path / "x").read_text() == "x"


@pytest.mark.parametrize("puts", [True, False])
def test_patterns_leave_out_what_is_not_wanted(lab: Lab, tmp_path: Path, puts: bool) -> None:
    source, target = (tmp_path / "s", lab.rw / "t") if puts else (lab.rw / "s", tmp_path / "t")
    source.mkdir()
    tree(source)
    names = (str(source), lab.at(target)) if puts else (lab.at(source), str(target))
    report = px.copy(*names, include=["*.csv"], exclude=["b/", ".*"], identity=lab.identity)
    assert (report.files, report.failed) == (3, 0)
    assert sorted(str(path.relative_to(target)) for path in target.rglob("*")) == ["1.csv", "2.csv", "a", "a/4.csv"]
    with pytest.raises(px.TransferError, match="is no pattern"):
        px.copy(*names, exclude=["["], identity=lab.identity)


def test_what_cannot_be_asked_is_an_error_here(lab: Lab) -> None:
    with lab.files() as files:
        for wrong in ("", "x\0y", "/" + "x" * 5000):
            with pytest.raises((px.TransferError, ValueError)):
                files.look(wrong)
        for name in ("..", "a/../b", "/etc/passwd", ""):
            with pytest.raises(px.TransferError, match="leads up again"):
                files.remove(lab.rw, [name])
        assert next(files.digests(lab.rw, ["no such"]))[1] is None
        assert isinstance(files.remove(lab.rw, ["no such"])[1][0], Unknown)


def test_what_alternatives_name_is_a_pattern_and_hidden_names_are_not_meant(lab: Lab) -> None:
    tree(lab.rw)
    (lab.rw / ".git").mkdir()
    (lab.rw / ".git" / "4.csv").touch()
    named = lab.run("ls", lab.at(f"{lab.rw}/{{1.csv,3.txt}}")).output
    assert named.splitlines() == [f"{lab.rw}/1.csv", f"{lab.rw}/3.txt"]
    assert lab.run("rm", lab.at(f"{lab.rw}/*/{{4,5}}.csv")).return_value == 0
    assert (lab.rw / ".git" / "4.csv").exists()
    (lab.rw / "x{1}").touch()
    assert lab.run("ls", lab.at(lab.rw / "x{1}")).output == f"{lab.rw}/x{{1}}\n", "it is no pattern"


def test_what_lies_in_what_goes_is_not_missed(lab: Lab) -> None:
    tree(lab.rw)
    gone = lab.run("rm", "-r", lab.at(lab.rw / "**" / "*"))
    assert (gone.return_value, gone.output) == (0, "")
    assert [path.name for path in lab.rw.iterdir()] == [".hidden.csv"]


def test_one_that_cannot_be_done_does_not_end_the_others(lab: Lab) -> None:
    tree(lab.ro)
    (lab.ro / "0-dangling").symlink_to("no such")
    (lab.ro / "0-folder").mkdir()
    shown = lab.run("ls", lab.at(lab.ro / "*"))
    assert (shown.return_value, "0-dangling" in shown.output, "3.txt" in shown.output) == (0, True, True)
    got = subprocess.run(lab.pipe("cat", lab.at(lab.ro / "*")), capture_output=True)
    assert (got.returncode, got.stdout) == (1, b"1.csv2.csv3.txt")
    assert lab.run("ls", lab.at(lab.ro / "0-dangling")).return_value == 0


def test_whoever_reads_no_more_ends_no_removal(lab: Lab) -> None:
    for name in ("x", "y", "z"):
        (lab.rw / name).touch()
    words = lab.pipe("rm", "--json", *(lab.at(lab.rw / name) for name in ("x", "y", "z")))
    out, into = os.pipe()
    os.close(out)
    assert subprocess.run(words, stdout=into, stderr=subprocess.PIPE, check=False).returncode == 141
    assert [*lab.rw.iterdir()] == []
    (lab.rw / "s").mkdir()
    words = lab.pipe("sync", "-n", lab.identity.parent, lab.at(lab.rw / "s"))
    assert subprocess.run(words, stdout=into, stderr=subprocess.PIPE, check=False).returncode == 141
    os.close(into)


def test_nor_do_those_who_read_no_errors_either(lab: Lab) -> None:
    for name in ("x", "y"):
        (lab.rw / name).touch()
    reading, into = os.pipe()
    os.close(reading)
    places = [lab.at(lab.rw / name) for name in ("missing", "x", "y")]
    assert subprocess.run(lab.pipe("rm", *places), stdout=into, stderr=into, check=False).returncode == 1
    os.close(into)
    assert not [*lab.rw.iterdir()]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no disk that is always full")
@pytest.mark.parametrize("command", ["cat", "cp", "ls"])
def test_a_disk_that_is_full_is_one_line(lab: Lab, command: str) -> None:
    (lab.ro / "x").write_bytes(b"x" * (2 << 20))
    words = lab.pipe(command, lab.at(lab.ro / "x"), *(["-"] if command == "cp" else []))
    with Path("/dev/full").open("wb") as full:
        got = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert got.returncode == 1
    assert got.stderr.startswith("phalanx: [Errno 28]")
    assert len(got.stderr.splitlines()) == 1


def test_only_a_pipe_of_the_command_itself_counts_as_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise BrokenPipeError(errno.EPIPE, "a program's standard input")

    monkeypatch.setattr("phalanx.cli.ls.split", broken)
    result = CliRunner().invoke(commands, ["ls", "lab:/x"], standalone_mode=False)
    assert isinstance(result.exception, PhalanxError)


def test_streams_that_are_closed_are_no_surprise(lab: Lab) -> None:
    (lab.rw / "x").write_text("x")
    for words, closed in ((("cat", lab.at(lab.rw / "x")), ">&-"), (("cp", "-", lab.at(lab.rw / "y")), "<&-")):
        line = f'"$@" {closed}'
        got = subprocess.run(["sh", "-c", line, "sh", *lab.pipe(*words)], capture_output=True, text=True, check=False)
        assert got.returncode == 1
        assert "is closed" in got.stderr
        assert "Traceback" not in got.stderr
    assert not (lab.rw / "y").exists()
    line = '"$@" 2>&-'
    copying = lab.pipe("cp", lab.at(lab.rw / "x"), str(lab.rw / "z"))
    assert subprocess.run(["sh", "-c", line, "sh", *copying], capture_output=True, check=False).returncode == 0
    assert (lab.rw / "z").read_text() == "x"
    several = lab.run("cp", lab.at(lab.rw / "x"), lab.at(lab.rw / "x"), "-").exception
    assert isinstance(several, click.UsageError)
    assert "cannot be -" in str(several)


def test_what_is_new_takes_no_place(lab: Lab) -> None:
    with lab.files() as files:
        late = files.create(lab.rw / "x", new=True)
        late.write(b"mine")
        (lab.rw / "x").write_text("theirs")
        for attempt in (late.commit, lambda: files.create(lab.rw / "x", new=True)):
            with pytest.raises(px.TransferError) as caught:
                attempt()
            assert caught.value.errno == errno.EEXIST
    assert (lab.rw / "x").read_text() == "theirs"


def test_links_here_are_meant_themselves(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    (tmp_path / "way").symlink_to("x")
    with px.Files.here() as files:
        found = files.look(tmp_path / "way", follow=False)
        assert found is not None
        assert (found.kind, found.target) == ("link", "x")
        files.rename(tmp_path / "way", tmp_path / "other")
    assert (tmp_path / "other").readlink() == Path("x")
    assert (tmp_path / "x").read_text() == "x"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a process has open")
def test_ctrl_c_ends_a_question_about_own_files(tmp_path: Path) -> None:
    with (tmp_path / "endless").open("wb") as file:
        file.truncate(1 << 40)
    program = f"""
import phalanx as px
with px.Files.here() as files:
    print([*files.digests({str(tmp_path)!r}, ["endless"])])
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            until(lambda: reads(process.pid, "endless"), timeout=30, what="the question")
            process.send_signal(signal.SIGINT)
            assert b"KeyboardInterrupt" in process.communicate(timeout=30)[1]
        finally:
            process.kill()


def test_questions_that_wait_leave_python_to_others(lab: Lab, tmp_path: Path) -> None:
    """An executor that stands still: threads ask for more than may be asked ahead, and the program goes on."""
    identities.write(tmp_path / "labpc.pem", _native.issue_member(lab.grid.authority, "executor", "still"))
    (lab.ro / "x").write_bytes(b"x" * (8 << 20))
    command = [str(Path(sys.executable).with_name("phalanx")), "executor", "--listen", "127.0.0.1:0"]
    command += ["--identity", str(tmp_path / "labpc.pem"), "--export", f"{lab.ro}:ro"]
    program = f"""
import sys, threading, phalanx as px
files = px.Files(sys.argv[1], identity={str(lab.identity)!r})
opened = [files.open({str(lab.ro / "x")!r}) for _ in range(8)]
print("opened", flush=True)
sys.stdin.readline()
threads = [threading.Thread(target=lambda file=file: file.read(0, 8 << 20), daemon=True) for file in opened]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(0.5)
print("goes on", flush=True)
sys.stdin.readline()
for thread in threads:
    thread.join()
print("done", flush=True)
"""
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as still,
        subprocess.Popen(
            [sys.executable, "-c", program, address_of(still)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as asks,
    ):
        try:
            assert asks.stdin is not None
            assert asks.stdout is not None
            assert asks.stdout.readline() == "opened\n"
            freeze(still.pid)
            asks.stdin.write("\n")
            asks.stdin.flush()
            assert heard(asks, 30) == "goes on\n"
            thaw(still.pid)
            asks.stdin.write("\n")
            asks.stdin.flush()
            assert heard(asks, 60) == "done\n"
        finally:
            still.send_signal(signal.SIGCONT)
            still.terminate()
            asks.kill()


def address_of(executor: subprocess.Popen[str]) -> str:
    assert executor.stdout is not None
    return executor.stdout.readline().split()[2]


def heard(process: subprocess.Popen[str], patience: float) -> str:
    """The next line; nothing if none comes."""
    assert process.stdout is not None
    ready = select.select([process.stdout], [], [], patience)[0]
    return process.stdout.readline() if ready else ""


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["cp", "-P", "7400", "x", "lab2:/x"], "a port stands in the address, as in lab2:7401:/path"),
        (["sync", "-P", "x", "lab2:/x"], "progress is shown"),
        (["sync", "-l", "x", "lab2:/x"], "links within what is copied stay links"),
        (["sync", "--filter", "- *.o", "x", "lab2:/x"], "--filter: there are no files of patterns: write --exclude"),
        (["sync", "--rsh=ssh", "x", "lab2:/x"], "--rsh: no shell carries it"),
        (["sync", "-R", "x", "lab2:/x"], "No such option"),
        (["cp", "x", "phalanx://lab2:7400/x"], "write lab2:/x"),
        (["cp", "x", "rsync://[::1]:873/m/x"], "write [::1]:/m/x"),
        (["cp", "file:///tmp/x", "lab2:/x"], "write /tmp/x"),
        (["cp", "-i", "key", "x", "lab2:/x"], "who you are says your identity"),
        (["cp", "-C", "x", "lab2:/x"], "-C: what compresses is compressed with -z"),
        (["sync", "--bwlimit=fast", "x", "lab2:/x"], "write KiB a second"),
        (["cp", "--limit=1MB/s", "--bwlimit=100", "x", "lab2:/x"], "leave one out"),
        (["cp", "--checksum", "x", "lab2:/x"], "phalanx sync --checksum"),
        (["cp", "x", "ada@lab2:/x"], "who you are says your identity (--identity), not ada@: write lab2:/x"),
        (["cp", "x", "ada@lab2:7400:/x"], "write lab2:7400:/x"),
        (["ls", "ada@lab2:/x"], "write lab2:/x"),
        (["sync", "x", "rsync://ada@lab2:873/backup/x"], "write lab2:/backup/x"),
        (["cp", "x", "lab2:x"], "paths at an executor are absolute, in a folder that it exports: lab2:/x, for example"),
        (["cp", "lab2:~/data/x", "."], "lab2:/data/x, for example"),
        (["sync", "x", "ada@lab2:"], "lab2:/, for example"),
        (["sync", "lab2::backup/x", "x"], "lab2:/backup/x, for example"),
        (["cat", "lab2:x"], "lab2:/x, for example"),
        (["cp", "x", "lab2:7401:scratch/x"], "exports: lab2:7401:/scratch/x, for example"),
        (["cp", "x", "[::1]:7401:"], "exports: [::1]:7401:/, for example"),
        (["cp", "a:b", "c:d"], "write host:/path or host:port:/path for one"),
    ],
)
def test_habits_of_scp_and_rsync_get_a_hint(words: list[str], meant: str) -> None:
    told = CliRunner().invoke(commands, words, standalone_mode=False).exception
    assert isinstance(told, px.TransferError | click.UsageError)
    assert meant in (told.message if isinstance(told, click.UsageError) else str(told))


@pytest.mark.parametrize("command", ["cp", "sync"])
def test_what_scp_and_rsync_are_told_to_do_is_done_without_being_told(lab: Lab, command: str, tmp_path: Path) -> None:
    (lab.ro / "inner").mkdir()
    (lab.ro / "inner" / "x").write_bytes(b"x")
    (lab.ro / "inner" / "x").chmod(0o750)
    os.utime(lab.ro / "inner" / "x", (1e9, 1e9))
    habits = {"cp": ("-avr", "-pR"), "sync": ("-avr", "-pt", "--progress", "--partial")}[command]
    run = lab.run(command, *habits, lab.at(lab.ro), tmp_path / "copy")
    assert run.exception is None, run.exception
    found = (tmp_path / "copy" / "inner" / "x").stat()
    assert (stat.S_IMODE(found.st_mode), found.st_mtime) == (0o750, 1e9)
