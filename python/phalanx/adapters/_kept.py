"""Managers that are kept between parallel calls, as loky keeps its executor.

A call in a loop finds interpreters that have begun, and have imported their modules. Calls with the same options share
a manager. The manager ends with the program, and when no call has used it for as long as its options say. It also ends
when a call with other options comes while no call uses it.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic
from typing import Any

from phalanx.manager import Manager

#: Seconds that a manager may wait for its first call.
GRACE = 10.0
#: Environment variables that libraries read when they are loaded.
THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)

_changed = threading.Condition(threading.RLock())
_kept: list[Kept] = []
#: After a fork, the managers of the parent process. This list keeps them alive, so that the child does not end them.
_parents: list[Any] = []
_watching = False


class Kept:
    """A manager that calls share.

    Parameters
    ----------
    options
        Those of :class:`phalanx.Manager`.
    idle
        Seconds after its last call until it ends.
    """

    def __init__(self, options: Mapping[str, Any], idle: float) -> None:
        self.options, self.idle, self.surroundings = options, idle, _surroundings()
        self.manager = Manager(**options)
        self.users = 0
        self.process = os.getpid()
        self.until = monotonic() + max(idle, GRACE)

    def serves(self, options: Mapping[str, Any], idle: float) -> bool:
        """Whether the manager suits a call with these options now."""
        return (
            not self.manager._submissions.closed
            and self.idle == idle
            and self.surroundings == _surroundings()
            and self.options.keys() == options.keys()
            and all(_same(value, options[name]) for name, value in self.options.items())
        )


class Loan:
    """The use of a kept manager by one parallel call, until it is given back or forgotten."""

    def __init__(self, kept: Kept) -> None:
        self.manager = kept.manager
        self._kept = kept
        self._give_back = weakref.finalize(self, _return, kept)
        self._give_back.atexit = False

    def give_back(self) -> None:
        """Ends the use. May be repeated."""
        self._give_back()

    def is_current(self) -> bool:
        """Whether further calls get this manager too."""
        return self._kept in _kept

    def discard(self) -> None:
        """Keeps later calls from using the manager, because work is under way there that no call needs any more. The
        manager ends with the calls that use it now."""
        with _changed, suppress(ValueError):
            _kept.remove(self._kept)


def find(options: Mapping[str, Any], idle: float) -> Kept:
    """The manager for calls with these options. It is made if there is none. Raises as :class:`phalanx.Manager`."""
    with _changed:
        for kept in _kept:
            if kept.serves(options, idle):
                return kept
        _end([kept for kept in _kept if not kept.users])
        kept = Kept(options, idle)
        _kept.append(kept)
        _watch()
        return kept


def borrow(options: Mapping[str, Any], idle: float) -> Loan:
    """The use of the manager for calls with these options."""
    with _changed:
        kept = find(options, idle)
        kept.users += 1
        return Loan(kept)


def end_idle() -> None:
    """Ends every manager that no call uses.

    Examples
    --------
    >>> import phalanx.adapters.joblib
    >>> phalanx.adapters.joblib.end_idle()
    """
    with _changed:
        _end([kept for kept in _kept if not kept.users])


def _return(kept: Kept) -> None:
    if os.getpid() != kept.process:
        return
    with _changed:
        kept.users -= 1
        kept.until = monotonic() + kept.idle
        if kept.users == 0 and kept not in _kept:
            kept.manager.close()  # it was discarded
        elif kept.idle < GRACE:
            _changed.notify_all()


def _end(some: list[Kept]) -> None:
    for kept in some:
        _kept.remove(kept)
        kept.manager.close()


def _watch() -> None:
    global _watching
    if not _watching:
        _watching = True
        threading.Thread(target=_end_in_time, name="phalanx-kept", daemon=True).start()
    _changed.notify_all()


def _end_in_time() -> None:
    """Ends managers when their idle time is over, until none is left."""
    global _watching
    with _changed:
        while _kept:
            now = monotonic()
            _end([kept for kept in _kept if not kept.users and kept.until <= now])
            nexts = [max(kept.idle, GRACE) if kept.users else kept.until - now for kept in _kept]
            if nexts:
                _changed.wait(min(nexts))
        _watching = False


def _surroundings() -> tuple[Any, ...]:
    """The settings that interpreters take over from their program when they begin."""
    limits = tuple(map(os.environ.get, THREADS))
    try:
        return os.getcwd(), tuple(sys.path), limits  # noqa: PTH109  (a string is compared)
    except OSError:  # the folder was removed
        return None, tuple(sys.path), limits


def _same(one: Any, other: Any) -> bool:
    """Whether two options are equal. In doubt they count as different."""
    if one is other:
        return True
    try:
        return type(one) is type(other) and bool(one == other or vars(one) == vars(other))
    except Exception:  # arrays, and what has no attributes
        return False


def _after_fork() -> None:
    global _changed, _watching
    _parents.append(_kept.copy())
    _kept.clear()
    _changed, _watching = threading.Condition(threading.RLock()), False


os.register_at_fork(after_in_child=_after_fork)
