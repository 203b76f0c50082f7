"""Input streams: how tasks get from the user's iterable to the engine, only as fast as results are read."""

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

#: Seconds that a reader waits for results before it looks up again.
PATIENCE = 0.1
#: The same while a thread gathers tasks, which the reader then sends off.
GATHERING_PATIENCE = 0.02
#: Seconds after which gathered tasks go off, however few.
GATHER = 0.001

#: Collections of which the next item is there at once.
_AT_HAND = (list, tuple, range, str, bytes, dict, set, frozenset)


def open_stream(native: _native.Manager, run: int, tasks: Iterable[Any], pack: Pack = pack) -> Stream:
    """The stream of a run, whose tasks become tokens by ``pack``. What may have to wait for its next task is read by a
    thread of its own, so that a result never waits for the input behind it."""
    if isinstance(tasks, _AT_HAND):
        return AtHand(native, run, iter(tasks), pack)
    return Gathered(native, run, iter(tasks), pack)


def item(tasks: Iterable[Any], index: int) -> Any:
    """The task of this number as the user's collection has it now; ``UNKNOWN`` for an iterator, which is used up."""
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
        """Takes what there is room for."""
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
        """Nothing to stop."""


class Gathered:
    """Tasks of an iterator, taken by a thread; a batch goes off when it is full, or its first task waited."""

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
        """Sends off what was gathered."""
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
            # As it is now: a generator may fill the same list or array again for its next task.
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
    """Feeds tasks to a run, up to the first one that cannot be pickled; the error that names it."""
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
    """A task pickled as it is now, with copies of what can still change. Raises StagingError that names it."""
    try:
        token = Token(task)
    except Exception as error:
        raise StagingError(f"the task {short(task)} cannot be pickled: {error}") from error
    token.buffers = [buffer if buffer.readonly else memoryview(bytes(buffer)) for buffer in token.buffers]
    return token


def pack_task(task: Any) -> Packed:
    """One task as a token. Raises StagingError that names it where it cannot be pickled."""
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
