"""Input streams: how tasks get from the user's iterable to the engine, only as fast as results are read."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from itertools import islice
from time import perf_counter
from typing import Any, Union

from phalanx import _native
from phalanx._tokens import pack
from phalanx.errors import StagingError

#: Seconds that a reader waits for results before it looks up again.
PATIENCE = 0.1
#: The same while a thread gathers tasks, which the reader then sends off.
GATHERING_PATIENCE = 0.02
#: Seconds after which gathered tasks go off, however few.
GATHER = 0.001

#: Collections of which the next item is there at once.
_AT_HAND = (list, tuple, range, str, bytes, dict, set, frozenset)


def open_stream(native: _native.Manager, run: int, tasks: Iterable[Any]) -> Stream:
    """The stream of a run. What may have to wait for its next task is read by a thread of its own, so that a result
    never waits for the input behind it."""
    if isinstance(tasks, _AT_HAND):
        return AtHand(native, run, iter(tasks))
    return Gathered(native, run, iter(tasks))


class AtHand:
    """Tasks of a collection, taken by the reader of the results."""

    patience = PATIENCE

    def __init__(self, native: _native.Manager, run: int, tasks: Iterator[Any]) -> None:
        self._native = native
        self._run = run
        self._tasks = tasks
        self._ended = False

    def feed(self) -> None:
        """Takes what there is room for."""
        while not self._ended and (room := self._native.room(self._run, 0.0)):
            batch = list(islice(self._tasks, room))
            if batch:
                self._native.feed(self._run, pack_tasks(batch))
            if len(batch) < room:
                self._ended = True
                self._native.finish(self._run)

    def check(self) -> None:
        """Nothing can have gone wrong elsewhere."""

    def close(self) -> None:
        """Nothing to stop."""


class Gathered:
    """Tasks of an iterator, taken by a thread; a batch goes off when it is full, or its first task waited long."""

    patience = GATHERING_PATIENCE

    def __init__(self, native: _native.Manager, run: int, tasks: Iterator[Any]) -> None:
        self._native = native
        self._run = run
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
            if gathered and not self._closed:
                self._native.feed(self._run, pack_tasks(gathered))

    def check(self) -> None:
        """Raises what the iterator raised."""
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
            self.feed()
        except BaseException as error:
            self._error = error
        self._native.finish(self._run)

    def _gather_batch(self, tasks: Iterator[Any], room: int) -> bool:
        """Up to ``room`` tasks; false at the end of the stream."""
        began = perf_counter()
        for task in tasks:
            with self._lock:
                self._gathered.append(task)
                full = len(self._gathered) >= room
            if full or self._closed or perf_counter() - began > GATHER:
                self.feed()
                return True
        return False


Stream = Union[AtHand, Gathered]


def pack_tasks(batch: list[Any]) -> Any:
    """Tasks as tokens. Raises StagingError that names the task that cannot be pickled."""
    try:
        return pack(batch)
    except Exception as error:
        for task in batch:
            try:
                pack([task])
            except Exception as own:
                raise StagingError(f"the task {task!r} cannot be pickled: {own}") from own
        raise StagingError(f"a task cannot be pickled: {error}") from error
