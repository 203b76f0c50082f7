"""phalanx sync: a folder is made like another one, here or at an executor."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import phalanx as px
import pytest
from api.exporters import SIDES, Exporters, Folders, folders
from click.testing import CliRunner, Result
from phalanx.cli import commands

from laboratory.processes import reads, until


class Lab(Folders):
    """Two folders, of which one is at an executor, or each at one."""

    @property
    def places(self) -> tuple[str | None, str | None]:
        """Executors where the two are; None: here."""
        source, target = (name.rpartition(":")[0] or None for name in self.names)
        return source, target

    def sync(self, **options: object) -> px.SyncReport:
        return px.sync(*self.names, identity=self.identity, patience=0.0, **options)  # type: ignore[arg-type]

    def run(self, *words: str) -> Result:
        text = ["sync", *self.names, *words, "--identity", str(self.identity)]
        return CliRunner().invoke(commands, text, standalone_mode=False)


@pytest.fixture(params=SIDES)
def lab(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lab]:
    with folders(tmp_path, request.param, Lab) as made:
        (made.source / "x").mkdir()
        source, target = (f"{name}/x" for name in made.names)
        yield Lab(made.source / "x", made.target / "x", (source, target), made.identity)


def tree(folder: Path) -> None:
    (folder / "a" / "b").mkdir(parents=True)
    for name in ("1.csv", "2.txt", "a/3.csv", "a/b/4.txt"):
        (folder / name).write_text(name)
    (folder / "a" / "up").symlink_to("../1.csv")


def look(folder: Path) -> dict[str, object]:
    """Everything in a folder: what it is, its time, its bytes."""

    def one(path: Path) -> tuple[object, ...]:
        if path.is_symlink():
            return ("link", str(path.readlink()))
        found = path.stat()
        if path.is_dir():
            return ("folder", stat.S_IMODE(found.st_mode))
        return ("file", found.st_mtime_ns, path.read_bytes())

    return {str(path.relative_to(folder)): one(path) for path in folder.rglob("*")}


def changes(report: px.SyncReport) -> list[tuple[str, str]]:
    return [(change.what, change.path) for change in report.changes]


def test_only_what_differs_is_copied_and_what_is_gone_goes(lab: Lab) -> None:
    tree(lab.source)
    first = lab.sync(delete=True)
    assert look(lab.target) == look(lab.source)
    assert first.copied is not None
    assert (first.copied.files, first.copied.kept, first.deleted) == (4, 0, 0)
    (lab.source / "1.csv").write_text("other")
    (lab.source / "a" / "b" / "4.txt").unlink()
    (lab.source / "a" / "b").rmdir()
    (lab.source / "a" / "up").unlink()
    (lab.source / "a" / "up").symlink_to("3.csv")
    (lab.target / "extra").mkdir()
    (lab.target / "extra" / "deep").write_text("x")
    planned = lab.sync(delete=True, dry_run=True)
    expected = [("changed", "1.csv"), ("changed", "a/up")]
    expected += [("delete", path) for path in ("a/b", "a/b/4.txt", "extra", "extra/deep")]
    assert sorted(changes(planned)) == sorted(expected)
    assert planned.copied is None
    assert (lab.target / "extra" / "deep").exists(), "a dry run changes nothing"
    second = lab.sync(delete=True)
    assert changes(second) == changes(planned)
    assert second.copied is not None
    assert (second.copied.files, second.copied.kept, second.deleted, second.failures) == (3, 2, 4, [])
    assert look(lab.target) == look(lab.source)


@pytest.mark.parametrize("checksum", [False, True])
def test_permissions_arrive_and_nothing_else_is_sent(lab: Lab, checksum: bool) -> None:
    tree(lab.source)
    lab.sync()
    modes = {"1.csv": 0o600, "2.txt": 0o755, "a/b": 0o700}
    for path, mode in modes.items():
        (lab.source / path).chmod(mode)
    assert changes(lab.sync(dry_run=True, checksum=checksum)) == [("changed", path) for path in modes]
    report = lab.sync(checksum=checksum)
    assert report.copied is not None
    assert (report.copied.files, report.copied.kept, report.failures) == (4, 4, [])
    assert {path: stat.S_IMODE((lab.target / path).stat().st_mode) for path in modes} == modes
    assert changes(lab.sync(dry_run=True, checksum=checksum)) == []


def test_a_target_that_is_a_link_to_a_folder_is_that_folder(lab: Lab, tmp_path: Path) -> None:
    tree(lab.source)
    (tmp_path / "other" / "real").mkdir()
    (tmp_path / "other" / "real" / "extra").write_text("x")
    lab.target.symlink_to("real")
    assert lab.sync(delete=True).deleted == 1
    assert lab.target.is_symlink()
    assert look(tmp_path / "other" / "real") == look(lab.source)


def test_a_dry_run_tells_of_what_could_not_be_done(lab: Lab) -> None:
    tree(lab.source)
    os.mkfifo(lab.source / "pipe")
    (lab.source / "a" / "out").symlink_to("../../x")
    (lab.source / "a" / "round").symlink_to("../a/3.csv")
    (lab.source / "file").write_text("1")
    (lab.target / "file").mkdir(parents=True)
    (lab.source / "folder" / "deep").mkdir(parents=True)
    (lab.target / "folder").write_text("1")
    for delete, blocked in ((False, ["file", "folder"]), (True, [])):
        planned = lab.sync(dry_run=True, delete=delete)
        failing = dict(planned.failures)
        assert sorted(failing) == sorted(["a/out", "pipe", *blocked])
        told = {change.path for change in planned.changes if change.what != "delete"}
        assert delete or "a/round" in told
        assert not told & {*failing, *(["folder/deep"] if blocked else [])}
        run = lab.run("-n", *(["--delete"] if delete else []))
        assert run.return_value == 1, run.output
        assert "not done: pipe: neither a file" in run.output
        assert "leads out" in failing["a/out"]
        real = lab.sync(delete=delete)
        assert {path for path, _ in real.failures} == set(failing), "as it was foretold"


def test_a_dry_run_to_what_is_exported_for_reading_is_no_promise(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "x").touch()
    (tmp_path / "ro").mkdir()
    with Exporters(tmp_path) as grid:
        target = f"{grid.start('one', f'{tmp_path}/ro:ro')}:{tmp_path}/ro"
        for words in ([], ["--delete"]):
            text = ["sync", "-n", *words, str(tmp_path / "source"), target, "--identity", str(grid.identity)]
            run = CliRunner().invoke(commands, text, standalone_mode=False)
            assert run.return_value == 1, run.output
            assert "exported for reading only" in run.output
            assert "new     x" in run.output, "what differs is told all the same"


def test_without_delete_nothing_goes(lab: Lab) -> None:
    tree(lab.source)
    lab.target.mkdir()
    (lab.target / "extra").write_text("x")
    lab.sync()
    assert look(lab.target) == {**look(lab.source), "extra": look(lab.target)["extra"]}


def test_content_decides_where_it_is_asked(lab: Lab) -> None:
    tree(lab.source)
    lab.sync()
    before = (lab.target / "1.csv").stat()
    os.utime(lab.source / "1.csv", ns=(0, 10**18))  # touched, and nothing else
    time = (lab.source / "2.txt").stat().st_mtime_ns
    (lab.source / "2.txt").write_text("2.tXt")  # as long as it was
    os.utime(lab.source / "2.txt", ns=(time, time))
    assert changes(lab.sync(dry_run=True)) == [("changed", "1.csv")]
    assert changes(lab.sync(dry_run=True, checksum=True)) == [("changed", "2.txt")]
    report = lab.sync(checksum=True)
    assert report.copied is not None
    assert (report.compared, report.copied.files - report.copied.kept, report.failures) == (4, 1, [])
    assert look(lab.target) == look(lab.source)
    assert (lab.target / "1.csv").stat().st_ino == before.st_ino, "only its time was set"


def test_what_is_left_out_is_neither_copied_nor_deleted(lab: Lab) -> None:
    tree(lab.source)
    lab.target.mkdir()
    for name in ("keep.tmp", "gone/keep.tmp", "gone/not", "cache/x", "a/b/9.txt"):
        (lab.target / name).parent.mkdir(parents=True, exist_ok=True)
        (lab.target / name).write_text("x")
    (lab.source / "cache").mkdir()
    (lab.source / "cache" / "y").touch()
    report = lab.sync(delete=True, exclude=["*.tmp", "/cache/"])
    there = {path for path, found in look(lab.target).items() if found[0] != "folder"}  # type: ignore[index]
    kept = {"keep.tmp", "gone/keep.tmp", "cache/x"}
    assert there == {"1.csv", "2.txt", "a/3.csv", "a/b/4.txt", "a/up"} | kept
    assert report.failures == [], "that a folder is not empty is as it should be"
    assert (lab.target / "gone").is_dir()
    only = lab.sync(delete=True, include=["*.csv"])
    assert only.deleted == 0
    assert (lab.target / "2.txt").exists()


def test_an_alternative_that_is_empty_is_left_out_too(lab: Lab) -> None:
    tree(lab.source)
    lab.target.mkdir()
    for name in ("precious", "precious.bak", "other"):
        (lab.target / name).touch()
    assert lab.sync(delete=True, exclude=["precious{,.bak}"]).deleted == 1
    assert (lab.target / "precious").exists()
    with pytest.raises(px.TransferError, match="not ASCII"):
        lab.sync(delete=True, exclude=["[é]*"])


def test_nothing_goes_if_nothing_can_come(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(lab.source)
    lab.target.mkdir()
    (lab.target / "extra").touch()
    told = lab.sync(delete=True, dry_run=True)
    assert ("delete", "extra") in changes(told)

    def cut(*_: object, **__: object) -> None:
        raise px.TransferError("the other executor is out of reach")

    with monkeypatch.context() as patch:
        patch.setattr("phalanx.transfer._sync.copy", cut)
        with pytest.raises(px.TransferError, match="out of reach"):
            lab.sync(delete=True)
    assert (lab.target / "extra").exists()
    assert lab.sync(delete=True).deleted == 1


@pytest.mark.parametrize("wrong", [{"limit": "fast"}, {"stripes": "//"}])
@pytest.mark.parametrize("dry_run", [False, True])
def test_words_that_a_copy_would_refuse_are_refused_before(lab: Lab, wrong: dict[str, str], dry_run: bool) -> None:
    lab.target.mkdir()
    (lab.target / "extra").touch()
    with pytest.raises(px.TransferError, match=re.escape(next(iter(wrong.values())))):
        lab.sync(delete=True, dry_run=dry_run, **wrong)
    assert (lab.target / "extra").exists()


def test_a_copy_is_made_as_was_asked(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, object]] = []

    def copy(src: str, dst: str, **how: object) -> px.CopyReport:
        asked.append(how)
        return px.copy(src, dst, **how)  # type: ignore[arg-type]

    tree(lab.source)
    monkeypatch.setattr("phalanx.transfer._sync.copy", copy)
    assert lab.run("--limit", "100MB/s", "--no-check", "--streams", "2", "--patience", "3").exit_code == 0
    words = {"limit": "100MB/s", "check": False, "streams": 2, "patience": 3.0, "stripes": None, "threads": None}
    assert [{word: how[word] for word in words} for how in asked] == [words]


def test_links_are_deleted_and_not_what_they_lead_to(lab: Lab, tmp_path: Path) -> None:
    tree(lab.source)
    lab.target.mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "3.csv").write_text("precious")
    (outside / "other").write_text("precious")
    (lab.target / "a").symlink_to(outside)  # where the source has a folder
    (lab.target / "way").symlink_to(outside)
    report = lab.sync(delete=True)
    assert report.failures == []
    assert look(lab.target) == look(lab.source)
    assert {path.name: path.read_text() for path in outside.iterdir()} == dict.fromkeys(("3.csv", "other"), "precious")


def test_a_folder_in_the_way_of_a_file_goes_with_delete_only(lab: Lab) -> None:
    tree(lab.source)
    (lab.target / "1.csv" / "in").mkdir(parents=True)
    kept = lab.sync()
    assert kept.failures == [("1.csv", "a folder is there, not a file")]
    assert (lab.target / "1.csv" / "in").is_dir()
    assert lab.sync(delete=True).failures == []
    assert look(lab.target) == look(lab.source)


def test_a_source_that_cannot_be_listed_whole_deletes_nothing(lab: Lab) -> None:
    tree(lab.source)
    deep = lab.source.joinpath(*["d"] * 140)
    deep.mkdir(parents=True)
    lab.target.mkdir()
    (lab.target / "extra").write_text("x")
    report = lab.sync(delete=True, dry_run=True)
    assert not report.listed
    assert report.failures
    assert "delete" not in [change.what for change in report.changes]
    result = lab.run("--delete")
    assert result.return_value == 1
    assert "nothing was removed" in result.output
    assert (lab.target / "extra").exists()
    assert (lab.target / "a" / "3.csv").exists(), "the rest goes on"


def test_a_source_that_is_not_there_deletes_nothing(lab: Lab) -> None:
    lab.target.mkdir()
    (lab.target / "x").touch()
    lab.source.rmdir()
    with pytest.raises(px.TransferError, match="no such file or folder"):
        lab.sync(delete=True)
    (lab.source).write_text("a file")
    with pytest.raises(px.TransferError, match="only a folder"):
        lab.sync(delete=True)
    assert (lab.target / "x").exists()


def test_into_a_folder_under_its_own_name(lab: Lab) -> None:
    tree(lab.source)
    lab.target.mkdir()
    (lab.target / "precious").touch()
    (lab.target / lab.source.name).mkdir()
    (lab.target / lab.source.name / "extra").touch()
    source, target = lab.names
    report = px.sync(source, target + "/", delete=True, identity=lab.identity)
    assert report.deleted == 1
    assert (lab.target / "precious").exists()
    assert look(lab.target / lab.source.name) == look(lab.source)


def test_what_is_not_whole_is_neither_copied_nor_deleted(lab: Lab) -> None:
    tree(lab.source)
    lab.target.mkdir()
    (lab.target / ".big.phalanx-part").write_text("half")
    lab.sync(delete=True)
    assert (lab.target / ".big.phalanx-part").exists()


def test_the_command_says_what_it_does(lab: Lab) -> None:
    tree(lab.source)
    lab.target.mkdir()
    (lab.target / "extra").touch()
    planned = lab.run("-n", "--delete")
    assert planned.return_value == 0
    assert "delete  extra" in planned.output.splitlines()
    assert "new     a/b/4.txt" in planned.output.splitlines()
    facts = json.loads(lab.run("--delete", "--json").output)
    assert (facts["deleted"], facts["copied"]["files"], facts["failures"], facts["listed"]) == (1, 4, [], True)
    assert "0 of 4 files copied" in lab.run().output


def test_one_side_is_at_an_executor(lab: Lab, tmp_path: Path) -> None:
    with pytest.raises(px.TransferError, match="one of the two is at an executor"):
        px.sync(tmp_path, tmp_path / "x")
    with pytest.raises(px.TransferError, match="not what matches a pattern"):
        px.sync("127.0.0.1:1:/x/*", tmp_path, identity=lab.identity)
    for name in ("memory:", "memory:1G", "127.0.0.1:1:memory"):
        with pytest.raises(px.TransferError, match="not memory"):
            px.sync(name, lab.names[1], identity=lab.identity)
    with pytest.raises(px.TransferError, match="standard streams"):
        px.sync("-", lab.names[1], identity=lab.identity)
    assert not lab.target.exists()


def at(place: str | None, path: Path) -> str:
    return f"{place}:{path}" if place else str(path)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells by what a folder is known")
@pytest.mark.parametrize("nested", ["same", "target within", "source within", "by another name", "to be made"])
def test_a_folder_is_not_made_like_itself_or_what_is_in_it(lab: Lab, tmp_path: Path, nested: str) -> None:
    """Both are in what one executor exports; where one side is here, that is looked at as this machine's own."""
    place = lab.places[0] or lab.places[1]
    root = lab.source if lab.places[0] else lab.target
    root.mkdir(exist_ok=True)
    tree(root)
    (root / "a" / "b" / "precious").write_text("x")
    (tmp_path / "way").symlink_to(root)
    source, target = {
        "same": (root, root),
        "target within": (root, root / "a" / "b"),
        "source within": (root / "a", root),
        "by another name": (tmp_path / "way", root / "a"),
        "to be made": (root, root / "new" / "folder"),
    }[nested]
    sides = [place if one else None for one in lab.places]
    if nested == "by another name":  # which is not exported
        sides = [None, place]
    before = look(root)
    with pytest.raises(px.TransferError, match="lies in the other"):
        px.sync(at(sides[0], source), at(sides[1], target), delete=True, identity=lab.identity)
    assert look(root) == before


