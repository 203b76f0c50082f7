"""Input streams: they move tasks from the user's iterable to the engine, only as fast as results are read."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

from phalanx import _native
from phalanx._tokens import PLAIN, UNKNOWN, Token, pack, short
from phalanx.errors import StagingError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from phalanx._tokens import Packed

    #: How tasks become tokens.
    Pack: TypeAlias = Callable[[Sequence[Any]], Packed]

#: Seconds that a reader waits for results before it checks for other work.
PATIENCE = 0.1
#: The same while a thread gathers tasks. It is shorter, because the reader sends the gathered tasks.
GATHERING_PATIENCE = 0.02
#: Seconds after which gathered tasks are sent, however few they are.
GATHER = 0.001

#: Collections whose next item is available at once.
_AT_HAND = (list, tuple, range, str, bytes, dict, set, frozenset)


def open_stream(native: _native.Manager, run: int, tasks: Iterable[Any], pack: Pack = pack) -> Stream:
    """The stream of a run. ``pack`` turns its tasks into tokens. A separate thread reads an iterable whose next task
    may block, so that a result never waits for later input."""
    if isinstance(tasks, _AT_HAND):
        return AtHand(native, run, iter(tasks), pack)
    return Gathered(native, run, iter(tasks), pack)


def item(tasks: Iterable[Any], index: int) -> Any:
    """The task with this index in the user's collection; ``UNKNOWN`` for an iterator, which is used up."""
    return next(islice(tasks, index, None), UNKNOWN) if isinstance(tasks, _AT_HAND) else UNKNOWN


class AtHand:
    """Tasks of a collection, taken by the reader of the results."""

    patience = PATIENCE

    def __init__(self, native: _native.Manager, run: int, tasks: Iterator[Any], pack: Pack) -> None:
        self._native = native
        self._run = run
        self._pack = pack
        self._tasks = tasks
        self._ended = False
        self._error: StagingError | None = None

    def feed(self) -> None:
        """Takes and sends as many tasks as there is room for."""
        while not self._ended and (room := self._native.room(self._run, 0.0)):
            batch = list(islice(self._tasks, room))
            self._error = feed_tasks(self._native, self._run, batch, self._pack)
            if len(batch) < room or self._error is not None:
                self._ended = True
                self._native.finish(self._run)

    def check(self) -> None:
        """Raises what ended the stream before its time: to be called when all results were read."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Does nothing: there is no thread to stop."""


class Gathered:
    """Tasks of an iterator, taken by a thread. A batch is sent when it is full, or when ``GATHER`` seconds are over."""

    patience = GATHERING_PATIENCE

    def __init__(self, native: _native.Manager, run: int, tasks: Iterator[Any], pack: Pack) -> None:
        self._native = native
        self._run = run
        self._pack = pack
        self._gathered: list[Any] = []
        self._lock = threading.Lock()
        self._closed = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._gather, args=(tasks,), name="phalanx-tasks", daemon=True)
        self._thread.start()

    def feed(self) -> None:
        """Sends the gathered tasks."""
        with self._lock:
            gathered, self._gathered = self._gathered, []
            if self._closed:
                return
            error = feed_tasks(self._native, self._run, gathered, self._pack)
            if error is not None:
                self._error, self._closed = error, True
                self._native.finish(self._run)

    def check(self) -> None:
        """Raises what ended the stream before its time: to be called when all results were read."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Takes no more tasks. A thread that waits in the user's iterator ends with its next task."""
        self._closed = True

    def _gather(self, tasks: Iterator[Any]) -> None:
        try:
            while not self._closed:
                room = self._native.room(self._run, PATIENCE)
                if room and not self._gather_batch(tasks, room):
                    break
        except BaseException as error:
            self._error = error
        self.feed()
        self._native.finish(self._run)

    def _gather_batch(self, tasks: Iterator[Any], room: int) -> bool:
        """Up to ``room`` tasks; false at the end of the stream."""
        began = perf_counter()
        for task in tasks:
            # A snapshot, because a generator may fill the same list or array again for its next task.
            kept = task if type(task) in PLAIN else snapshot(task)
            with self._lock:
                self._gathered.append(kept)
                full = len(self._gathered) >= room
            if full or self._closed or perf_counter() - began > GATHER:
                self.feed()
                return True
        return False


Stream: TypeAlias = AtHand | Gathered


def feed_tasks(native: _native.Manager, run: int, batch: list[Any], pack: Pack = pack) -> StagingError | None:
    """Feeds tasks to a run, up to the first one that cannot be pickled. Returns the error that names that task."""
    if not batch:
        return None
    try:
        packed = pack(batch)
    except Exception as error:
        good, reason = _until_it_fails(batch)
        if good:
            native.feed(run, pack(good))
        return reason or StagingError(f"tasks cannot be pickled together: {error}")
    native.feed(run, packed)
    return None


def snapshot(task: Any) -> Token:
    """A task pickled as it is now, with copies of buffers that can still change. Raises a StagingError that names the
    task."""
    try:
        token = Token(task)
    except Exception as error:
        raise StagingError(f"the task {short(task)} cannot be pickled: {error}") from error
    token.buffers = [buffer if buffer.readonly else memoryview(bytes(buffer)) for buffer in token.buffers]
    return token


def pack_task(task: Any) -> Packed:
    """One task as a token. Raises a StagingError that names the task if it cannot be pickled."""
    try:
        return pack([task])
    except Exception as error:
        raise StagingError(f"the task {short(task)} cannot be pickled: {error}") from error


def _until_it_fails(batch: list[Any]) -> tuple[list[Any], StagingError | None]:
    for index, task in enumerate(batch):
        try:
            pack_task(task)
        except StagingError as error:
            return batch[:index], error
    return [], None
