"""The calls of one map: batches on their way to interpreters and results on their way back, without futures."""

from __future__ import annotations

import weakref
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from itertools import islice, repeat, starmap
from time import monotonic, perf_counter
from typing import Any

from phalanx import _native
from phalanx._atomic import at_once
from phalanx._futures import Submitted
from phalanx._outcomes import SETTLING, failure, unreadable
from phalanx._runs import Program, Run, try_token
from phalanx._tokens import are_plain, pack, unpack
from phalanx.errors import StagingError

#: Seconds of work that is sent ahead of the answers, so that interpreters stay busy while this process is busy.
AHEAD = 0.05
#: Seconds after which calls that were read from an iterator are sent, however few they are.
GATHER = 0.001

#: Immutable collections. Unsent items may stay in them, because they cannot change.
_LASTING = (range, tuple, str, bytes)
#: Collections whose next item is available at once. A user's own class is not among them, because it may block.
_AT_HAND = (*_LASTING, list, dict, set, frozenset)


def at_hand(iterables: Iterable[Iterable[Any]]) -> Iterator[tuple[Any, ...]] | None:
    """The arguments of the calls as they are now. None if the items must be read one by one from the iterables."""
    if not all(type(iterable) in _AT_HAND for iterable in iterables):
        return None
    return zip(*(it if type(it) in _LASTING else list(it) for it in iterables), strict=False)


