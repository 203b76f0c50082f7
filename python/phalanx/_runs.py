"""Runs of calls: a run sends the calls of a function, as many at a time as the manager accepts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import count, islice, repeat, starmap
from time import perf_counter
from typing import TYPE_CHECKING, Any

from phalanx import _native
from phalanx._atomic import at_once
from phalanx._futures import Submitted
from phalanx._outcomes import is_ctrl_c
from phalanx._tokens import Token, are_plain, pack, pack_plain, short
from phalanx.errors import StagingError, in_one_line

if TYPE_CHECKING:
    from phalanx._tokens import Packed

#: Seconds of work that is sent ahead of the answers. A larger value hides longer delays, but calls that were not sent
#: yet can still be cancelled.
AHEAD = 0.01
#: Batches for each interpreter that are always sent ahead.
SPARE = 2
#: Number of waiting calls that are sent even before an answer has come. Sending costs about 20 µs here. More calls
#: would not make each much cheaper, and the interpreters would wait longer for the first one.
GATHERED = 256
#: Maximum seconds between two calls of a burst. Gathered calls also wait this long after the last call for more. It is
#: long compared with a submit (3 µs) and short compared with a round trip.
GAP = 0.0001
#: Seconds between two checks of the collecting thread during a burst. It needs the same interpreter lock as the
#: submitting thread. With a check for each answer both together reach half of the rate.
PAUSE = 0.001
#: Number of calls of a burst that are sent one by one if interpreters can take them. Only a longer burst is worth
#: gathering.
SHORT_BURST = 16


class Program:
    """A function at the manager. It serves calls as long as it is staged, and the maps that are under way."""

    def __init__(self, name: str, key: Any, size: int, number: int) -> None:
        self.name = name
        self.key = key
        self.size = size
        self.number = number
        self.staged = True
        #: The runs of its maps.
        self.maps: set[int] = set()


class Run:
    """An open run of the manager. The caller of any method must hold the lock of the submissions."""

    def __init__(self, native: _native.Manager, mailbox: _native.Mailbox, program: Program, ahead: float) -> None:
        self._native = native
        self.program = program
        # No stragglers: a slow call is not fired a second time, because later calls may need the interpreter.
        self.number = native.open(
            program.number,
            mailbox,
            ordered=False,
            ahead=ahead,
            spare=SPARE,
            stragglers=False,
            contract=False,
            size=None,
        )
        self._sending = False
        #: Whether calls are held back to travel with others.
        self.holds = False

    def waits(self) -> bool:
        """Whether there are calls that were not sent."""
        raise NotImplementedError

    def is_held(self) -> bool:
        """Whether calls wait for others to travel with."""
        return False

    def is_in_burst(self) -> bool:
        """Whether many calls arrive now without waiting for answers."""
        return False

    def is_in_series(self) -> bool:
        """Whether many calls arrive now one after the other, including calls that wait for the previous answer."""
        return False

    def has_left(self) -> bool:
        """Whether an answer is still to come."""
        raise NotImplementedError

    def feed(self, room: int) -> None:
        """Sends up to ``room`` calls."""
        raise NotImplementedError

    def room(self) -> int:
        """How many calls can be sent now."""
        return self._native.room(self.number, 0.0)

    def send(self) -> None:
        """Sends waiting calls as far as there is room."""
        if self._sending:
            return  # a nested call: pickling an argument has submitted something
        try:
            self._sending = True
            self.holds = False
            while self.waits() and (room := self.room()):
                self.feed(room)
        finally:
            self._sending = False


class Calls(Run):
    """The single calls of one function, each with a future.

    Calls are sent at once as long as interpreters can take them. The calls of a burst are gathered. They are sent when
    there are ``GATHERED`` of them, or at the end of the burst, which the collecting thread notices.
    """

    def __init__(
        self,
        native: _native.Manager,
        mailbox: _native.Mailbox,
        program: Program,
        unsent: Callable[[Submitted, StagingError], None],
    ) -> None:
        super().__init__(native, mailbox, program, AHEAD)
        self.pending: deque[tuple[Submitted, Any]] = deque()
        self.sent: dict[int, Submitted] = {}
        self._numbers = count()
        self._unsent = unsent
        self._few = SPARE * native.interpreters
        self._next_full = GATHERED
        #: When the last call came, and how many of its burst had come then.
        self._last = 0.0
        self._burst = 0
        self._series = 0

    def add(self, future: Submitted, token: Any) -> bool:
        """Adds a call. It is sent at once, or gathered with others. Returns whether it is the first gathered one."""
        now = perf_counter()
        pending = self.pending
        # A call that follows the answer to the previous call is no burst, however soon it comes.
        is_alone = not self.sent and not pending
        if now - self._last > GAP:
            self._burst = 1
        elif not is_alone:
            self._burst += 1
        self._series = 1 if now - self._last > PAUSE else self._series + 1
        self._last = now
        pending.append((future, token))
        if is_alone or (self._burst <= SHORT_BURST and len(self.sent) < self._few):
            self.send()
        elif len(pending) >= self._next_full:
            self.send()
            # If there was no room, an answer will make some. Asking with each call would only cost time.
            self._next_full = len(pending) + GATHERED
        else:
            if len(pending) > 1:
                return False
            self._few = SPARE * self._native.interpreters  # Throughput and Deadline change this number
            self.holds = True
            return True
        self._last = perf_counter()  # the time for sending does not count as a gap between calls
        return False

    def is_held(self) -> bool:
        return 0 < len(self.pending) < GATHERED and perf_counter() - self._last < GAP

    def is_in_burst(self) -> bool:
        return self._burst > SHORT_BURST and perf_counter() - self._last < PAUSE

    def is_in_series(self) -> bool:
        return self._series > SHORT_BURST and perf_counter() - self._last < PAUSE

    def waits(self) -> bool:
        return bool(self.pending)

    def has_left(self) -> bool:
        return bool(self.pending or self.sent)

    def room(self) -> int:
        """How many calls can be sent now. A single call always has room if no other is under way."""
        return 1 if not self.sent and len(self.pending) == 1 else super().room()

    def feed(self, room: int) -> None:
        """Sends up to ``room`` calls. They stay pending until they are sent."""
        batch = list(islice(self.pending, room))
        futures, packed = self._begin(batch)
        at_once(
            map(self._native.feed, (self.number,), (packed,)) if futures else (),
            map(self.sent.update, (zip(islice(self._numbers, len(futures)), futures, strict=True),)),
            starmap(self.pending.popleft, repeat((), len(batch))),
        )

    def answered(self, indices: range) -> tuple[list[Submitted], Iterable[Any]]:
        """The futures of the calls with these numbers, and the step that removes them from ``sent``."""
        self._next_full = GATHERED
        return list(map(self.sent.__getitem__, indices)), map(self.sent.pop, indices)

    def _begin(self, batch: list[tuple[Submitted, Any]]) -> tuple[list[Submitted], Packed]:
        """The calls of a batch that were not cancelled and can be pickled, and their tokens."""
        calls = [call for call in batch if call[0].begin()]
        tokens = [token for _, token in calls]
        for future, token in calls:
            future.sent = token
        if are_plain(tokens):
            return [future for future, _ in calls], pack_plain(tokens)
        pickled = [(future, token) for future, token in zip(calls, map(try_token, tokens), strict=True)]
        for (future, _), token in pickled:
            if isinstance(token, StagingError):
                self._unsent(future, token)
        good = [(future, token) for (future, _), token in pickled if not isinstance(token, StagingError)]
        return [future for future, _ in good], pack([token for _, token in good])


def try_token(arguments: Any) -> Token | StagingError:
    """Arguments as a token, or the error that says why they cannot travel. Raises only the user's Ctrl-C."""
    try:
        return Token(arguments)
    except BaseException as error:
        if is_ctrl_c(error):
            raise
        unsent = StagingError(f"the task {short(arguments)} cannot be pickled: {in_one_line(error)}")
        unsent.__cause__ = error
        return unsent
