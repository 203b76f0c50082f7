"""Copies between this process and an executor on this machine: files, folders, levels, and what goes wrong."""

from __future__ import annotations

import errno
import filecmp
import json
import os
import random
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import phalanx as px
import pytest
from api.exporters import TRUSTED, Exporters, no_file_beyond
from click.testing import CliRunner
from phalanx import _native
from phalanx.cli import commands
from phalanx.transfer import Progress

from laboratory import identities

LEVELS = ("clear", "authenticated", "safe", "private")
#: Empty, small, one block, more than one, not a multiple of anything.
SIZES = (0, 1, 4096, 258_048, 258_049, 3_000_001)


@dataclass
class Lab:
    """Two executors, what the first exports, and the second, and the user's identity."""

    address: str
    rw: Path
    ro: Path
    identity: Path
    second: str
    far: Path
    #: One whose owner wants everything to be private.
    strict: str

    def copy(self, src: Path | str, dst: Path | str, **options: object) -> px.CopyReport:
        return px.copy(src, dst, **{"identity": self.identity, "patience": 0.0, **options})  # type: ignore[arg-type]

    def at(self, path: Path | str) -> str:
        return f"{self.address}:{path}"

    def at_second(self, path: Path | str) -> str:
        return f"{self.second}:{path}"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    rw, ro, far = folder / "rw", folder / "ro", folder / "far"
    for made in (rw, ro, far):
        made.mkdir()
    with Exporters(folder) as grid:
        first = grid.start("labpc", f"{rw}:rw", f"{ro}:ro", "memory", trusted=TRUSTED)
        second = grid.start("farpc", f"{far}:rw", "memory", trusted=TRUSTED)
        strict = grid.start("strictpc", f"{far}:ro", "memory", usual="all", trusted=TRUSTED)
        yield Lab(first, rw, ro, grid.identity, second, far, strict)


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def tree(folder: Path) -> Path:
    """A folder with files of all sizes, folders in folders, links, modes and times."""
    (folder / "a" / "b" / "empty").mkdir(parents=True)
    for size in SIZES:
        (folder / f"{size}").write_bytes(noise(size))
        (folder / "a" / "b" / f"ä {size}").write_bytes(noise(size))
    for number in range(300):
        (folder / "a" / f"{number}").write_text(str(number))
    (folder / "a" / "up").symlink_to("../0")
    (folder / "a" / "nowhere").symlink_to("b/no such")
    (folder / "0").chmod(0o640)
    (folder / "4096").chmod(0o755)
    (folder / "a" / "b").chmod(0o750)
    for path in (folder / "1", folder / "3000001", folder / "a" / "b"):
        os.utime(path, ns=(1_500_000_000_123_456_789, 1_500_000_000_123_456_789))
    return folder


def look(folder: Path) -> dict[str, object]:
    """Everything in a folder: kind, mode, time, bytes."""

    def one(path: Path) -> tuple[object, ...]:
        found = path.lstat()
        if path.is_symlink():
            return ("link", str(path.readlink()))
        if path.is_dir():
            return ("folder", stat.S_IMODE(found.st_mode), found.st_mtime_ns)
        return ("file", stat.S_IMODE(found.st_mode), found.st_mtime_ns, path.read_bytes())

    return {str(path.relative_to(folder)): one(path) for path in [folder, *folder.rglob("*")]}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("streams", [1, 3])
def test_a_folder_there_and_back_is_the_same(lab: Lab, tmp_path: Path, level: str, streams: int) -> None:
    source = tree(tmp_path / "source")
    there = lab.rw / f"{level}-{streams}"
    words = {"level": level, "streams": streams, "trusted": TRUSTED}
    put = lab.copy(source, lab.at(there), **words)
    assert (put.level, put.failed, put.links) == (level, 0, 2)
    assert put.files == 2 * len(SIZES) + 300
    assert put.bytes == sum(
        path.stat().st_size for path in source.rglob("*") if path.is_file() and not path.is_symlink()
    )
    assert look(there) == look(source)
    back = lab.copy(lab.at(there), tmp_path / "back", **words)
    assert (back.files, back.failed) == (put.files, 0)
    assert look(tmp_path / "back") == look(source)


