"""mpi4py's own tests against our library: mpi4py from its wheel, its tests from its source distribution."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

PHALANX = Path(sys.executable).with_name("phalanx")
SUITE = Path(sys.prefix) / "mpi4py-tests"
#: What is not run, by a test's name, and why.
MISSING: dict[str, str] = {
    # At two ranks or more one begins Iagree before a Barrier and the others after it: collective operations of a
    # communicator in different orders, which the standard forbids (MPI 5.0, 6.12). Both sides wait for ever.
    "testIAgree": "an invalid program",
}


def beyond_this_machine() -> list[str]:
    """The tests that no library of MPI passes on this machine."""
    try:
        socket.getaddrinfo(socket.gethostname(), None)
    except OSError:
        return ["testJoin"]  # it connects to this machine by the name that it has for itself
    return []


def python() -> str:
    """This Python, by a path without a space: tests write scripts whose first line names it."""
    if " " not in sys.executable:
        return sys.executable
    link = Path(tempfile.gettempdir(), "environment")
    with suppress(FileExistsError):
        link.symlink_to(sys.prefix)
    return str(link / Path(sys.executable).relative_to(sys.prefix))


#: Chapters of the standard, as regular expressions for the names of files: each runs by itself.
CHAPTERS = {
    "point": "test_p2p|test_request|test_status|test_grequest|test_msg",
    "collective": "test_cco",
    "communicators": "test_comm|test_group|test_attributes|test_info|test_session",
    "datatypes": "test_datatype|test_op|test_pack|test_address",
    "windows": "test_win|test_rma",
    "files": "test_file|test_io",
    "processes": "test_spawn|test_dynproc|test_util_pool",
}


#: Parts of names of tests that pass no message to another process, but take long: one rank is enough for them.
LOCAL = ("Self", "TestDatatypeCreate", "TestDatatypePickle", "TestPackExternal")


def run_suite(ranks: int, *options: str, launch: Sequence[str] = ()) -> str:
    """Runs the chosen files and returns what they print; fails with it if a test does."""
    invalid = MISSING if ranks > 1 else ()
    missing = [word for name in [*invalid, *beyond_this_machine()] for word in ("-x", name)]
    words = ["mpirun", "-n", str(ranks), *launch, "--no-prefix", python(), "main.py", *missing, *options]
    done = subprocess.run([PHALANX, *words], cwd=SUITE, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[done.stderr.find("\n=====") :][:20000]
    return done.stderr


@pytest.mark.timeout(660)
@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("chapter", [*CHAPTERS, "everything else"])
def test_chapter(chapter: str, ranks: int) -> None:
    local = [word for name in LOCAL for word in ("-x", name)]
    files = ["-i", CHAPTERS[chapter]] if chapter in CHAPTERS else ["-e", "|".join(CHAPTERS.values())]
    told = run_suite(ranks, *local, *files)
    assert re.search(r"Ran [1-9]\d* tests", told)


#: Some of them between ranks that share no memory, as on several machines: how many, at which level, which files.
APART = [
    (2, "private", r"test_p2p_buf\b|test_p2p_obj\b|test_msg|test_rma\b"),
    (3, "private", r"test_cco_obj\b|test_cco_buf\b|test_win"),
    (3, "clear", r"test_p2p_obj_matched|test_cco_nb_buf\b"),
]


@pytest.mark.timeout(660)
@pytest.mark.parametrize(("ranks", "level", "files"), APART)
def test_over_sockets(ranks: int, level: str, files: str) -> None:
    told = run_suite(ranks, "-i", files, launch=["--transport", "sockets", "--level", level])
    assert re.search(r"Ran [1-9]\d* tests", told)


@pytest.mark.timeout(660)
def test_all_chapters_and_everything_else_at_one_rank() -> None:
    runs = [("-i", files) for files in CHAPTERS.values()] + [("-e", "|".join(CHAPTERS.values()))]
    # A run has one process and one thread: the cores share them.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for told in pool.map(lambda options: run_suite(1, *options), reversed(runs)):
            assert re.search(r"Ran [1-9]\d* tests", told)


def test_what_is_said_to_be_missing_is_there_to_be_missed() -> None:
    there = "".join(path.read_text() for path in SUITE.glob("test_*.py"))
    assert all(f"def {name.rpartition('.')[2]}(" in there for name in MISSING)
