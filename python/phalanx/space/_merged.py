"""The events of several members as one stream."""

from __future__ import annotations

from collections.abc import Sequence
from queue import Empty, SimpleQueue
from threading import Thread

from phalanx.errors import SpaceError
from phalanx.space._engine import Engine, Fields
from phalanx.space._where import Query

#: Bits of each member's sequence number in that of the whole.
BITS = 64


class MergedEvents:
    """Watches at several members. A sequence number of the whole is the members' numbers side by side, so that a watch
    can go on behind an event wherever it came from."""

    def __init__(self, members: Sequence[Engine], template: Fields, where: Query | None, since: int | None) -> None:
        known = [None if since is None else since >> (BITS * at) & ((1 << BITS) - 1) for at in range(len(members))]
        self._known = [number or 0 for number in known]
        self._queue: SimpleQueue[tuple[int, list[tuple[int, Fields]] | SpaceError]] = SimpleQueue()
        self._watches: list[tuple[Engine, int]] = []
        self._closed = False
        try:
            for member, number in zip(members, known, strict=True):
                self._watches.append((member, member.watch(template, where, number)))
        except BaseException:
            self.close()
            raise
        for at, (member, watch) in enumerate(self._watches):
            Thread(target=self._collect, args=(at, member, watch), name="phalanx-events", daemon=True).start()

    def _collect(self, at: int, member: Engine, watch: int) -> None:
        while not self._closed:
            try:
                events = member.events(watch, None)
            except SpaceError as error:
                self._queue.put((at, error))
                return
            self._queue.put((at, events))

    def next(self, timeout: float | None) -> list[tuple[int, Fields]]:
        """Events, each with the sequence number of the whole; none when the time has passed. Raises SpaceError."""
        try:
            at, events = self._queue.get(timeout=timeout)
        except Empty:
            return []
        if isinstance(events, SpaceError):
            raise events
        return [(self._sequence(at, number), fields) for number, fields in events]

    def _sequence(self, at: int, number: int) -> int:
        self._known[at] = number
        return sum(known << (BITS * member) for member, known in enumerate(self._known))

    def close(self) -> None:
        """Ends the watches, and whoever waits for their events."""
        self._closed = True
        for member, watch in self._watches:
            try:
                member.unwatch(watch)
            except SpaceError:
                continue
        self._queue.put((0, SpaceError("the watch has ended")))