def test_times_that_nothing_has_hide_no_change(lab: Lab) -> None:
    lab.source.mkdir(exist_ok=True)
    lab.target.mkdir()
    for number, time in enumerate((0, 1, 10**9, 10**18, 11 * 10**17)):
        (lab.source / str(number)).write_text("new")
        (lab.target / str(number)).write_text("old")
        for folder in (lab.source, lab.target):
            os.utime(folder / str(number), ns=(time, time))
    report = lab.sync(checksum=True)
    assert report.copied is not None
    assert (report.copied.files - report.copied.kept, report.failures) == (5, [])
    assert look(lab.target) == look(lab.source)


def test_failures_are_named_by_their_paths_in_the_folder(lab: Lab) -> None:
    tree(lab.source)
    exported = lab.target.parent
    (exported / "a" / "3.csv" / "in").mkdir(parents=True)
    report = px.sync(lab.names[0], at(lab.places[1], exported), identity=lab.identity)
    assert report.failures == [("a/3.csv", "a folder is there, not a file")]
    assert (exported / "a" / "b" / "4.txt").exists()


def test_only_names_for_what_is_not_whole_are_passed_over(lab: Lab) -> None:
    lab.target.mkdir()
    for name in (".phalanx-part", ".x.phalanx-part", ".x.phalanx-part\n", "x.phalanx-part"):
        (lab.target / name).touch()
    assert lab.sync(delete=True).deleted == 2
    assert sorted(path.name for path in lab.target.iterdir()) == [".phalanx-part", ".x.phalanx-part"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a process has open")
def test_ctrl_c_ends_a_comparison_here_at_once(lab: Lab) -> None:
    """What would be compared takes hours; nobody waits until that is done."""
    lab.target.mkdir()
    for folder in (lab.source, lab.target):
        with (folder / "endless").open("wb") as file:
            file.truncate(1 << 40)
    (lab.source / "endless").touch()
    command = [str(Path(sys.executable).with_name("phalanx")), "sync", "--checksum", *lab.names]
    with subprocess.Popen([*command, "--identity", str(lab.identity)], start_new_session=True) as process:
        if None in lab.places:
            until(lambda: reads(process.pid, "endless"), timeout=30, what="the comparison")
        else:
            until(lambda: reads(os.getpid(), "endless"), timeout=30, what="the comparison at the executors")
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(30) == 130
        finally:
            process.kill()
    until(lambda: not reads(os.getpid(), "endless"), timeout=30, what="the end of it at the executors")


def test_a_pattern_may_stand_alone(lab: Lab) -> None:
    for name in ("a.csv", "b.dat"):
        (lab.source / name).write_text(name)
    lab.target.mkdir(exist_ok=True)
    (lab.target / "notes.txt").write_text("precious")
    lab.sync(include="*.csv", delete=True, trusted="10.0.0.0/8")
    assert sorted(path.name for path in lab.target.iterdir()) == ["a.csv", "notes.txt"]


@pytest.mark.parametrize("delete", [False, True])
def test_links_are_skipped_or_kept(lab: Lab, delete: bool) -> None:
    (lab.source / "out").symlink_to("/nowhere")
    report = lab.sync(links="keep", delete=delete)
    assert (report.failures, (lab.target / "out").is_symlink()) == ([], True)
    (lab.source / "out").unlink()
    assert lab.sync(links="skip", delete=delete).failures == []
    assert (lab.target / "out").is_symlink(), "it is left alone"
    with pytest.raises(px.TransferError, match="followed by a copy only"):
        lab.sync(links="follow", delete=True)
