"""mpi4py's own tests against our library: mpi4py from its wheel, its tests from its source distribution."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PHALANX = Path(sys.executable).with_name("phalanx")
SUITE = Path(sys.prefix) / "mpi4py-tests"
#: What is not passed yet, by test file or by the words of a test's name, and why.
MISSING = {
    "test_dynproc": "processes are not spawned yet, and programs do not connect to each other",
    "test_spawn": "processes are not spawned yet",
    "test_util_pool": "its pool spawns processes",
}
#: The same for single tests.
MISSING_TESTS = {
    "TestSession.testBuffering": "sessions have no buffers of their own yet",
}
#: Chapters of the standard, as regular expressions for the names of files: each runs by itself.
CHAPTERS = {
    "point": "test_p2p|test_request|test_status|test_grequest|test_msg",
    "collective": "test_cco",
    "communicators": "test_comm|test_group|test_attributes|test_info|test_session",
    "datatypes": "test_datatype|test_op|test_pack|test_address",
    "windows": "test_win|test_rma",
    "files": "test_file|test_io",
}


def run_suite(ranks: int, *options: str) -> str:
    """Runs the chosen files and returns what they print; fails with it if a test does."""
    missing = [word for name in MISSING for word in ("-e", rf"{name}\b")]
    missing += [word for name in MISSING_TESTS for word in ("-x", name)]
    words = ["mpirun", "-n", str(ranks), "--no-prefix", sys.executable, "main.py", *missing, *options]
    done = subprocess.run([PHALANX, *words], cwd=SUITE, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[done.stderr.find("\n=====") :][:20000]
    return done.stderr


@pytest.mark.timeout(660)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_chapter(chapter: str, ranks: int) -> None:
    told = run_suite(ranks, "-i", CHAPTERS[chapter])
    assert re.search(r"Ran [1-9]\d* tests", told)


@pytest.mark.timeout(660)
@pytest.mark.parametrize("ranks", [1])
def test_everything_else(ranks: int) -> None:
    assert re.search(r"Ran [1-9]\d* tests", run_suite(ranks, "-e", "|".join(CHAPTERS.values())))


def test_what_is_said_to_be_missing_is_there_to_be_missed() -> None:
    assert {path.stem for path in SUITE.glob("test_*.py")} >= set(MISSING)
