"""Delays Ctrl-C until the end of a step that must not stop half-way."""

from __future__ import annotations

import _thread
import signal
from collections.abc import Callable
from threading import get_ident, main_thread
from time import sleep
from types import FrameType, TracebackType
from typing import Any, TypeVar

T = TypeVar("T")

#: Delay in seconds after the block before a noted Ctrl-C is raised. By then the block's result has been returned.
MOMENT = 1e-3


class Uninterrupted:
    """A context that only records a Ctrl-C. :meth:`check` raises it. Otherwise it is raised a moment after the end of
    the block, when the caller already has the tuple that was taken inside.

    A second Ctrl-C is raised at once. It may leave remains that the garbage collector or the end of the connection
    clears away. The context does nothing outside the main thread, because Python raises Ctrl-C only there. It also does
    nothing inside another such context, which does the work."""

    __slots__ = ("_before", "_noted")

    def __init__(self) -> None:
        self._noted = False
        #: The previous signal handler; None if this context does nothing.
        self._before: Callable[[int, FrameType | None], Any] | None = None

    def __enter__(self) -> Uninterrupted:
        before = signal.getsignal(signal.SIGINT) if get_ident() == main_thread().ident else None
        if callable(before) and not isinstance(getattr(before, "__self__", None), Uninterrupted):
            self._before = before
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        assert self._before is not None
        if self._noted:
            self._noted = False
            signal.signal(signal.SIGINT, self._before)
            self._before(number, frame)
        else:
            self._noted = True
            _thread.start_new_thread(self._raise_later, ())

    def _raise_later(self) -> None:
        sleep(MOMENT)
        while self._noted:
            if getattr(signal.getsignal(signal.SIGINT), "__self__", None) is not self:
                self._noted = False
                _thread.interrupt_main()
            sleep(MOMENT)

    def check(self) -> None:
        """Raises a recorded Ctrl-C. Call it at a point where nothing would be lost."""
        if self._noted and self._before is not None:
            self._noted = False
            self._before(signal.SIGINT, None)

    def let(self, work: Callable[..., T], *arguments: Any) -> T:
        """Calls ``work`` with Ctrl-C enabled, because an interruption of it loses nothing."""
        if self._before is None:
            return work(*arguments)
        self.check()
        signal.signal(signal.SIGINT, self._before)
        try:
            return work(*arguments)
        finally:
            signal.signal(signal.SIGINT, self._note)
