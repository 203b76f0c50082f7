"""Runs of calls: what sends the calls of a function, as many at a time as the manager takes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import count, islice, repeat, starmap
from time import perf_counter
from typing import TYPE_CHECKING, Any

from phalanx import _native
from phalanx._atomic import at_once
from phalanx._futures import Submitted
from phalanx._outcomes import is_ctrl_c, words
from phalanx._tokens import Token, are_plain, pack, pack_plain, short
from phalanx.errors import StagingError

if TYPE_CHECKING:
    from phalanx._tokens import Packed

#: Calls are sent this many seconds ahead of the answers; what is not sent yet can be cancelled.
AHEAD = 0.01
#: Batches for each interpreter that are sent ahead in any case.
SPARE = 2
#: So many calls that wait are sent off without an answer having come. Sending costs some 20 µs, at this end: more calls
#: would not make it much cheaper for each, and interpreters would wait for the first one.
GATHERED = 256
#: Calls within so many seconds of the one before are a burst; seconds after its last call for which what is gathered
#: of it waits for more. Long against a submit (3 µs), short against a round trip.
GAP = 0.0001
#: Seconds between two looks of the thread that collects, while a burst goes on. It needs the same interpreter lock as
#: the thread that submits: with a look for each answer, both together reach half of the rate.
PAUSE = 0.001
#: So many calls of a burst are sent one by one, if interpreters can take them: only a longer one is worth waiting for.
SHORT_BURST = 16


class Program:
    """A function at the manager: for calls as long as it is staged, and for the maps that are under way."""

    def __init__(self, name: str, key: Any, size: int, number: int) -> None:
        self.name = name
        self.key = key
        self.size = size
        self.number = number
        self.staged = True
        #: The runs of its maps.
        self.maps: set[int] = set()


class Run:
    """An open run of the manager. All methods are to be called under one lock."""

    def __init__(self, native: _native.Manager, mailbox: _native.Mailbox, program: Program, ahead: float) -> None:
        self._native = native
        self.program = program
        # A call is never made twice only because it takes long: others may come that need the interpreter.
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
        #: Calls are held back to travel with others.
        self.holds = False

    def waits(self) -> bool:
        """Whether calls are there that were not sent."""
        raise NotImplementedError

    def is_held(self) -> bool:
        """Whether they wait for others to travel with."""
        return False

    def is_in_burst(self) -> bool:
        """Whether many calls come at this moment, without waiting for answers."""
        return False

    def is_in_series(self) -> bool:
        """Whether many calls come one after the other at this moment, also such as wait for the answer before."""
        return False

    def has_left(self) -> bool:
        """Whether an answer is still to come."""
        raise NotImplementedError

    def feed(self, room: int) -> None:
        """Sends up to so many calls."""
        raise NotImplementedError

    def room(self) -> int:
        """How many calls can be sent now."""
        return self._native.room(self.number, 0.0)

    def send(self) -> None:
        """Sends what waits as far as there is room."""
        if self._sending:
            return  # pickling an argument made another call
        try:
            self._sending = True
            self.holds = False
            while self.waits() and (room := self.room()):
                self.feed(room)
        finally:
            self._sending = False


class Calls(Run):
    """The single calls of one function, each with a future.

    As many calls as interpreters can take at once are sent as they come. Those of a burst are gathered: their number
    sends them off, or its end, which the thread notices that collects.
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
        """Takes a call, and sends it unless it is better gathered with others; whether it is the first of these."""
        now = perf_counter()
        pending = self.pending
        # A call that follows the answer to the one before is no burst, however soon it comes.
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
            # Where there was no room, an answer makes some: asking with each call would only cost time.
            self._next_full = len(pending) + GATHERED
        else:
            if len(pending) > 1:
                return False
            self._few = SPARE * self._native.interpreters  # a contract on time changes it
            self.holds = True
            return True
        self._last = perf_counter()  # sending is no gap between calls
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
        """How many calls can be sent now. For a single one there always is room if nothing is under way."""
        return 1 if not self.sent and len(self.pending) == 1 else super().room()

    def feed(self, room: int) -> None:
        """Sends up to so many calls. They stay pending until that is done."""
        batch = list(islice(self.pending, room))
        futures, packed = self._begin(batch)
        at_once(
            map(self._native.feed, (self.number,), (packed,)) if futures else (),
            map(self.sent.update, (zip(islice(self._numbers, len(futures)), futures, strict=True),)),
            starmap(self.pending.popleft, repeat((), len(batch))),
        )

    def answered(self, indices: range) -> tuple[list[Submitted], Iterable[Any]]:
        """The futures of the calls with these numbers, and the step that takes them off what was sent."""
        self._next_full = GATHERED
        return list(map(self.sent.__getitem__, indices)), map(self.sent.pop, indices)

    def _begin(self, batch: list[tuple[Submitted, Any]]) -> tuple[list[Submitted], Packed]:
        """The calls of a batch that are to be made, and their tokens."""
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
    """Arguments as a token, or the error that says why they cannot travel. Raises nothing but the user's Ctrl-C."""
    try:
        return Token(arguments)
    except BaseException as error:
        if is_ctrl_c(error):
            raise
        unsent = StagingError(f"the task {short(arguments)} cannot be pickled: {words(error)}")
        unsent.__cause__ = error
        return unsent