@pytest.mark.parametrize("size", SIZES)
def test_a_file_goes_to_a_name_or_into_a_folder(lab: Lab, tmp_path: Path, size: int) -> None:
    source = tmp_path / "file"
    source.write_bytes(noise(size))
    folder = lab.rw / f"folder-{size}"
    folder.mkdir()
    lab.copy(source, lab.at(folder / "other"))
    lab.copy(source, lab.at(folder))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == dict.fromkeys(["other", "file"], noise(size))
    lab.copy(lab.at(folder / "file"), f"{tmp_path}/")
    lab.copy(lab.at(folder / "file"), tmp_path / "third")
    assert (tmp_path / "third").read_bytes() == noise(size)


def test_a_folder_is_its_copy_or_goes_into_a_folder(lab: Lab, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "x").write_text("1")
    lab.copy(source, lab.at(lab.rw / "named"))
    lab.copy(source, lab.at(lab.rw / "named"))  # the same again is the same
    assert [path.name for path in (lab.rw / "named").iterdir()] == ["x"]
    lab.copy(source, lab.at(f"{lab.rw}/named/"))
    assert (lab.rw / "named" / "source" / "x").read_text() == "1"


def test_what_is_there_with_the_same_time_is_not_copied_again(lab: Lab, tmp_path: Path) -> None:
    source = tree(tmp_path / "source")
    first = lab.copy(source, lab.at(lab.rw / "again"))
    assert first.kept == 0
    (source / "1").write_text("2")
    second = lab.copy(source, lab.at(lab.rw / "again"))
    assert (second.files, second.kept) == (first.files, first.files - 1)
    assert (lab.rw / "again" / "1").read_text() == "2"
    assert lab.copy(source, lab.at(lab.rw / "again"), anew=True).kept == 0


def test_holes_stay_holes(lab: Lab, tmp_path: Path) -> None:
    source, size = tmp_path / "sparse", 300_000_000
    with source.open("wb") as file:
        for place in (0, 50_000_000, 150_000_001):
            file.seek(place)
            file.write(noise(100_000))
        file.truncate(size)
    assert source.stat().st_blocks * 512 < 1_000_000, "this file system has holes"
    there = lab.rw / "sparse"
    assert lab.copy(source, lab.at(there), streams=3).bytes == size
    assert lab.copy(lab.at(there), tmp_path / "back").bytes == size
    assert lab.copy(lab.at(there), lab.at_second(lab.far / "sparse")).bytes == size
    for copied in (there, tmp_path / "back", lab.far / "sparse"):
        assert copied.stat().st_blocks * 512 < 2_000_000
        assert filecmp.cmp(source, copied, shallow=False)


def test_memory_to_memory_both_ways(lab: Lab) -> None:
    put = lab.copy("memory:200MB", lab.at("memory"))
    assert (put.bytes, put.level) == (200_000_000, "private")
    get = lab.copy(lab.at("memory:200M"), "memory:", level="clear", trusted=TRUSTED, check=False)
    assert (get.bytes, get.level) == (200_000_000, "clear")


