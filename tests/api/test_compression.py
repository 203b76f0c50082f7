"""What compresses is compressed on the way; what is told of a copy is what crossed."""

from __future__ import annotations

import gzip
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import phalanx as px
import pytest
from api.exporters import SIDES, TRUSTED, Folders, folders
from click.testing import CliRunner
from phalanx.cli import commands

LEVELS = ["clear", "authenticated", "safe", "private"]


class Lab(Folders):
    """Copies between them."""

    def copy(self, name: str = "file", **options: Any) -> px.CopyReport:
        src, dst = (f"{place}/{name}" for place in self.names)
        defaults = {"identity": self.identity, "patience": 0.0, "compress": True, "trusted": TRUSTED}
        report = px.copy(src, dst, **{**defaults, **options})
        assert report.failures == []
        return report


@pytest.fixture(params=SIDES)
def lab(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lab]:
    with folders(tmp_path, request.param, Lab, TRUSTED) as made:
        yield made


def text(size: int, seed: int = 1) -> bytes:
    """Words, as a language has them: zstd makes a third of them, or less."""
    draw = random.Random(seed)
    words = [draw.randbytes(draw.randint(1, 6)).hex() for _ in range(2000)]
    return " ".join(draw.choices(words, k=size // 7)).encode()[:size]


def test_text_crosses_as_less_and_arrives_as_it_was(lab: Lab) -> None:
    (lab.source / "file").write_bytes(text(5_000_000))
    report = lab.copy()
    assert lab.is_whole()
    size = (lab.source / "file").stat().st_size
    assert report.bytes == size
    assert 0 < report.crossed < size * 0.6
    as_it_is = lab.copy(compress=False, anew=True)
    assert as_it_is.crossed == as_it_is.bytes == size


def test_within_a_machine_nothing_is_compressed_unless_asked(lab: Lab) -> None:
    (lab.source / "file").write_bytes(text(3_000_000))
    report = lab.copy(compress=None)
    assert report.crossed == report.bytes


def test_small_files_that_share_a_block_are_compressed_together(lab: Lab) -> None:
    folder = lab.source / "folder"
    folder.mkdir()
    for number in range(300):
        (folder / f"{number}").write_bytes(text(2000))
    report = lab.copy("folder")
    assert report.files == 300
    assert report.crossed < report.bytes / 10
    assert all(lab.is_whole(f"folder/{number}") for number in range(300))


def test_what_is_compressed_already_goes_as_it_is(lab: Lab) -> None:
    packed = gzip.compress(os.urandom(3_000_000))
    (lab.source / "file").write_bytes(packed)
    report = lab.copy()
    assert lab.is_whole()
    assert report.crossed == len(packed)


def test_only_what_differs_crosses_and_is_compressed(lab: Lab) -> None:
    old = text(5_000_000)
    new = old[:2_000_000] + text(500_000, 2) + old[2_000_000:]
    for folder, data, time in ((lab.target, old, 1_600_000_000), (lab.source, new, 1_700_000_000)):
        (folder / "file").write_bytes(data)
        os.utime(folder / "file", (time, time))
    report = lab.copy(whole_file=False)
    assert lab.is_whole()
    assert report.reused > 4_500_000
    assert report.crossed < 450_000, "digests of the chunks, and less than what was put in"


def test_holes_stay_holes(lab: Lab) -> None:
    with (lab.source / "file").open("wb") as file:
        file.write(text(1_000_000))
        file.seek(20_000_000)
        file.write(text(1_000_000, 2))
    report = lab.copy()
    assert lab.is_whole()
    assert report.crossed < 2_000_000 * 0.6
    assert (lab.target / "file").stat().st_blocks * 512 < 10_000_000


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_compresses_before_it_protects(lab: Lab, level: str) -> None:
    (lab.source / "file").write_bytes(text(2_000_000))
    report = lab.copy(level=level)
    assert lab.is_whole()
    assert report.level == level
    assert report.crossed < report.bytes * 0.6


@pytest.mark.parametrize("command", ["cp", "sync"])
def test_the_command_takes_what_hands_know_and_says_what_crossed(lab: Lab, command: str) -> None:
    (lab.source / "folder").mkdir()
    (lab.source / "folder" / "file").write_bytes(text(2_000_000))
    words = [command, *(f"{place}/folder" for place in lab.names), "--identity", str(lab.identity)]
    ran = CliRunner().invoke(commands, [*words, "-avz" if command == "sync" else "-z"])
    assert ran.exit_code == 0, ran.output
    assert " MB crossed)" in ran.output
    assert lab.is_whole("folder/file")
    (lab.source / "folder" / "file").write_bytes(text(2_100_000, 2))
    ran = CliRunner().invoke(commands, [*words, "--no-compress", "--whole-file"])
    assert ran.exit_code == 0, ran.output
    assert "crossed" not in ran.output
    assert lab.is_whole("folder/file")
