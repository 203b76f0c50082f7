"""The course of a computation: how many results came, how far it is, and whether it is to end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from phalanx._shown import safe

if TYPE_CHECKING:
    from phalanx import _native
    from phalanx._progress import Bar


#: Maximum characters of a program's name.
LONGEST_NAME = 80


class Course:
    """What is known of a computation from outside while a thread reads it.

    Parameters
    ----------
    name
        Returns its name. That may be long, or even fail, for a program that is nested deep.
    total
        The number of tasks, if it is known.
    bar
        What shows the progress, if that was asked for.
    """

    def __init__(self, name: Callable[[], str], total: int | None, bar: Bar | None = None) -> None:
        self._name = name
        self.total = total
        #: Results that were received. A part of the last ones may not have been read yet.
        self.received = 0
        #: Whether the computation is to end, although its reader waits.
        self.is_stopped = False
        #: Whether all results came.
        self.is_complete = False
        self._bar = bar
        self._mailbox: _native.Mailbox | None = None

    @property
    def program(self) -> str:
        """The name of the program, shortened."""
        name = safe(self._name, "a program")
        return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"

    def begin(self, mailbox: _native.Mailbox) -> None:
        """The first result is asked for. They come to this mailbox."""
        self._mailbox = mailbox
        if self._bar is not None:
            self._bar.begin(self.program, self.total)

    def came(self, results: int) -> None:
        """So many more results came."""
        self.received += results
        if self._bar is not None:
            self._bar.advance(results)

    def complete(self) -> None:
        """All results came."""
        self.is_complete = True

    def end(self) -> None:
        """No more results are read."""
        if self._bar is not None:
            self._bar.end()

    def stop(self) -> None:
        """Ends the computation, also while another thread waits for its results."""
        self.is_stopped = True
        if self._mailbox is not None:
            self._mailbox.nudge()