def test_what_is_called_memory_here_is_a_file(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("memory").write_text("kept")
    lab.copy("memory", lab.at(lab.rw / "remembered"))
    assert (lab.rw / "remembered").read_text() == "kept"
    Path("memory").unlink()
    lab.copy(lab.at(lab.rw / "remembered"), "memory")
    assert Path("memory").read_text() == "kept"


def test_a_link_that_the_user_named_is_followed(lab: Lab, tmp_path: Path) -> None:
    far, near = tmp_path / "far", tmp_path / "near"
    far.mkdir()
    near.mkdir()
    (near / "link").symlink_to(far)
    (far / "file").write_text("1")
    (near / "other").symlink_to(far / "file")
    lab.copy(near / "other", f"{lab.at(lab.rw)}/")
    assert (lab.rw / "other").read_text() == "1"
    lab.copy(lab.at(lab.rw / "other"), near / "link")
    assert (near / "link").is_symlink()
    assert (far / "other").read_text() == "1"


def test_a_callback_sees_the_copy_grow(lab: Lab) -> None:
    seen: list[Progress] = []
    lab.copy("memory:600MB", lab.at("memory"), progress=seen.append)
    assert [one.bytes for one in seen] == sorted(one.bytes for one in seen)
    assert (seen[-1].bytes, seen[-1].total, seen[-1].growing) == (600_000_000, 600_000_000, False)


def test_nothing_outside_the_exported_folders_is_reached(lab: Lab, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (lab.ro / "file").write_text("free")
    (lab.ro / "out").symlink_to(tmp_path)
    (lab.rw / "out").symlink_to(tmp_path)
    for path in (secret, lab.ro / ".." / "x", lab.ro / "out" / "secret", Path("/etc/passwd"), lab.ro.parent):
        with pytest.raises(px.TransferError):
            lab.copy(lab.at(path), tmp_path / "stolen")
    for path in (
        tmp_path / "new",
        lab.rw / "out" / "new",
        lab.rw / ".." / "new",
        lab.ro / "new",
        lab.ro.parent / "new",
    ):
        with suppress(px.TransferError):
            assert lab.copy(secret, lab.at(path)).failed == 1
    new = [tmp_path / "stolen", tmp_path / "new", lab.ro / "new", lab.ro.parent / "new"]
    assert not any(path.exists() for path in new)
    assert lab.copy(lab.at(lab.ro / "file"), tmp_path / "free").files == 1


def test_links_that_lead_out_are_not_copied(lab: Lab, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "in").write_text("1")
    (source / "good").symlink_to("in")
    (source / "bad").symlink_to("/etc/passwd")
    (source / "worse").symlink_to("../other")
    report = lab.copy(source, lab.at(lab.rw / "links"))
    assert sorted(path for path, _ in report.failures) == ["source/bad", "source/worse"]
    assert (report.links, report.files) == (1, 1)


def test_what_cannot_be_copied_is_named_and_the_rest_goes_on(lab: Lab, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("a", "b", "c"):
        (source / name).write_text(name)
    os.mkfifo(source / "pipe")
    (lab.rw / "partly" / "b").mkdir(parents=True)  # a folder is where a file is to be
    report = lab.copy(source, lab.at(lab.rw / "partly"))
    assert report.files == 2
    reasons = {Path(path).name: reason for path, reason in report.failures}
    assert set(reasons) == {"pipe", "b"}
    assert "neither a file" in reasons["pipe"]
    assert "a folder is there" in reasons["b"]


@pytest.mark.parametrize("puts", [True, False])
def test_a_file_that_fails_is_told_once_with_its_name_and_the_first_cause(lab: Lab, tmp_path: Path, puts: bool) -> None:
    here, there = tmp_path / "large", lab.rw / f"large-{puts}"
    source, target = (here, there) if puts else (there, here)
    source.mkdir()
    for number in range(24):
        (source / str(number)).write_bytes(noise(3_000_000))
    names = [f"{(source if puts else target).name}/{number}" for number in range(24)]
    with no_file_beyond(1 << 20):
        ends = (source, lab.at(target)) if puts else (lab.at(source), target)
        report = lab.copy(*ends, streams=4, threads=4)
        alone = lab.copy(*(f"{end}/0" for end in ends), streams=4, threads=4)
    assert sorted(path for path, _ in report.failures) == sorted(names)
    assert {reason for _, reason in report.failures + alone.failures} == {os.strerror(errno.EFBIG) + " (os error 27)"}
    assert [path for path, _ in alone.failures] == ["0"]
    assert (report.files, report.failed, alone.failed) == (0, 24, 1)
    assert [*target.iterdir()] == []


@pytest.mark.parametrize("puts", [True, False])
def test_what_is_in_a_folder_that_could_not_be_made_is_counted_and_not_told(
    lab: Lab, tmp_path: Path, puts: bool
) -> None:
    here, there = tmp_path / "deep", lab.rw / f"deep-{puts}"
    source, target = (here, there) if puts else (there, here)
    (source / "sub").mkdir(parents=True)
    (source / "up").write_text("1")
    for number in range(40):
        (source / "sub" / str(number)).write_text("1")
    ends = (str(source), lab.at(target)) if puts else (lab.at(source), str(target))
    if puts:
        report = lab.copy(ends[0], f"{ends[1]}/no/such")
        assert [path for path, _ in report.failures] == [source.name]
        assert (report.failed, report.files, report.folders) == (43, 0, 0)
    target.mkdir()
    (target / "sub").write_text("in the way")
    words = ["cp", "--identity", str(lab.identity), *ends]
    run = CliRunner().invoke(commands, words, standalone_mode=False)
    assert run.return_value == 1, run.output
    told = [line for line in run.output.splitlines() if line.startswith("not copied")]
    assert len(told) == 2, told
    assert "/sub: " in told[0]
    assert told[1].startswith("not copied: 40 more")
    assert (target / "up").exists()


def test_who_is_cut_off_is_told_that_what_is_there_is_kept(lab: Lab, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(noise(8_000_000))
    (tmp_path / "far").mkdir()
    with Exporters(tmp_path) as grid:
        address = grid.start("gone", f"{tmp_path / 'far'}:rw")

        def end(now: Progress) -> None:
            if now.bytes > 1_000_000:
                grid.__exit__(None, None, None)

        words = {"identity": grid.identity, "patience": 1.0, "limit": "4MB/s", "progress": end}
        with pytest.raises(px.TransferError, match=r"cut off: .*no executor listens there.* is kept, do the same"):
            px.copy(source, f"{address}:{tmp_path / 'far' / 'copy'}", **words)  # type: ignore[arg-type]


@pytest.mark.parametrize("patience", [float("nan"), -1.0])
def test_a_patience_that_is_none_is_refused(lab: Lab, tmp_path: Path, patience: float) -> None:
    (tmp_path / "one").write_text("1")
    with pytest.raises(ValueError, match="patience"):
        lab.copy(tmp_path / "one", lab.at(lab.rw / "impatient"), patience=patience)
    for command in ("cp", "sync"):
        words = [command, "--identity", str(lab.identity), "--patience", str(patience), str(tmp_path)]
        run = CliRunner().invoke(commands, [*words, lab.at(lab.rw / "impatient")])
        assert run.exit_code == 2, run.output
        assert "--patience" in run.output
    assert not (lab.rw / "impatient").exists()


def test_a_level_that_the_other_end_does_not_take_is_an_error(lab: Lab, tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nrequired = "private"\n')
    with pytest.raises(px.PolicyError, match="clear streams were asked for, but rule 2 requires private"):
        lab.copy("memory:1M", lab.at("memory"), level="clear", policy=px.Rules(rules))


def test_what_is_not_there_yet_is_refused_with_words(lab: Lab, tmp_path: Path) -> None:
    for src, dst, words in [
        ("x", "y", "neither 'x' nor 'y'"),
        ("x", "b:99999:/y", "is no address"),
    ]:
        with pytest.raises(px.TransferError, match=words):
            lab.copy(src, dst)
    with pytest.raises(px.TransferError, match="streams are from 1 to 64"):
        lab.copy("x", "b:1:/y", streams=65)
    with pytest.raises(px.TransferError, match="no executor listens there"):
        lab.copy("memory:1M", "127.0.0.1:1:memory")
    with pytest.raises(px.TransferError, match="no such"):
        lab.copy(tmp_path / "no such", lab.at(lab.rw / "x"))
    with pytest.raises(px.TransferError, match="nothing"):
        lab.copy(lab.at(lab.rw / "nothing"), tmp_path / "x")


def test_a_user_of_another_grid_is_not_served(lab: Lab, tmp_path: Path) -> None:
    stranger = tmp_path / "stranger.pem"
    identities.write(stranger, _native.issue_member(_native.create_grid(), "user", "ada"))
    with pytest.raises(px.TransferError):
        lab.copy("memory:1M", lab.at("memory"), identity=stranger)


@pytest.mark.parametrize("level", LEVELS)
def test_a_folder_goes_from_one_executor_to_another(lab: Lab, level: str) -> None:
    source, target = tree(lab.rw / f"near-{level}"), lab.far / level
    seen: list[Progress] = []
    words = {"level": level, "trusted": TRUSTED, "streams": 3, "progress": seen.append}
    report = lab.copy(lab.at(source), lab.at_second(target), **words)
    assert (report.level, report.failed, report.links, report.streams) == (level, 0, 2, 3)
    assert report.files == 2 * len(SIZES) + 300
    assert seen[-1].bytes == seen[-1].total == report.bytes
    assert look(target) == look(source)
    again = lab.copy(lab.at(source), lab.at_second(target), **words)
    assert again.kept == again.files


def test_what_fails_between_executors_is_told_to_the_user(lab: Lab, tmp_path: Path) -> None:
    source = lab.rw / "failing"
    source.mkdir()
    (source / "good").write_text("1")
    (source / "bad").symlink_to("/etc/passwd")
    report = lab.copy(lab.at(source), lab.at_second(f"{lab.far}/"))
    assert (report.files, report.failed, report.level) == (1, 1, "private")
    assert [path for path, _ in report.failures] == ["failing/bad"]
    for src, dst, words in [
        (lab.at(lab.rw / "no such"), lab.at_second(lab.far / "x"), "no such"),
        (lab.at("/etc/passwd"), lab.at_second(lab.far / "x"), "not in a folder that is exported"),
        (lab.at(source), lab.at_second("/etc/x"), "not in a folder that is exported"),
        (lab.at_second(lab.far), lab.at(lab.ro / "x"), "exported for reading only"),
        (lab.at(source), "127.0.0.1:1:/x", "no executor listens there"),
        ("127.0.0.1:1:/x", lab.at(source), "no executor listens there"),
    ]:
        with pytest.raises(px.TransferError, match=words):
            lab.copy(src, dst)
    assert not (lab.far / "x").exists()
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nrequired = "private"\n')
    with pytest.raises(px.PolicyError, match="clear streams were asked for"):
        lab.copy(lab.at("memory:1M"), lab.at_second("memory"), level="clear", policy=px.Rules(rules))


def test_what_matches_at_one_executor_goes_to_another(lab: Lab) -> None:
    source, target = lab.ro / "tables", lab.far / "tables"
    (source / "deep" / "er").mkdir(parents=True)
    for name in ("1.csv", "2.csv", "3.txt", ".hidden.csv", "deep/4.csv", "deep/er/5.csv"):
        (source / name).write_text(name)
    target.mkdir()
    (target / "own").write_text("stays")
    report = lab.copy(lab.at(source / "*.csv"), lab.at_second(target))
    assert (report.files, report.kept, report.failed, report.level) == (2, 0, 0, "private")
    assert sorted(path.name for path in target.iterdir()) == ["1.csv", "2.csv", "own"]
    again = lab.copy(lab.at(source / "**" / "*.csv"), lab.at_second(f"{target}/"))
    assert (again.files, again.kept) == (4, 2)
    assert (target / "5.csv").read_text() == "deep/er/5.csv"
    alone = lab.copy(lab.at(source / "3*"), lab.at_second(target / "named"))
    assert (alone.files, (target / "named").read_text()) == (1, "3.txt"), "one match is as if it had been named"
    assert lab.copy(lab.at(source / "{3.txt,deep}"), lab.at_second(target)).files == 3
    assert (target / "deep" / "er" / "5.csv").exists()
    assert lab.copy(lab.at(source / "deep*" / "**"), lab.at_second(target), exclude=["5.csv"]).failed == 0
    with pytest.raises(px.TransferError, match="nothing there matches"):
        lab.copy(lab.at(source / "*.png"), lab.at_second(target))
    for wrong in (target / "own", target / "no such", "memory"):
        with pytest.raises(px.TransferError, match="is no folder"):
            lab.copy(lab.at(source / "*.csv"), lab.at_second(wrong))
    with pytest.raises(px.TransferError, match="exported for reading only"):
        lab.copy(lab.at_second(target / "*.csv"), lab.at(lab.ro))


def test_what_the_owner_of_the_one_that_sends_wants_counts(lab: Lab) -> None:
    source, target = f"{lab.strict}:memory:1M", lab.at_second("memory")
    with pytest.raises(px.PolicyError):
        lab.copy(source, target, level="clear", trusted=TRUSTED)
    assert lab.copy(source, target, level="private").level == "private"


def test_a_copy_between_executors_is_cancelled(lab: Lab) -> None:
    def stop(now: Progress) -> None:
        if now.bytes:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab.copy(lab.at("memory:1000G"), lab.at_second("memory"), progress=stop)
    assert lab.copy(lab.at("memory:10M"), lab.at_second("memory")).bytes == 10_000_000


@pytest.mark.parametrize("way", ["put", "get", "between"])
def test_a_limit_is_kept(lab: Lab, way: str) -> None:
    made, thrown = ("memory:3M", lab.at("memory")) if way == "put" else (lab.at("memory:3M"), "memory:")
    report = lab.copy(made, lab.at_second("memory") if way == "between" else thrown, limit="2MB/s")
    assert report.bytes == 3_000_000
    assert report.bytes / report.seconds < 2_300_000, "the first frame goes at once"


def test_words_that_are_no_limit_are_refused(lab: Lab) -> None:
    for wrong in ("fast", "-1", "100", 0, "1e9", "10 potatoes/s"):
        with pytest.raises(px.TransferError, match="is no limit"):
            lab.copy("memory:1M", lab.at("memory"), limit=wrong)


def test_the_command_copies_and_says_what_it_did(lab: Lab, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.txt"
    hosts.write_text(lab.address.replace(":", " "))
    (tmp_path / "one").write_text("1")
    (tmp_path / "two").write_text("22")
    words = ["cp", "--hosts", str(hosts), "--identity", str(lab.identity), "--json"]
    there = lab.rw / "command"
    there.mkdir()
    run = CliRunner().invoke(commands, [*words, str(tmp_path / "one"), str(tmp_path / "two"), f"127.0.0.1:{there}"])
    assert run.exit_code == 0, run.output
    said = [json.loads(line) for line in run.output.splitlines()]
    assert [(one["files"], one["bytes"], one["level"]) for one in said] == [(1, 1, "private"), (1, 2, "private")]
    assert (there / "two").read_text() == "22"
    (tmp_path / "three").mkdir()
    (tmp_path / "three" / "bad").symlink_to("/")
    run = CliRunner().invoke(
        commands, [*words[:-1], str(tmp_path / "three"), f"127.0.0.1:{there}/"], standalone_mode=False
    )
    assert run.return_value == 1, run.output
    assert "not copied: three/bad: the link leads out" in run.output


def test_a_source_that_fails_does_not_end_the_others(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "one").write_text("1")
    there = lab.rw / "others"
    there.mkdir()
    words = ["cp", "--identity", str(lab.identity), "--patience", "0"]
    run = CliRunner().invoke(
        commands,
        [*words, str(tmp_path / "no\x1b[2Jsuch"), str(tmp_path / "one"), lab.at(there)],
        standalone_mode=False,
    )
    assert run.return_value == 1, run.output
    assert (there / "one").read_text() == "1"
    assert "\x1b" not in run.output
    assert "no\\x1b[2Jsuch" in run.output


@pytest.mark.parametrize("others", [0, 1])
def test_each_source_has_its_json_line_also_one_that_fails(lab: Lab, tmp_path: Path, others: int) -> None:
    (tmp_path / "one").write_text("1")
    missing, there = str(tmp_path / "no such"), lab.rw / f"lines-{others}"
    there.mkdir()
    words = ["cp", "--identity", str(lab.identity), "--patience", "0", "--json", missing]
    words += [str(tmp_path / "one")] * others
    run = CliRunner().invoke(commands, [*words, lab.at(there)], standalone_mode=False)
    assert run.return_value == 1 or isinstance(run.exception, px.TransferError), run.output
    first, *rest = [json.loads(line) for line in run.stdout.splitlines()]
    assert first["source"] == missing
    assert "No such file" in first["error"]
    assert len(rest) == others


def test_nothing_is_left_of_a_cancelled_copy_but_what_it_goes_on_from(lab: Lab, tmp_path: Path) -> None:
    source = tmp_path / "big"
    source.write_bytes(noise(1 << 20) * 200)

    def stop(now: Progress) -> None:
        if now.bytes > 1 << 20:
            raise KeyboardInterrupt

    target = lab.rw / "cancelled" / "big"
    target.parent.mkdir()
    try:
        lab.copy(source, lab.at(target), streams=1, progress=stop)
    except KeyboardInterrupt:
        assert not target.exists() or target.stat().st_size == source.stat().st_size
    report = lab.copy(source, lab.at(target))
    assert report.failed == 0
    assert target.read_bytes() == source.read_bytes()
    assert [path.name for path in target.parent.iterdir()] == ["big"]


@pytest.mark.parametrize("size", [1, 8_000_000])
def test_of_two_copies_to_one_place_the_first_wins_and_the_other_is_told(lab: Lab, tmp_path: Path, size: int) -> None:
    sources = [tmp_path / name / "tree" for name in ("one", "other")]
    for source in sources:
        source.mkdir(parents=True)
        (source / "big").write_bytes(noise(8_000_000))
        (source / "small").write_bytes(noise(size))
    there = lab.rw / f"twice-{size}"
    begun = Event()
    words = {"limit": "4MB/s", "patience": 5.0, "progress": lambda now: begun.set() if now.bytes else None}
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(lab.copy, sources[0], lab.at(there), **words)
        assert begun.wait(30)
        with pytest.raises(px.TransferError, match=r"another copy by \w+, from 127\.0\.0\.1, has been writing to"):
            lab.copy(sources[1], lab.at(there), patience=5.0)
        assert not first.done(), "it was told before the first had ended"
        report = first.result(60)
    assert (report.files, report.failed, report.cuts) == (2, 0, 0)
    assert look(there) == look(sources[0])
    assert lab.copy(sources[0], lab.at(there)).kept == 2


def test_copies_of_other_names_into_one_folder_and_two_from_one_place_go_on_together(lab: Lab, tmp_path: Path) -> None:
    folder = lab.rw / "beside"
    folder.mkdir()
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(noise(3_000_000))
    puts = [(tmp_path / name, lab.at(f"{folder}{end}")) for name, end in (("a", ""), ("b", ""))]
    gets = [(lab.at(folder / "a"), tmp_path / f"back-{number}") for number in range(2)]
    words: dict[str, Any] = {"limit": "3MB/s", "patience": 5.0}
    for pairs in (puts, gets):
        with ThreadPoolExecutor(2) as pool:
            reports = [job.result(60) for job in [pool.submit(lab.copy, *pair, **words) for pair in pairs]]
        assert [(report.files, report.cuts) for report in reports] == [(1, 0), (1, 0)]
    assert all((tmp_path / f"back-{number}").read_bytes() == noise(3_000_000) for number in range(2))


@pytest.mark.parametrize("puts", [True, False])
def test_pipes_and_devices_are_never_replaced_and_links_are_written_through(
    lab: Lab, tmp_path: Path, puts: bool
) -> None:
    source, folder = tmp_path / "source", (lab.rw if puts else tmp_path) / f"special-{puts}"
    if not puts:
        source = lab.rw / "plain"
    source.write_text("new")
    folder.mkdir()
    (folder / "real").write_text("old")
    (folder / "link").symlink_to("real")
    (folder / "nowhere").symlink_to("no such")
    os.mkfifo(folder / "pipe")
    special = ["pipe"]
    if os.geteuid() == 0:
        with suppress(PermissionError):  # in a container that may not
            os.mknod(folder / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
            special.append("null")
    before = {path.name: path.lstat() for path in folder.iterdir()}

    def copy(name: str) -> px.CopyReport:
        ends = (source, lab.at(folder / name)) if puts else (lab.at(source), folder / name)
        return lab.copy(*ends)

    for name in special:
        report = copy(name)
        assert report.failed == 1
        assert "a device, a pipe or a socket is there" in report.failures[0][1]
    if puts:
        with pytest.raises(px.TransferError, match="a device, a pipe or a socket is there"), lab_files(lab) as files:
            files.create(str(folder / "pipe"))
        with lab_files(lab) as files:
            files.create(str(folder / "link")).commit()
        assert (folder / "real").read_text() == ""
    assert copy("nowhere").failed == 1
    assert copy("link").failed == 0
    after = {path.name: path.lstat() for path in folder.iterdir()}
    assert set(after) == set(before)
    assert all(
        (after[name].st_ino, after[name].st_mode) == (before[name].st_ino, before[name].st_mode)
        for name in (*special, "link", "nowhere")
    )
    assert (folder / "real").read_text() == "new"


def lab_files(lab: Lab) -> px.Files:
    return px.Files(lab.address, identity=lab.identity)


def test_links_are_kept_followed_or_left_out(lab: Lab, tmp_path: Path) -> None:
    source, outside = tmp_path / "source", tmp_path / "outside"
    for folder in (source, outside):
        folder.mkdir()
    (outside / "x").write_text("x")
    (source / "y").write_text("y")
    (source / "out").symlink_to(outside)
    (source / "far").symlink_to(outside / "x")
    (source / "near").symlink_to("y")
    os.mkfifo(tmp_path / "pipe")
    (source / "pipe").symlink_to(tmp_path / "pipe")

    def copied(links: str | None) -> tuple[px.CopyReport, dict[str, object]]:
        to = lab.rw / f"links-{links}"
        return lab.copy(source, lab.at(to), links=links), {name: one for name, one in look(to).items() if name != "."}

    report, there = copied(None)
    assert (sorted(there), report.failed) == (["near", "y"], 3)
    report, there = copied("keep")
    assert (report.failed, report.links, there["out"]) == (0, 4, ("link", str(outside)))
    report, there = copied("skip")
    assert (report.failed, sorted(there)) == (0, ["y"])
    report, there = copied("follow")
    assert [path for path, _ in report.failures] == ["source/pipe"]
    assert sorted(there) == ["far", "near", "out", "out/x", "y"]
    assert all(not path.is_symlink() for path in (lab.rw / "links-follow").rglob("*"))
    with pytest.raises(px.TransferError, match="follow"):
        lab.copy(source, lab.at(lab.rw / "links"), links="all")


def test_a_kept_link_is_not_followed_by_a_later_copy(lab: Lab, tmp_path: Path) -> None:
    first, second, outside = tmp_path / "first", tmp_path / "second", tmp_path / "outside"
    for folder in (first, second, outside):
        folder.mkdir()
    for name in ("folder", "file"):
        (first / name).symlink_to(outside / name)
    (outside / "folder").mkdir()
    (outside / "file").write_text("precious")
    (second / "folder").mkdir()
    (second / "folder" / "x").write_text("x")
    (second / "file").write_text("new")
    to = lab.rw / "kept"
    assert lab.copy(first, lab.at(to), links="keep").failed == 0
    report = lab.copy(second, lab.at(to), links="keep")
    assert [path for path, _ in report.failures] == ["second/folder"]
    assert ((to / "file").read_text(), (outside / "file").read_text()) == ("new", "precious")
    assert not [*(outside / "folder").iterdir()]


def test_links_of_an_executor_are_followed_within_its_export(lab: Lab, tmp_path: Path) -> None:
    source, beside = lab.rw / "following", lab.rw / "followed"
    for folder in (source, beside):
        folder.mkdir()
    (beside / "x").write_text("x")
    (source / "in").symlink_to("../followed")
    (source / "round").symlink_to("../following")
    (source / "out").symlink_to("../../ro")
    report = lab.copy(lab.at(source), tmp_path / "back", links="follow")
    assert sorted(path for path, _ in report.failures) == ["following/out", "following/round"]
    assert sorted(look(tmp_path / "back")) == [".", "in", "in/x"]


def test_links_that_lead_out_are_told_in_one_line(lab: Lab, tmp_path: Path) -> None:
    source = tmp_path / "home"
    source.mkdir()
    (source / "x").write_text("x")
    for number in range(5):
        (source / f"{number}").symlink_to("/nowhere")
    words = ["cp", str(source), lab.at(lab.rw / "home"), "--identity", str(lab.identity)]
    run = CliRunner().invoke(commands, words, standalone_mode=False)
    assert (run.return_value, run.output.count("not copied: ")) == (1, 1)
    assert "not copied: 5 links lead out" in run.output
    assert CliRunner().invoke(commands, [*words, "--links", "keep"], standalone_mode=False).return_value == 0
    assert (lab.rw / "home" / "3").is_symlink()
