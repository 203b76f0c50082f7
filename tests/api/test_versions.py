"""A file that has an older version at the target: only what differs crosses the line."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import phalanx as px
import pytest
from api.exporters import SIDES, Folders, folders
from click.testing import CliRunner
from phalanx.cli import commands
from phalanx.transfer import Progress

SIZE = 6_000_000
EARLIER, LATER = 1_600_000_000, 1_700_000_000


class Lab(Folders):
    """Copies between them."""

    def copy(self, name: str = "file", **options: Any) -> px.CopyReport:
        src, dst = (f"{place}/{name}" for place in self.names)
        return px.copy(src, dst, **{"identity": self.identity, "patience": 0.0, "whole_file": False, **options})

    def sync(self, **options: Any) -> px.SyncReport:
        return px.sync(*self.names, **{"identity": self.identity, "patience": 0.0, "whole_file": False, **options})

    def put(self, old: bytes, new: bytes, name: str = "file") -> None:
        for folder, data, time in ((self.target, old, EARLIER), (self.source, new, LATER)):
            (folder / name).write_bytes(data)
            os.utime(folder / name, (time, time))


@pytest.fixture(params=SIDES)
def lab(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lab]:
    with folders(tmp_path, request.param, Lab) as made:
        yield made


def content(size: int = SIZE, seed: int = 7) -> bytes:
    return random.Random(seed).randbytes(size)


def test_what_was_changed_and_inserted_crosses_and_nothing_else(lab: Lab) -> None:
    old = content()
    new = old[:1_000_000] + content(1000, 2) + old[1_000_000:4_000_000] + content(300_000, 3) + old[4_300_000:]
    lab.put(old, new)
    seen: list[Progress] = []
    report = lab.copy(progress=seen.append)
    assert lab.is_whole()
    assert (report.files, report.bytes, report.kept) == (1, len(new), 0)
    assert 301_000 <= report.crossed <= 301_000 + 250_000
    assert len(new) - report.reused <= report.crossed
    assert (seen[-1].bytes, seen[-1].total) == (len(new), len(new))
    assert [path.name for path in lab.target.iterdir()] == ["file"]
    again = lab.copy()
    assert (again.kept, again.reused, again.crossed) == (1, 0, 0)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"", content()),
        (content(seed=1), content(seed=2)),
        (content(), content()),
        (content(), content()[: SIZE // 2]),
        (content()[: SIZE // 2], content()),
        (content()[: SIZE // 8], content()),
        (bytes(SIZE), bytes(SIZE - 1) + b"x"),
        (content(), bytes(SIZE)),
        (content(1 << 20) * 4, content(1 << 20) * 6),
    ],
    ids=["empty", "other", "same", "cut", "longer", "short", "zeros", "all_zeros", "repeated"],
)
def test_whatever_the_older_version_is_the_copy_is_the_new_one(lab: Lab, old: bytes, new: bytes) -> None:
    lab.put(old, new)
    report = lab.copy()
    assert lab.is_whole()
    assert (report.files, report.failed) == (1, 0)
    assert report.reused + report.crossed >= len(new)


def test_a_file_is_sent_as_a_whole_where_that_is_said_or_it_is_small(lab: Lab) -> None:
    lab.put(content(), content()[1:])
    lab.put(content(500_000), content(500_000)[1:], "small")
    assert lab.copy(whole_file=True).reused == 0
    assert lab.copy("small").reused == 0
    assert lab.is_whole()
    assert lab.is_whole("small")


def test_within_one_machine_files_are_sent_as_a_whole_by_default(lab: Lab) -> None:
    lab.put(content(), content()[1:])
    assert lab.copy(whole_file=None).reused == 0
    assert lab.is_whole()


def test_many_files_are_compared_in_one_copy(lab: Lab) -> None:
    names = [f"{number:02}" for number in range(50)]
    for number, name in enumerate(names):
        old = content(1_200_000, number)
        lab.put(old, old[:600_000] + b"new" + old[600_000:], name)
    (lab.source / "fresh").write_bytes(content(2_000_000))
    report = lab.sync().copied
    assert report is not None
    assert report.files == 51
    assert all(lab.is_whole(name) for name in [*names, "fresh"])
    assert report.reused >= 50 * 1_100_000


def test_links_and_files_that_cannot_be_read_are_no_older_versions(lab: Lab, tmp_path: Path) -> None:
    lab.put(content(), content()[1:])
    (lab.target / "file").rename(tmp_path / "elsewhere")
    (lab.source / "in").mkdir()
    (lab.source / "file").rename(lab.source / "in" / "file")
    (lab.target / "in").mkdir()
    (lab.target / "in" / "file").symlink_to(tmp_path / "elsewhere")
    report = lab.copy("in")
    assert (report.files, report.reused) == (1, 0)
    assert lab.is_whole("in/file")
    assert not (lab.target / "in" / "file").is_symlink()
    assert (tmp_path / "elsewhere").read_bytes() == content()


def test_holes_stay_holes(lab: Lab) -> None:
    data = content(300_000)
    for folder, time, first in ((lab.target, EARLIER, b"old"), (lab.source, LATER, b"new")):
        with (folder / "file").open("wb") as file:
            file.write(first)
            file.truncate(40_000_000)
            file.seek(0, os.SEEK_END)
            file.write(data)
        os.utime(folder / "file", (time, time))
    report = lab.copy()
    assert lab.is_whole()
    assert report.reused > 39_000_000
    assert (lab.target / "file").stat().st_blocks * 512 < 2_000_000


def test_the_command_says_what_crossed(lab: Lab) -> None:
    lab.put(content(), content()[1:])
    words = ["cp", f"{lab.names[0]}/file", f"{lab.names[1]}/file", "--no-whole-file", "--identity", str(lab.identity)]
    ran = CliRunner().invoke(commands, words, standalone_mode=False)
    assert "MB from older versions" in ran.output
    assert "MB crossed" in ran.output
    assert lab.is_whole()


def test_a_copy_that_was_ended_goes_on_where_it_was(lab: Lab) -> None:
    old = content()
    lab.put(old, old[: SIZE // 2] + content(SIZE // 2, 3))

    def end_it(now: Progress) -> None:
        if now.bytes > SIZE // 2 + 1_000_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab.copy(progress=end_it, limit="2MB/s")
    assert (lab.target / "file").read_bytes() == old
    report = lab.copy()
    assert lab.is_whole()
    assert report.crossed < SIZE // 2 - 500_000
