"""Checkpoints: a program that loses a process or a machine goes on from the last one, without anybody's help."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

from phalanx.bsp._program import program
from phalanx.errors import BspError


class State(SimpleNamespace):
    """What a process has to remember beside its registered arrays: ``State(step=0, best=None)``.

    Its attributes are any objects that can be pickled.
    """


def checkpoint(state: State | None = None) -> None:
    """Ends the superstep as ``sync`` does, at a place from which the program can go on after a loss.

    So many supersteps after the last checkpoint as ``begin(checkpoint=...)`` or ``bsprun --checkpoint`` say, each
    process saves what it has registered, the messages of its queue and ``state``: in a file on its machine, and on
    another one, if the program has more. A checkpoint counts when all processes have done so.

    A program that is started again runs from its top and registers the same as before. Its first call of this brings
    back the newest checkpoint that counts: registered arrays and ``state`` are filled, messages are in the queue.
    An array that is an attribute is filled in place if it has kept its shape. All processes call this together.
    """
    found = program().checkpoint()
    if isinstance(found, bytes):
        _fill(state, pickle.loads(found))
    elif found:
        program().save(_pickled(state))


def leave_machine() -> None:
    """Asks for a place on another machine for this process, and for those that are with it on its machine.

    At the next :func:`checkpoint` all processes save, whether it is time for that or not, and the program is started
    again with that machine's processes elsewhere. Any process may call this. Where no other machine has places,
    ``phalanx bsprun`` says so, and the program goes on where it is. A machine that was left is not come back to.
    Raises BspError where the program makes no checkpoints, or all processes are on one machine.
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
    """What is registered, or known by another name, stays the same array."""
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
