"""The standard streams of commands: a reader may have gone, and a terminal takes some signs for commands."""

from __future__ import annotations

import os
import select
import sys
from typing import TextIO

from phalanx import _native

#: A pipe whose reader has gone, as a shell says it.
BROKEN_PIPE = 141


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person sees what is printed there; None: it is closed."""
    return stream is not None and stream.isatty()


def drop_output(stream: TextIO) -> None:
    """Discards what is printed to a stream from now on, because no reader is left."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def drop_unread() -> bool:
    """The same for standard output and standard error where their reader has gone; whether one has."""
    broken = [stream for stream in (sys.stdout, sys.stderr) if stream is not None and _is_unread(stream)]
    for stream in broken:
        drop_output(stream)
    return bool(broken)


def _is_unread(stream: TextIO) -> bool:
    if not hasattr(select, "poll"):
        return True  # this system does not tell
    try:
        poll = select.poll()
        poll.register(stream.fileno(), 0)
    except (OSError, ValueError):
        return False  # it is closed, or none of the system's
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def printable(text: str) -> str:
    """A name or a reason without what a terminal would take for a command: the other end may have chosen it."""
    try:
        encoded = text.encode("utf-8", "surrogateescape")  # as names of files come from the system
    except UnicodeEncodeError:
        encoded = text.encode("utf-8", "backslashreplace")
    return _native.escape(encoded, one=True).decode()
