"""Checkpoints: a program that loses a process or a machine restarts from the last one by itself."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

from phalanx.bsp._program import program
from phalanx.errors import BspError


class State(SimpleNamespace):
    """The state of a process in addition to its registered arrays: ``State(step=0, best=None)``.

    Its attributes are any objects that can be pickled.

    Examples
    --------
    >>> from phalanx import bsp
    >>> state = bsp.State(step=0, best=None)
    >>> state.step += 1
    >>> state.step
    1
    """


def checkpoint(state: State | None = None) -> None:
    """Ends the superstep as ``sync`` does, at a place where the program can restart after a loss.

    ``begin(checkpoint=...)`` or ``bsprun --checkpoint`` set the number of supersteps between two checkpoints. When it
    is reached, each process saves its registered arrays, the messages of its queue and ``state``. They go to a file on
    its machine, and to another machine if the program has more. A checkpoint is valid when all processes have saved.

    A restarted program runs from its top and registers the same as before. Its first call of this function restores the
    newest valid checkpoint: registered arrays and ``state`` are filled, messages are in the queue. An array that is an
    attribute of ``state`` is filled in place if it has kept its shape. All processes call this together.

    Parameters
    ----------
    state : State, optional
        What this process needs beside its registered arrays.

    Examples
    --------
    >>> from phalanx import bsp
    >>> with bsp.begin(checkpoint=10):
    ...     state = bsp.State(step=0)
    ...     while state.step < 3:
    ...         bsp.checkpoint(state)
    ...         state.step += 1
    ...     print(state.step)
    3
    """
    found = program().checkpoint()
    if isinstance(found, bytes):
        _fill(state, pickle.loads(found))
    elif found:
        program().save(_pickled(state))


def leave_machine() -> None:
    """Asks to move this process, and the other processes on its machine, to another machine.

    At the next :func:`checkpoint` all processes save, even if it is not time for that. Then the program restarts with
    the processes of that machine elsewhere. Any process may call this. If no other machine has places,
    ``phalanx bsprun`` says so, and the program goes on where it is. It never returns to a machine that it has left.

    Raises
    ------
    BspError
        The program makes no checkpoints, or all processes are on one machine.

    Examples
    --------
    >>> from phalanx import bsp
    >>> with bsp.begin(checkpoint=10):  # doctest: +SKIP
    ...     while state.step < 1000:
    ...         bsp.checkpoint(state)
    ...         if somebody_works_here():
    ...             bsp.leave_machine()
    """
    program().leave_machine()


def _pickled(state: State | None) -> bytes:
    try:
        return pickle.dumps(None if state is None else vars(state), protocol=5)
    except Exception as error:
        raise BspError(f"checkpoint: the state cannot be pickled: {error}") from error


def _fill(state: State | None, saved: dict[str, Any] | None) -> None:
    if (state is None) != (saved is None):
        raise BspError(
            "checkpoint: the state is given in every call or in none, also after the program was started again"
        )
    if state is None or saved is None:
        return
    own = vars(state)
    for name, value in saved.items():
        if not _fill_in_place(own.get(name), value):
            own[name] = value
    for name in own.keys() - saved.keys():
        del own[name]


def _fill_in_place(array: Any, value: Any) -> bool:
    """Copies the value into the array, so that a registered array, or one with other references, stays the same."""
    try:
        into, source = memoryview(array), memoryview(value)
    except TypeError:
        return False
    alike = (into.format, into.shape) == (source.format, source.shape) and into.c_contiguous and source.c_contiguous
    if not alike or into.readonly or "O" in into.format:
        return False
    if into.nbytes:
        into.cast("B")[:] = source.cast("B")
    return True
