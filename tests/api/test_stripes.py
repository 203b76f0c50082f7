"""Copies of which several machines take shares: executors on this machine that export the same folder."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import phalanx as px
import pytest
from api.exporters import TRUSTED, Exporters
from api.test_transfer import look, tree
from click.testing import CliRunner
from phalanx.cli import commands
from phalanx.transfer import Progress, _stripes
from phalanx.transfer._files import Access

#: Divided from 32 MiB on.
LARGE = 70_000_001
#: A port at which nobody is.
NOBODY = "127.0.0.1:9"


@dataclass
class Lab:
    """Three executors of one folder, one that takes another for it, and one that accepts somebody else only."""

    data: Path
    hosts: list[str]
    stranger: str
    picky: str
    identity: Path

    @property
    def others(self) -> str:
        return ",".join(self.hosts[1:])

    def at(self, path: Path, host: int = 0) -> str:
        return f"{self.hosts[host]}:{path}"

    def copy(self, src: Path | str, dst: Path | str, **options: object) -> px.CopyReport:
        words = {"identity": self.identity, "patience": 0.0, "trusted": TRUSTED, **options}
        return px.copy(src, dst, **words)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    data, own, link = folder / "data", folder / "own", folder / "link"
    data.mkdir()
    own.mkdir()
    with Exporters(folder) as grid:

        def executor(name: str, *accepted: str) -> str:
            return grid.start(name, f"{link}:rw", "memory", trusted=TRUSTED, accepted=accepted)

        link.symlink_to("own")
        stranger = executor("stranger")
        link.unlink()
        link.symlink_to("data")
        hosts = [executor(name) for name in ("one", "two", "three")]
        yield Lab(link, hosts, stranger, executor("picky", "bob"), grid.identity)


def noise(path: Path, seed: int, size: int = LARGE) -> Path:
    path.write_bytes(random.Random(seed).randbytes(size))
    os.utime(path, ns=(1_600_000_000_123_456_789, 1_600_000_000_123_456_789))
    return path


def assert_same(copied: Path, original: Path) -> None:
    """And nothing that is not whole is beside it."""
    assert copied.read_bytes() == original.read_bytes()
    assert copied.stat().st_mtime_ns == original.stat().st_mtime_ns
    assert not list(copied.parent.glob(".*phalanx*"))


@pytest.mark.parametrize("level", ["clear", "private"])
def test_a_large_file_to_machines_and_from_machines(lab: Lab, tmp_path: Path, level: str) -> None:
    original, there = noise(tmp_path / "big", 1), lab.data / f"big-{level}"
    told: list[Progress] = []
    put = lab.copy(original, lab.at(there), stripes=lab.others, level=level, streams=2, progress=told.append)
    assert (put.files, put.bytes, put.kept, put.failed) == (1, LARGE, 0, 0)
    assert LARGE <= put.crossed < 1.1 * LARGE, "the bytes of all shares count"
    assert (put.stripes, put.lost_stripes, put.streams, put.level) == (3, [], 6, level)
    assert_same(there, original)
    assert (told[-1].bytes, told[-1].total) == (LARGE, LARGE)
    got = lab.copy(lab.at(there), tmp_path / "back", stripes=lab.others, level=level)
    assert (got.files, got.bytes, got.stripes) == (1, LARGE, 3)
    assert_same(tmp_path / "back", original)


def test_a_folder_there_and_between_and_back_is_the_same(lab: Lab, tmp_path: Path) -> None:
    source = tree(tmp_path / "source")
    noise(source / "a" / "big", 2)
    source.chmod(0o750)
    os.utime(source, ns=(1_500_000_000_000_000_001, 1_500_000_000_000_000_001))
    plain = lab.copy(source, lab.at(lab.data / "plain"))
    put = lab.copy(source, lab.at(lab.data / "folder"), stripes=lab.others)
    assert (put.files, put.folders, put.links, put.kept) == (plain.files, plain.folders, plain.links, 0)
    assert look(lab.data / "folder") == look(source)
    across = lab.copy(lab.at(lab.data / "folder"), lab.at(lab.data / "across"), stripes=f"{lab.others}/{lab.others}")
    assert (across.files, across.kept, across.stripes) == (plain.files, 0, 3)
    assert look(lab.data / "across") == look(source)
    got = lab.copy(lab.at(lab.data / "across"), tmp_path / "back", stripes=lab.hosts[1])
    assert (got.files, got.stripes) == (plain.files, 2)
    assert look(tmp_path / "back") == look(source)
    again = lab.copy(source, lab.at(lab.data / "folder"), stripes=lab.others)
    assert again.kept == plain.files


@pytest.mark.parametrize("machines", [2, 3])
def test_of_a_large_file_only_what_differs_comes_in_stripes(lab: Lab, tmp_path: Path, machines: int) -> None:
    original, there = noise(tmp_path / "big", 4), lab.data / f"versions-{machines}"
    stripes = ",".join(lab.hosts[1:machines])
    lab.copy(original, lab.at(there), stripes=stripes)
    content, fresh = original.read_bytes(), random.Random(5).randbytes(2000)
    places = (LARGE // 5, LARGE // 2, LARGE - 1_000_000)
    pieces = [content[: places[0]], content[places[0] : places[1]], content[places[1] + 1000 : places[2]]]
    original.write_bytes(fresh.join([*pieces, content[places[2] :]]))
    for source, target in ((original, lab.at(there)), (lab.at(there), tmp_path / "old")):
        if source != original:
            (tmp_path / "old").write_bytes(content)
        report = lab.copy(source, target, stripes=stripes, whole_file=False)
        assert (report.files, report.failed, report.stripes) == (1, 0, machines)
        assert report.reused > 0.95 * LARGE
        assert report.crossed < 0.05 * LARGE
    assert_same(there, original)
    assert_same(tmp_path / "old", original)


def test_a_folder_is_made_like_another_by_several_machines(lab: Lab, tmp_path: Path) -> None:
    source, there = tree(tmp_path / "source"), lab.data / "alike"
    noise(source / "a" / "big", 3)
    words = ["--stripes", lab.others, "--limit", "1GB/s", "--identity", str(lab.identity), "--patience", "0", "--json"]
    for nothing_is_new in (False, True):
        told = CliRunner().invoke(commands, ["sync", str(source), lab.at(there), *words], standalone_mode=False)
        report = json.loads(told.stdout)
        assert (told.return_value, report["copied"]["stripes"]) == (0, 3)
        assert (report["copied"]["kept"] == report["copied"]["files"]) == nothing_is_new
    assert look(there) == look(source)


def test_a_machine_that_refuses_the_user_is_not_taken_for_one_that_is_away(lab: Lab, tmp_path: Path) -> None:
    original = noise(tmp_path / "big", 9)
    with pytest.raises(px.TransferError, match=f"{lab.picky}: the user ada is not among those accepted"):
        lab.copy(original, lab.at(lab.data / "refused"), stripes=f"{lab.hosts[1]},{lab.picky}")
    with pytest.raises(px.TransferError, match="the user ada is not among those accepted"):
        lab.copy(original, f"{lab.picky}:{lab.data / 'refused'}")
    assert not (lab.data / "refused").exists()


def watch_the_last(monkeypatch: pytest.MonkeyPatch, look_at: Callable[[], object]) -> None:
    """Looks at what shares have brought, just before the copy of all begins."""
    last = _stripes._all_of_it

    def watched(*words: Any) -> dict[str, Any]:
        look_at()
        return last(*words)

    monkeypatch.setattr(_stripes, "_all_of_it", watched)


def test_shares_bring_what_is_in_a_folder_and_the_last_copy_finds_it(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, there = tree(tmp_path / "source"), lab.data / "carried"
    noise(source / "a" / "big", 10)
    found: list[Path] = []

    def look_at() -> None:
        for path in source.rglob("*"):
            if path.is_symlink() or not path.is_file() or not path.stat().st_size:
                continue  # what has no bytes is left to the last copy
            copied = there / path.relative_to(source)
            copied = copied.with_name(".big.phalanx-part") if path.name == "big" else copied
            assert copied.read_bytes() == path.read_bytes(), path
            found.append(copied)

    watch_the_last(monkeypatch, look_at)
    assert lab.copy(source, lab.at(there), stripes=lab.others).failed == 0
    assert there / "a" / ".big.phalanx-part" in found
    assert len(found) > 1
    assert look(there) == look(source)


def test_shares_bring_a_file_here_and_the_last_copy_finds_it(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, part = noise(lab.data / "origin", 11), tmp_path / ".back.phalanx-part"
    found: list[bool] = []
    watch_the_last(monkeypatch, lambda: found.append(part.read_bytes() == original.read_bytes()))
    assert lab.copy(lab.at(original), tmp_path / "back", stripes=lab.others).stripes == 3
    assert found == [True]
    assert_same(tmp_path / "back", original)


def test_a_target_whose_name_looks_like_a_pattern_is_a_name(lab: Lab, tmp_path: Path) -> None:
    original, there = noise(tmp_path / "big", 12), lab.data / "a[1]*"
    assert lab.copy(original, lab.at(there), stripes=lab.others).stripes == 3
    assert_same(there, original)


def test_what_a_machine_refuses_ends_the_copy_and_who_dies_while_it_is_asked_is_left_out(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = noise(tmp_path / "big", 13)
    reached, looked = Access.files, px.Files.look

    def other_version(access: Access, match: re.Match[str]) -> px.Files:
        if _stripes.name(match) == lab.hosts[1]:
            raise px.TransferError("it runs another version")
        return reached(access, match)

    with monkeypatch.context() as patch:
        patch.setattr(Access, "files", other_version)
        with pytest.raises(px.TransferError, match="another version"):
            lab.copy(original, lab.at(lab.data / "refused"), stripes=lab.others)

    def lost(files: px.Files, *words: Any, **options: Any) -> Any:
        if lab.hosts[1] in repr(files):
            files.close()
        return looked(files, *words, **options)

    monkeypatch.setattr(px.Files, "look", lost)
    report = lab.copy(original, lab.at(lab.data / "left"), stripes=lab.others)
    assert (report.stripes, [machine for machine, _ in report.lost_stripes]) == (2, [lab.hosts[1]])
    assert_same(lab.data / "left", original)
    assert not list(lab.data.glob(".phalanx-*"))


def test_what_was_stopped_goes_on_with_and_without_stripes(lab: Lab, tmp_path: Path) -> None:
    original = noise(tmp_path / "big", 3)
    for name, words in (("shared", {"stripes": lab.others}), ("alone", {})):
        there = lab.data / name

        class Enough(Exception):
            pass

        def stop(now: Progress, there: Path = there) -> None:
            if any(there.parent.glob(f".{there.name}.phalanx-state-*")):
                raise Enough

        with pytest.raises(Enough):
            lab.copy(original, lab.at(there), stripes=lab.others, limit="20MB/s", progress=stop)
        assert not there.exists()
        assert (there.parent / f".{name}.phalanx-part").exists()
        report = lab.copy(original, lab.at(there), **words)
        assert (report.files, report.failed) == (1, 0)
        assert_same(there, original)


@pytest.mark.parametrize("goes_on", ["shared", "alone"])
def test_a_new_version_that_was_stopped_goes_on(lab: Lab, tmp_path: Path, goes_on: str) -> None:
    older, there = noise(tmp_path / "older", 14).read_bytes(), lab.data / f"stopped-{goes_on}"
    there.write_bytes(older)
    original = tmp_path / "big"
    # Of each of three shares half is new, and the rest has moved.
    halves = [older[at : at + LARGE // 6] for at in range(0, LARGE, LARGE // 3)]
    fresh = random.Random(15).randbytes(3 * (LARGE // 6))
    pieces = [fresh[at * (LARGE // 6) :][: LARGE // 6] + half for at, half in enumerate(halves)]
    original.write_bytes(b"a few bytes more" + b"".join(pieces))

    class Enough(Exception):
        pass

    def stop(now: Progress) -> None:
        if any(there.parent.glob(f".{there.name}.phalanx-state-*")):
            raise Enough

    words: dict[str, Any] = {"stripes": lab.others, "whole_file": False}
    with pytest.raises(Enough):
        lab.copy(original, lab.at(there), limit="10MB/s", progress=stop, **words)
    assert there.read_bytes() == older
    if goes_on == "alone":
        del words["stripes"]
    report = lab.copy(original, lab.at(there), **words)
    assert (report.files, report.failed) == (1, 0)
    assert report.crossed < 0.6 * LARGE
    assert_same(there, original)


def test_a_machine_that_is_out_of_reach_is_named_and_the_others_copy(lab: Lab, tmp_path: Path) -> None:
    original, there = noise(tmp_path / "big", 4), lab.data / "reached"
    report = lab.copy(original, lab.at(there), stripes=f"{NOBODY},{lab.hosts[1]}")
    assert (report.files, report.stripes, report.kept) == (1, 2, 0)
    assert [machine for machine, _ in report.lost_stripes] == [NOBODY]
    assert_same(there, original)


def test_a_file_that_is_replaced_is_replaced_as_a_whole(lab: Lab, tmp_path: Path) -> None:
    there = lab.data / "replaced"
    for seed, size in ((5, LARGE), (6, LARGE + 1_000_000), (7, LARGE - 1_000_000)):
        original = noise(tmp_path / "big", seed, size)
        assert lab.copy(original, lab.at(there), stripes=lab.others).kept == 0
        assert_same(there, original)


def test_files_of_machines_that_differ_are_refused(lab: Lab, tmp_path: Path) -> None:
    there, own = lab.data / "different", lab.data.parent / "own" / "different"
    there.write_bytes(b"one")
    with pytest.raises(px.TransferError, match=r"nothing is at"):
        lab.copy(lab.at(there), tmp_path / "x", stripes=lab.stranger)
    own.write_bytes(b"others")
    with pytest.raises(px.TransferError, match=r"is not what .* has there"):
        lab.copy(lab.at(there), tmp_path / "x", stripes=lab.stranger)
    assert not (tmp_path / "x").exists()


def test_machines_that_do_not_share_a_file_system_are_refused(lab: Lab, tmp_path: Path) -> None:
    original = noise(tmp_path / "big", 8)
    with pytest.raises(px.TransferError, match="a file system that all of them see"):
        lab.copy(original, lab.at(lab.data / "apart"), stripes=lab.stranger)
    for folder in (lab.data, lab.data.parent / "own"):
        assert not list(folder.glob("*apart*")) + list(folder.glob(".phalanx*"))


def test_a_machine_that_does_not_export_the_folder_is_named_with_it(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("1")
    (tmp_path / "other").mkdir()
    with Exporters(tmp_path) as grid:
        hosts = [grid.start("one", f"{lab.data}:rw"), grid.start("two", f"{tmp_path / 'other'}:rw")]
        for one, other in (hosts, hosts[::-1]):
            words = {"stripes": other, "identity": grid.identity, "trusted": TRUSTED}
            with pytest.raises(px.TransferError) as error:
                lab.copy(tmp_path / "file", f"{one}:{lab.data}/named", **words)
            where = f"{hosts[1]}:{lab.data}" + ("/named" if one == hosts[1] else "")
            assert str(error.value).startswith(f"{where}: not in a folder that is exported there")


def test_memory_is_shared_too(lab: Lab) -> None:
    memory = f"{lab.hosts[0]}:memory"
    put = lab.copy("memory:300M", memory, stripes=lab.others)
    assert (put.bytes, put.stripes, put.files) == (300_000_000, 3, 1)
    across = lab.copy(f"{lab.hosts[0]}:memory:300M", memory, stripes=f"{lab.others}/{lab.others}")
    assert (across.bytes, across.stripes) == (300_000_000, 3)


@pytest.mark.parametrize(
    ("stripes", "words"),
    [
        ("", "none is named"),
        ("a b", "names no machine"),
        ("127.0.0.1:1,127.0.0.1:1", "named twice"),
        ("a/b", "only one end"),
        (",".join(f"h{number}" for number in range(8)), "at most 8"),
    ],
)
def test_words_that_name_no_machines_are_refused(lab: Lab, tmp_path: Path, stripes: str, words: str) -> None:
    (tmp_path / "x").write_text("x")
    with pytest.raises(px.TransferError, match=words):
        lab.copy(tmp_path / "x", lab.at(lab.data / "x"), stripes=stripes)
    with pytest.raises(px.TransferError, match="SOURCES/TARGETS"):
        lab.copy(lab.at(lab.data / "x"), lab.at(lab.data / "y"), stripes="a,b")
    with pytest.raises(px.TransferError, match="not for patterns"):
        lab.copy(lab.at(lab.data / "*"), tmp_path, stripes="a")


def test_the_command_says_how_many_and_who_was_lost(lab: Lab, tmp_path: Path) -> None:
    original = noise(tmp_path / "big", 9)
    words = ["cp", "--identity", str(lab.identity), "--stripes", f"{lab.hosts[1]},{NOBODY}", str(original)]
    done = CliRunner().invoke(commands, [*words, lab.at(lab.data / "told")])
    assert done.exit_code == 0, done.output
    assert "2 stripes" in done.output
    assert f"lost, others did its share: {NOBODY}" in done.output
