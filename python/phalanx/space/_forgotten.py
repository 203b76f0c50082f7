"""Ends requests and transactions that the program has dropped.

The garbage collector runs in any thread at any moment, even while that thread holds a lock that the ending needs. So
another thread ends them.
"""

from __future__ import annotations

import _thread
import os
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

from phalanx.space._uninterrupted import Uninterrupted

#: SimpleQueue.put is reentrant: a finalizer may call it while the same thread is inside it (its documentation).
_forgotten: SimpleQueue[Callable[[], object]] = SimpleQueue()
#: Held while a thread works on the queue. It is only ever tried, never waited for.
_busy = _thread.allocate_lock()


def end_later(end: Callable[[], object]) -> None:
    """Calls ``end`` soon in another thread, and ignores its exceptions. It never blocks."""
    with Uninterrupted():  # a finalizer would swallow Ctrl-C
        _forgotten.put(end)
        if _busy.acquire(blocking=False):
            try:
                _thread.start_new_thread(_end_all, ())  # not threading.Thread, which takes locks
            except RuntimeError:  # the interpreter is shutting down, which ends everything
                _busy.release()


def _end_all() -> None:
    while True:
        try:
            while True:
                end = _forgotten.get_nowait()
                with suppress(Exception):  # the space may have been closed, or be gone
                    end()
                del end
        except Empty:
            _busy.release()
        if _forgotten.empty() or not _busy.acquire(blocking=False):
            return


def _was_forked() -> None:
    """Gives a forked child a queue of its own, because the parent ends the entries of the parent."""
    global _forgotten, _busy
    _forgotten, _busy = SimpleQueue(), _thread.allocate_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_was_forked)
