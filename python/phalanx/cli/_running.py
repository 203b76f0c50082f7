"""Which process of this account runs a grid's hub or executor."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from phalanx._grids import Joined
from phalanx.errors import IdentityError

#: The file, in the folder of a grid, that the running process has locked. It tells the process and its command.
_FILE = "running"


@contextmanager
def running(joined: Joined, command: str) -> Iterator[None]:
    """Says that this process runs the grid's hub or executor here. Raises IdentityError if another one does: two would
    have one identity, and write the same files."""
    import fcntl  # there is none on Windows

    file = joined.folder / _FILE
    with os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT, 0o600), "r+") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise IdentityError(f"the grid {joined.name} runs here already: {_told(opened.read())}") from None
        opened.truncate(0)
        opened.write(f"{os.getpid()} {command}\n")
        opened.flush()
        yield


def what_runs(joined: Joined) -> str | None:
    """The process that runs the grid's hub or executor here, for people; None: there is none."""
    import fcntl

    try:
        with (joined.folder / _FILE).open() as opened:
            try:
                fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return _told(opened.read())
    except OSError:  # there is no such file
        pass
    return None


def _told(text: str) -> str:
    number, _, command = text.strip().partition(" ")
    return f"{command or 'a command'}, process {number or 'unknown'}"
