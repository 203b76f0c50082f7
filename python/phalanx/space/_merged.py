"""The events of several members as one stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Condition

from phalanx.errors import SpaceError
from phalanx.space._deadline import deadline, is_over, left
from phalanx.space._engine import Engine, Fields
from phalanx.space._where import Query

#: Bits of each member's sequence number in the merged sequence number.
BITS = 64


class MergedEvents:
    """Watches at several members. A merged sequence number contains the numbers of all members side by side. So a watch
    can continue after any event, from whichever member it came."""

    def __init__(
        self,
        members: Sequence[Engine],
        template: Fields,
        where: Query | None,
        since: int | None,
        nudge: Callable[[], object] | None,
    ) -> None:
        self._nudge = nudge
        self._news = Condition()
        self._is_news = True
        self._closed = False
        # Members without events so far are known up to this number. Events that come meanwhile may come twice.
        self._known = [
            member.info()["events"] if since is None else since >> (BITS * at) & ((1 << BITS) - 1)
            for at, member in enumerate(members)
        ]
        self._watches: list[tuple[Engine, int]] = []
        try:
            for member, known in zip(members, self._known, strict=True):
                watch = member.watch(template, where, None if since is None else known, self._tell)
                self._watches.append((member, watch))
        except BaseException:
            self.close()
            raise

    def _tell(self) -> None:
        with self._news:
            self._is_news = True
            self._news.notify_all()
        if self._nudge is not None:
            self._nudge()

    def next(self, timeout: float | None) -> list[tuple[int, Fields]]:
        """Waits for events, each with its merged sequence number. The list is empty after ``timeout`` seconds. Raises
        SpaceError after :meth:`close`."""
        until = deadline(timeout)
        while True:
            with self._news:
                self._is_news = False
            events = [
                (self._sequence(at, number), fields)
                for at, (member, watch) in enumerate(self._watches)
                for number, fields in member.events(watch, 0)
            ]
            if events:
                return events
            with self._news:
                if not self._is_news:
                    self._news.wait(left(until))
                if self._closed:
                    raise SpaceError("the watch has ended")
                if not self._is_news and is_over(until):
                    return []

    def _sequence(self, at: int, number: int) -> int:
        self._known[at] = number
        return sum(known << (BITS * member) for member, known in enumerate(self._known))

    def close(self) -> None:
        """Ends the watches, and the calls that wait for their events."""
        with self._news:
            self._closed = self._is_news = True
            self._news.notify_all()
        for member, watch in self._watches:
            try:
                member.unwatch(watch)
            except SpaceError:
                continue
