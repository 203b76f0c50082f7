"""Runs mpi4py's own tests: its wheel has the interfaces of MPICH and Open MPI, its sources have the standard's."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

PHALANX = Path(sys.executable).with_name("phalanx")
SUITE = Path(sys.prefix) / "mpi4py-tests"
#: mpi4py, built from its sources with ``phalanx mpicc``: for the standard's binary interface (libmpi_abi.so).
STANDARD = Path(sys.prefix) / "mpi4py-standard"
#: What is not run at two ranks or more, by a test's name, and why.
MISSING: dict[str, str] = {
    # At two ranks or more one begins Iagree before a Barrier and the others after it: collective operations of a
    # communicator in different orders, which the standard forbids (MPI 5.0, 6.12). Both sides wait for ever.
    "testIAgree": "an invalid program",
}
#: What is not run at all, by a test's name, and why.
RACES: dict[str, str] = {
    # It gives 101 tasks to a pool, ends it, and expects that the pool's thread has not begun the last one. On a busy
    # machine that thread may begin just when one task is left (1 in 400 here); no message is involved.
    "Pool.test_terminate": "a race of the test with itself",
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
LOCAL = ("Self", "TestDatatypeCreate", "TestDatatypePickle", "TestPackExternal", "TestUtilDTLib")


def chapter_options(chapter: str) -> list[str]:
    """The files of a chapter, or those of none."""
    return ["-i", CHAPTERS[chapter]] if chapter in CHAPTERS else ["-e", "|".join(CHAPTERS.values())]


def run_suite(ranks: int, *options: str, launch: Sequence[str] = (), standard: bool = False) -> str:
    """Runs the chosen files and returns what they print; fails with it if a test does."""
    left_out = [*RACES, *(MISSING if ranks > 1 else ()), *beyond_this_machine()]
    missing = [word for name in left_out for word in ("-x", name)]
    words = ["mpirun", "-n", str(ranks), *launch, "--no-prefix", python(), "main.py", *missing, *options]
    variables = os.environ | ({"PYTHONPATH": str(STANDARD)} if standard else {})
    done = subprocess.run([PHALANX, *words], cwd=SUITE, capture_output=True, text=True, timeout=600, env=variables)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[done.stderr.find("\n=====") :][:20000]
    assert not standard or f"({STANDARD}" in done.stderr, "another mpi4py was loaded"
    return done.stderr
