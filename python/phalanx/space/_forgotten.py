"""What was thrown away and is to be ended: requests, transactions.

The garbage collector runs in any thread at any moment, also where a lock is held that ending needs. So another thread
ends it.
"""

from __future__ import annotations

import _thread
import os
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

from phalanx.space._uninterrupted import Uninterrupted

#: SimpleQueue's put may be called by a finalizer while the same thread is in it (its documentation).
_forgotten: SimpleQueue[Callable[[], object]] = SimpleQueue()
#: Held while a thread ends what was forgotten; never waited for.
_busy = _thread.allocate_lock()


def end_later(end: Callable[[], object]) -> None:
    """Calls ``end`` soon, whatever it raises, in a thread that waits for nobody."""
    with Uninterrupted():  # a finalizer would swallow Ctrl-C
        _forgotten.put(end)
        if _busy.acquire(blocking=False):
            try:
                _thread.start_new_thread(_end_all, ())  # threading's would take locks
            except RuntimeError:  # the interpreter ends, and everything with it
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
    """The parent's thread ends what is the parent's."""
    global _forgotten, _busy
    _forgotten, _busy = SimpleQueue(), _thread.allocate_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_was_forked)
