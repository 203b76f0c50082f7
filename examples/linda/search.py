"""Searching for a tuple in the spaces of a crew, one after the other, as paper 002 does.

This module records the paper's metrics: the time of a search, and the number of spaces that it visited ("visited
nodes").
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import phalanx as px

SEARCH_TIME, VISITED = "search time", "visited nodes"
ORDERS = ("listing", "learned", "spread")
#: Seconds to wait at one space before all are asked again; and the first and the longest pause between two rounds.
_PATIENCE = 0.2
_MOMENT, _LONGEST_MOMENT = 20e-6, 1e-3

Find = Callable[..., "tuple[Any, ...] | None"]


class Search:
    """Asks ``spaces`` in an order, until one of them has the tuple. ``me`` is the index of the member's own space.

    - ``listing``: the member's own first, then the others in turn, again and again, as in the paper's listings;
    - ``learned``: first the space in which the same number was found the last time, much as Tupleware does;
    - ``spread``: the spaces form one spread space, which places and finds each tuple by its fields ``placing``.

    A member that has learned where a tuple will be waits there for a while; otherwise it asks all spaces again, after
    a pause.
    """

    def __init__(self, spaces: Sequence[px.Space], me: int, order: str, placing: str) -> None:
        self.spaces = spaces
        self._whole: px.Space | None = None
        if order == "spread":
            self._whole = px.Space([getattr(space, "space", space) for space in spaces], placement=f"hash({placing})")
        self.order = order
        self._places = [*range(me, len(spaces)), *range(me)]
        self._learned: dict[int, int] = {}

    @property
    def home(self) -> px.Space:
        """The space for tuples that others search for: the member's own, or the one that is spread over all."""
        return self.spaces[self._places[0]] if self._whole is None else self._whole

    def rdp(self, number: int, *template: Any) -> tuple[Any, ...]:
        """Reads a tuple that is in one of the spaces, now or soon."""
        if self._whole is not None:
            return self._ask_the_whole(template, self._whole.rdp, self._whole.rd)
        return self._search(number, lambda space: space.rdp, lambda space: space.rd, template)

    def inp(self, number: int, *template: Any) -> tuple[Any, ...]:
        """Takes a tuple that is in one of the spaces, now or soon."""
        if self._whole is not None:
            return self._ask_the_whole(template, self._whole.in_)
        return self._search(number, lambda space: space.inp, lambda space: space.in_, template)

    def _search(
        self, number: int, now: Callable[[px.Space], Find], soon: Callable[[px.Space], Find], template: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        visited, moment = 0, _MOMENT
        with px.profile.timed(SEARCH_TIME):
            likely = self._learned.get(number)
            places = self._places if likely is None else [likely, *(each for each in self._places if each != likely)]
            while True:
                for place in places:
                    visited += 1
                    found = now(self.spaces[place])(*template)
                    if found is not None:
                        return self._found(number, found, place, visited)
                if likely is None:
                    time.sleep(moment)
                    moment = min(2 * moment, _LONGEST_MOMENT)
                else:
                    visited += 1
                    with suppress(px.errors.SpaceTimeoutError):
                        found = soon(self.spaces[likely])(*template, timeout=_PATIENCE)
                        return self._found(number, found or (), likely, visited)

    def _ask_the_whole(self, template: tuple[Any, ...], *finds: Find) -> tuple[Any, ...]:
        assert self._whole is not None
        before = self._whole.visits
        with px.profile.timed(SEARCH_TIME):
            found = next(filter(None, (find(*template) for find in finds)), None)
        px.profile.record(VISITED, self._whole.visits - before)
        return found or ()

    def _found(self, number: int, found: tuple[Any, ...], place: int, visited: int) -> tuple[Any, ...]:
        px.profile.record(VISITED, visited)
        if self.order == "learned":
            self._learned[number] = place
        return found