class Mapped(Run):
    """A map under way. All its calls are made, whether its results are read or not, unless it is closed.

    A *position* counts the calls of the map, a *number* the calls of the run. They differ by the calls that could not
    be sent.
    """

    def __init__(
        self,
        native: _native.Manager,
        mailbox: _native.Mailbox,
        program: Program,
        wake: Callable[[Submitted], None],
        most: int | None,
    ) -> None:
        super().__init__(native, mailbox, program, AHEAD)
        #: Maximum number of calls that travel together; None: the engine decides.
        self._most = most
        self._wake = wake
        self._tasks: Iterator[tuple[Any, ...]] = iter(())
        #: Calls that were read from an iterator.
        self._queue: deque[tuple[Any, ...]] = deque()
        self._complete = False
        #: Calls that are about to be sent.
        self._hand: list[Any] = []
        #: Number of calls that were sent, and of calls with an outcome.
        self._fed = 0
        self._came = 0
        #: For each call that could not be sent: the number of the call after it.
        self._skipped: list[int] = []
        self._finished = False
        #: Unread outcomes, by the position of their first call.
        self._arrived: dict[int, tuple[str, int, Any]] = {}
        self._position = 0
        #: Whether no more outcomes will come. The results end after the unread ones, with the error if there is one.
        self._ended = False
        self._error: BaseException | None = None
        #: The future of a waiting reader. It is settled when the next result is there.
        self.awaited: Submitted | None = None

    def take_all(self, tasks: Iterator[tuple[Any, ...]]) -> None:
        """Takes calls whose arguments are all available."""
        self._tasks, self._complete = tasks, True

    def take_while(self, tasks: Iterator[tuple[Any, ...]], go_on: Callable[[], None]) -> None:
        """Takes calls as they come, and calls ``go_on`` about every millisecond. ``go_on`` sends them, or raises."""
        try:
            due = 0.0
            for task in tasks:
                self._queue.append(task)
                if perf_counter() > due:
                    go_on()
                    due = perf_counter() + GATHER
        finally:
            self._complete = True

    def waits(self) -> bool:
        return bool(self._hand or self._queue) or (self._complete and not self._finished)

    def has_left(self) -> bool:
        return not self._ended

    def feed(self, room: int) -> None:
        """Sends up to ``room`` calls. They stay in ``_hand`` until they are sent."""
        # The engine may split calls that are fed together. It never joins separate ones, so this limits a batch.
        room = room if self._most is None else min(room, self._most)
        missing = max(room - len(self._hand), 0)
        self._hand.extend(islice(self._tasks, missing))
        missing = min(room - len(self._hand), len(self._queue))
        self._hand.extend(starmap(self._queue.popleft, repeat((), missing)))
        tokens, error = self._tokens_of(self._hand)
        count, done = len(tokens), len(tokens) + (error is not None)
        position = self._fed + len(self._skipped) + count
        at_once(
            map(self._native.feed, (self.number,), (pack(tokens),)) if tokens else (),
            map(setattr, (self,), ("_fed",), (self._fed + count,)),
            map(self._arrived.__setitem__, (position,), (("unsent", 0, error),)) if error else (),
            map(self._skipped.append, (self._fed + count,)) if error else (),
            map(self._hand.__delitem__, (slice(done),)),
        )
        if error is None and self._complete and not self._hand and not self._queue and count < room:
            self._finished = True
            self._forget_tasks()  # otherwise zip would keep the last items alive

    def answer(self, kind: str, first: int, what: Any, received: Iterable[Any]) -> None:
        """Takes an outcome. ``received`` is the step that removes it from the received outcomes."""
        if kind in SETTLING:
            came = self._came + (what[0] if kind == "results" else 1)
            at_once(
                map(self._arrived.__setitem__, (first + bisect_right(self._skipped, first),), ((kind, first, what),)),
                map(setattr, (self,), ("_came",), (came,)),
                received,
            )
        else:
            self.end(failure(kind, 0, what))
            at_once(received)

    def look(self) -> None:
        """Wakes the reader if its next result, or the end, is there."""
        self._ended = self._ended or (self._finished and self._came == self._fed)
        if self.awaited is not None and self.is_there():
            self._wake(self.awaited)
            self.awaited = None

    def cancel(self) -> None:
        """Cancels calls that were not sent."""
        if not self._finished:
            self._error = CancelledError()
            self._finished = True
            self._forget_tasks()

    def end(self, error: BaseException | None) -> None:
        """Takes no more outcomes. The error stands for the missing ones."""
        if not self._ended:
            self._ended, self._finished = True, True
            self._error = error
            self._forget_tasks()
            self.look()

    def is_there(self) -> bool:
        """Whether the next result, or the end, is there."""
        return self._ended or self._position in self._arrived

    def results(self, wait: Callable[[], None], close: Callable[[], None]) -> Generator[Any, None, None]:
        """The results in the order of the calls. ``wait`` returns when the next one is there. ``close`` ends the
        run."""
        try:
            while True:
                while (outcome := self._arrived.pop(self._position, None)) is None:
                    if self._is_over():
                        return
                    wait()
                kind, _, what = outcome
                if kind != "results":
                    raise what if kind == "unsent" else failure(kind, self._position, what, function=self.program.name)
                self._position += what[0]
                try:
                    yield from unpack(what)
                except Exception as error:
                    raise unreadable(error) from error
        finally:
            close()

    def _is_over(self) -> bool:
        """Whether all results were read. Raises the error that stands for missing ones."""
        if not self._ended or self._position in self._arrived:
            return False
        if self._error is not None:
            raise self._error
        return True

    def _forget_tasks(self) -> None:
        self._tasks = iter(())
        self._queue.clear()
        self._hand.clear()

    def _tokens_of(self, tasks: list[Any]) -> tuple[list[Any], StagingError | None]:
        """Tasks as tokens, up to the first one that cannot be pickled, and the error that names that task."""
        if are_plain(tasks):
            return list(tasks), None
        tokens: list[Any] = []
        for token in map(try_token, tasks):
            if isinstance(token, StagingError):
                return tokens, token
            tokens.append(token)
        return tokens, None


def buffered(
    executor: Executor, function: Callable[..., Any], tasks: Iterator[tuple[Any, ...]], timeout: float | None, size: int
) -> Generator[Any, None, None]:
    """The results of the calls. At most ``size`` calls are under way or unread."""
    end = None if timeout is None else timeout + monotonic()
    futures = deque(executor.submit(function, *args) for args in islice(tasks, size))
    # A weak reference: unread results must not keep the executor alive, as in the standard library.
    return _read_buffered(weakref.ref(executor), function, tasks, end, futures)


def _read_buffered(
    executor: weakref.ref[Executor],
    function: Callable[..., Any],
    tasks: Iterator[tuple[Any, ...]],
    end: float | None,
    futures: deque[Future[Any]],
) -> Generator[Any, None, None]:
    try:
        while futures:
            kept = executor()
            if kept is not None and (args := next(tasks, None)) is not None:
                futures.append(kept.submit(function, *args))
            del kept
            yield _result_or_cancel(futures.popleft(), end)
    finally:
        for future in futures:
            future.cancel()


def _result_or_cancel(future: Future[Any], end: float | None) -> Any:
    try:
        return future.result(None if end is None else end - monotonic())
    finally:
        future.cancel()
        del future  # breaks the cycle between the future and the traceback of its exception
