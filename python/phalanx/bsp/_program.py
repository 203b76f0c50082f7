"""The program of this process: its beginning, its supersteps, its end."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import NoReturn

from phalanx import _native
from phalanx.errors import BspError

#: What the launcher tells a process, in its environment. The library takes it away; Python has a copy of its own.
TOLD = ("PHALANX_RANK", "PHALANX_CHECKPOINTS", "PHALANX_CHECKPOINT_EVERY", "PHALANX_MOVE_SLOW")

_running: _native.Bsp | None = None
_ended = False


class Program:
    """The program, from :func:`begin` on. As a context it ends at the end of the block, unless that raised: an
    exception that nobody handles ends the program on all processes."""

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not _ended:
            end()


def program() -> _native.Bsp:
    """The native part of the running program."""
    if _running is None:
        raise BspError("the program has ended" if _ended else "call phalanx.bsp.begin() first")
    return _running


def begin(processes: int | None = None, *, checkpoint: int = 0) -> Program:
    """Begins the program, on all processes that were started, or on as many as process 0 says.

    A process that is one too many waits here for the others' end, and then exits. A program that was not started by
    ``phalanx bsprun`` has one process.

    Parameters
    ----------
    processes
        How many processes take part; by default all that were started. Only what process 0 says counts.
    checkpoint
        Number of supersteps between two checkpoints, which :func:`phalanx.bsp.checkpoint` makes; 0: none. What
        ``phalanx bsprun --checkpoint`` says takes precedence.

    Returns
    -------
    Program
        A context manager, at whose end :func:`end` is called.

    Raises
    ------
    BspError
        It was called before, or a number makes no sense.

    Examples
    --------
    >>> from phalanx import bsp
    >>> with bsp.begin():
    ...     print(bsp.pid(), "of", bsp.nprocs())
    0 of 1
    """
    global _running
    if _running is not None or _ended:
        raise BspError("begin: it was called before")
    if processes is not None and not 1 <= processes < 2**32:
        raise BspError(f"begin: {processes} processes make no program")
    if not 0 <= checkpoint < 2**32:
        raise BspError(f"begin: checkpoint={checkpoint} is no number of supersteps")
    _running = _native.Bsp.begin(processes, checkpoint)
    for name in TOLD:
        os.environ.pop(name, None)
    if _running is None:
        sys.exit()
    return Program()


def end() -> None:
    """Ends the program at this process, after all processes have called this. It also ends the superstep.

    Examples
    --------
    >>> from phalanx import bsp
    >>> program = bsp.begin()
    >>> bsp.end()
    """
    global _running, _ended
    program().end()
    _running, _ended = None, True


def nprocs() -> int:
    """How many processes the program has.

    Returns
    -------
    int

    Examples
    --------
    >>> from phalanx import bsp
    >>> with bsp.begin():
    ...     print(bsp.nprocs())
    1
    """
    return program().nprocs()


def pid() -> int:
    """The number of this process, from 0.

    Returns
    -------
    int

    Examples
    --------
    >>> from phalanx import bsp
    >>> with bsp.begin():
    ...     print(bsp.pid())
    0
    """
    return program().pid()


def time() -> float:
    """Seconds since this process began.

    Returns
    -------
    float

    Examples
    --------
    >>> from phalanx import bsp
    >>> with bsp.begin():
    ...     print(bsp.time() >= 0)
    True
    """
    return program().time()


def sync() -> None:
    """Ends the superstep: waits for all processes and carries out their requests.

    Each process does this in order. It reads the data that others get. It writes the data that is put, that of lower
    pids first, that of one process in the order of its calls. It writes the data that it gets itself. Then
    registrations and the size of tags change. After that the sent messages are in the queue, and those of the superstep
    before are gone.

    Examples
    --------
    >>> from phalanx import bsp
    >>> with bsp.begin():
    ...     bsp.send(0, "hello")
    ...     bsp.sync()
    ...     print(bsp.move())
    hello
    """
    program().sync()


def abort(reason: str) -> NoReturn:
    """Ends the program on all processes at once and shows the reason.

    Parameters
    ----------
    reason : str
        What is shown, behind the number of this process.

    Examples
    --------
    >>> from phalanx import bsp
    >>> with bsp.begin():
    ...     if bsp.nprocs() > 1000:
    ...         bsp.abort("too many processes for this input")
    """
    sys.stdout.flush()
    program().abort(reason)
