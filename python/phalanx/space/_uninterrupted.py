"""Ctrl-C that waits until a step is over which must not be left half done."""

from __future__ import annotations

import _thread
import signal
from collections.abc import Callable
from threading import get_ident, main_thread
from time import sleep
from types import FrameType, TracebackType
from typing import Any, TypeVar

T = TypeVar("T")

#: Seconds after which a Ctrl-C is raised that came inside, when what was done inside has been returned.
MOMENT = 1e-3


class Uninterrupted:
    """A context in which a Ctrl-C is noted only. :meth:`check` raises it; otherwise it is raised a moment after the
    end, so that what was taken inside is somebody's. A second one is raised at once: it may leave behind what the next
    collection of garbage or the end of the connection clears away. In other threads than the main one, where no
    Ctrl-C is raised, it does nothing; nor inside of another one, which does it."""

    __slots__ = ("_before", "_noted")

    def __init__(self) -> None:
        self._noted = False
        #: The handler of the signal; None: there is nothing to do here.
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
        """Raises a Ctrl-C that came: nothing has been done yet that would be lost."""
        if self._noted and self._before is not None:
            self._noted = False
            self._before(signal.SIGINT, None)

    def let(self, work: Callable[..., T], *arguments: Any) -> T:
        """Does something that a Ctrl-C may end, because nothing is lost by that."""
        if self._before is None:
            return work(*arguments)
        self.check()
        signal.signal(signal.SIGINT, self._before)
        try:
            return work(*arguments)
        finally:
            signal.signal(signal.SIGINT, self._note)
