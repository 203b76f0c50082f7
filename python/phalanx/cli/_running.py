"""Which process of this account runs a grid's hub or executor."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from phalanx._file_locks import try_lock, unlock
from phalanx._grids import Joined
from phalanx.errors import IdentityError

#: The file, in the folder of a grid, that the running process has locked. It tells the process and its command.
_FILE = "running"
#: Seconds between two looks at a process that ends.
_LOOK = 0.05


@contextmanager
def running(joined: Joined, command: str) -> Iterator[None]:
    """Says that this process runs the grid's hub or executor here. Raises IdentityError if another one does: two would
    have one identity, and write the same files."""
    file = joined.folder / _FILE
    with os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT, 0o600), "r+") as opened:
        if not try_lock(opened):
            raise IdentityError(f"the grid {joined.name} runs here already: {_told(opened.read())}")
        opened.truncate(0)
        opened.write(f"{os.getpid()} {command}\n")
        opened.flush()
        yield


def what_runs(joined: Joined) -> str | None:
    """The process that runs the grid's hub or executor here, for people; None: there is none."""
    with watched(joined) as process:
        return process.told()


class Process:
    """The process that runs a grid's hub or executor here, if there is one. It is known by its lock on a file, which
    may have been removed since it was opened."""

    def __init__(self, opened: TextIO | None) -> None:
        self._opened = opened

    def told(self) -> str | None:
        """The process and its command, for people; None: it has ended, or there was none."""
        if self._opened is None:
            return None
        if not try_lock(self._opened, shared=True):
            self._opened.seek(0)
            return _told(self._opened.read())
        unlock(self._opened)
        return None

    def outlives(self, seconds: float) -> str | None:
        """The same as :meth:`told`, after waiting so long at most for its end."""
        until = time.monotonic() + seconds
        while (told := self.told()) is not None and time.monotonic() < until:
            time.sleep(_LOOK)
        return told


@contextmanager
def watched(joined: Joined) -> Iterator[Process]:
    """The process that runs a grid's hub or executor here."""
    try:
        opened = (joined.folder / _FILE).open()
    except OSError:  # there is no such file
        yield Process(None)
        return
    with opened:
        yield Process(opened)


def _told(text: str) -> str:
    number, _, command = text.strip().partition(" ")
    return f"{command or 'a command'}, process {number or 'unknown'}"
