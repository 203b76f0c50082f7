"""What the tests of pilots run, and how they look at executors."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from marked import of_this_run


def square(number: int) -> int:
    return number * number


def where(number: int) -> str:
    """The folder of the interpreter's process, which tells interpreters apart, after a moment."""
    time.sleep(0.02)
    return str(os.getpid())


def executors() -> list[int]:
    """The processes of this test run that are executors of pilots, without those that they have forked."""
    found: dict[int, int] = {}
    for folder in of_this_run():
        with suppress(OSError, IndexError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if b"pilot" in words[2:5] and words[1:2] == [b"-c"]:
                found[int(folder.name)] = parent
    return [process for process, parent in sorted(found.items()) if parent not in found]
