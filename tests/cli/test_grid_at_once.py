"""Commands of `phalanx grid` that run at the same moment: each finds what the others have written."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from api.executors import PHALANX
from api.members import PATIENCE, Lab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    there = Lab(tmp_path)
    yield there
    there.end()


def run_at_once(commands: Sequence[Sequence[str]]) -> None:
    running = [
        subprocess.Popen([PHALANX, "grid", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for words in commands
    ]
    said = [process.communicate(timeout=PATIENCE)[0] for process in running]
    assert [process.returncode for process in running] == [0] * len(commands), said


def test_eight_commands_at_the_same_moment_make_one_list(lab: Lab) -> None:
    names = [f"labpc{number}" for number in range(8)]
    for name in names:
        lab.issue("executor", name)
    run_at_once([["revoke", "--home", str(lab.home), name] for name in names])
    title, *lines, signature = (lab.home / "revoked.txt").read_text().splitlines()
    assert title.startswith("phalanx revoked 8 of ")
    assert signature.startswith("signature ")
    assert sorted(line.split()[2] for line in lines) == names
    assert lab.grid("list").count("revoked") == 8


def test_commands_at_the_same_moment_lose_no_certificate_of_the_register(lab: Lab) -> None:
    names = [f"labpc{number}" for number in range(4)]
    for name in names:
        lab.issue("executor", name)
    home = ["--home", str(lab.home)]
    renew = [["renew", *home, "--days", "400", name] for name in names]
    others = [f"other{number}" for number in range(4)]
    issue = [["issue", *home, name, "--out", str(lab.folder / f"{name}.pem")] for name in others]
    run_at_once([*renew, *issue, ["revoke", *home, "ada"]])
    assert (lab.home / "renewed.pem").read_bytes().count(b"BEGIN CERTIFICATE") == 4
    listed = [line.split() for line in lab.grid("list").splitlines()]
    assert sorted(words[2] for words in listed) == sorted(["ada", *names, *names, *others])
    assert (lab.home / "issued.pem").read_bytes().count(b"BEGIN CERTIFICATE") == len(listed)
