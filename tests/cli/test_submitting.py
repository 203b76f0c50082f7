"""What `phalanx submit` and its like refuse before they ask a hub, and which files they send."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from phalanx._jobs import program_and_files
from phalanx.cli import commands, jobs
from phalanx.errors import ContractError


def sent(*paths: str, words: tuple[str, ...] = ("true",)) -> dict[str, str]:
    """The names of the files that are sent, and their paths."""
    _, files = program_and_files([*words], tuple(map(Path, paths)))
    return {name: os.fspath(path) for path, name, _ in files}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PHALANX_HOME", str(tmp_path / "home"))
    data = tmp_path / "here" / "data"
    (data / "deep").mkdir(parents=True)
    (data / "one").write_text("1")
    (data / "deep" / "two").write_text("2")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


class TestFiles:
    def test_names_in_the_job(self, folder: Path) -> None:
        both = {"data/deep/two", "data/one"}
        assert set(sent("data")) == set(sent("data/")) == set(sent("./data")) == set(sent(".")) == both
        assert set(sent(str(folder / "here" / "data"))) == both
        assert set(sent("../here/data")) == both
        os.chdir("data/deep")
        assert set(sent("..")) == both

    def test_a_file_that_is_named_twice_is_sent_once(self, folder: Path) -> None:
        Path("data/run.sh").write_text("#!/bin/sh\n")
        Path("data/run.sh").chmod(0o755)
        words, files = program_and_files(["./data/run.sh"], (Path("data"), Path("data/one")))
        assert words == ["./data/run.sh"]
        assert sorted((name, executable) for _, name, executable in files) == [
            ("data/deep/two", False),
            ("data/one", False),
            ("data/run.sh", True),
        ]

    def test_two_files_of_one_name_are_refused(self, folder: Path) -> None:
        (folder / "one").write_text("another")
        Path("one").write_text("this")
        for paths, words in [
            ((str(folder / "one"), "one"), ("true",)),
            ((str(folder / "one"),), ("./one",)),
            ((str(folder / "one"),), ("sh", "one")),
        ]:
            with pytest.raises(ContractError, match="would both be one in the job"):
                sent(*paths, words=words)

    @pytest.mark.parametrize("target", ["/etc/passwd", "/etc", "one", "nowhere"])
    @pytest.mark.parametrize("at", ["data/link", "data/deep/link"])
    def test_a_link_in_a_folder_is_refused_by_its_name(self, folder: Path, at: str, target: str) -> None:
        Path(at).symlink_to(target)
        with pytest.raises(ContractError, match=f"{at} is a symbolic link, and none is followed"):
            sent("data")

    def test_a_link_that_the_user_names_is_followed(self, folder: Path) -> None:
        Path("link").symlink_to("data/one")
        Path("folder").symlink_to("data")
        assert set(sent("link")) == {"link"}
        assert set(sent("folder")) == {"folder/deep/two", "folder/one"}

    def test_empty_folders_and_pipes_are_refused(self, folder: Path) -> None:
        Path("empty/deep").mkdir(parents=True)
        with pytest.raises(ContractError, match="the folder empty has no files, and empty folders are not sent"):
            sent("empty")
        os.mkfifo("data/pipe")
        with pytest.raises(ContractError, match="data/pipe is no file and no folder"):
            sent("data")

    def test_too_many_files(self, folder: Path) -> None:
        for number in range(1001):
            Path("data", f"f{number}").touch()
        with pytest.raises(ContractError, match="data has more than 1000 files"):
            sent("data")


def row(number: int, state: str, **counts: int) -> dict[str, Any]:
    """A job of 100 processes, as its hub tells it."""
    all_counts = dict.fromkeys(("complete", "running", "queued", "failed", "lost", "canceled"), 0) | counts
    facts = {"name": "", "command": ["python", "simulate-the-whole-of-it.py", "--steps", "1000"], "user": "bob"}
    return {"id": number, "state": state, "counts": all_counts, "first": 0, "last": 99, "submitted": 1e12, **facts}


class TestATableOfJobs:
    @pytest.mark.parametrize("all_users", [False, True])
    def test_a_narrow_one_cuts_only_the_command(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, all_users: bool
    ) -> None:
        monkeypatch.setattr(jobs, "_WIDTH", 80)
        jobs._show_jobs([row(12345, "EXECUTOR_ERROR", failed=5, complete=95), row(2, "RUNNING", queued=97)], all_users)
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= 80
        user, heads = ["bob"] * all_users, ["user"] * all_users
        for line, cells in [
            (lines[0], ["job", "state", "complete", "waiting", "failed", *heads, "submitted"]),
            (lines[2], ["12345", "EXECUTOR_ERROR", "95/100", "5", *user, "2001-09-09", "python"]),
            (lines[3], ["2", "RUNNING", "0/100", "97", *user, "2001-09-09", "python"]),
        ]:
            assert line.split()[: len(cells)] == cells

    def test_a_wide_one_shows_all_of_it(self, capsys: pytest.CaptureFixture[str]) -> None:
        jobs._show_jobs([row(1, "COMPLETE", complete=100)], False)
        assert "python simulate-the-whole-of-it.py --steps 1000" in capsys.readouterr().out


LARGE = "99999999999999999999999"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["jobs", LARGE], f"{LARGE!r} is no job"),
        (["jobs", "--forget", LARGE], f"{LARGE!r} is no job"),
        (["get", LARGE], f"{LARGE!r} is no job"),
        (["submit", "--after", LARGE, "--", "true"], f"{LARGE!r} is no job"),
        (["jobs", str(1 << 63)], "is no job"),
        (["jobs", "0"], "is no job"),
        (["jobs", "x"], "is no job"),
        (["cancel", LARGE], "is no job"),
        (["logs", LARGE], "is no job"),
        (["get", "1", ""], "'' is no path"),
        (["submit", "--files", "", "--", "true"], "'' is no path"),
        (["mpirun", "--output", "", "-n", "1", "true"], "'' is no path"),
        (["submit", "--time-limit", "1000000000d", "--", "true"], "1000000000d is too long: write 365d or less"),
        (["submit", "--time-limit", "9" * 3000 + "d", "--", "true"], f"{'9' * 40}… is too long"),
        (["submit", "--places", "9" * 3000, "--", "true"], f"{'9' * 40}… is too large: write 4096 or less"),
        (["submit", "--needs", "memory=10000000000000MB", "--", "true"], "is too large an amount of memory"),
        (["submit", "--needs", f"cores={LARGE}", "--", "true"], f"cores={LARGE} is too large"),
        (["submit", "--needs", "cores=1,wait=5", "--", "true"], "a job waits for machines without it"),
        (["submit", "--env", "=x", "--", "true"], "--env =x: write NAME=VALUE"),
        (["submit", "--env", "x", "--", "true"], "--env x: write NAME=VALUE"),
        (["submit", "--env", "PHALANX_INDEX=7", "--", "true"], "--env PHALANX_INDEX: the machine sets"),
    ],
)
def test_wrong_words_are_usage_errors(folder: Path, words: list[str], why: str) -> None:
    done = CliRunner().invoke(commands, words)
    assert done.exit_code == 2, (done.output, done.exception)
    assert why in " ".join(done.output.split()).replace("│ ", "")
