"""The processes of this run of the tests, told by a variable that all of them inherit.

A module of its own: a helper that imports ``conftest`` gets a second copy of it, with other constants.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

#: All processes that a test starts inherit it, so they are found even when their parent is gone.
MARK = "PHALANX_TEST_RUN"


def is_marked(folder: Path) -> bool:
    """Whether a folder of /proc is that of a process of this run. Raises OSError if the process is gone."""
    return f"{MARK}={os.environ[MARK]}".encode() in (folder / "environ").read_bytes().split(b"\0")


def of_this_run() -> list[Path]:
    """The folders in /proc of the processes of this run, but for this one."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if is_marked(folder) and int(folder.name) != os.getpid():
                found.append(folder)
    return found
