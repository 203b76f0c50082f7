"""Looking for a tuple in the spaces of a crew, one after the other: what paper 002 calls search.

The paper's metrics are taken here: the time of a search, and how many spaces it visited (its "visited nodes").
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import phalanx as px

SEARCH_TIME, VISITED = "search time", "visited nodes"
ORDERS = ("listing", "learned", "placed")
#: Seconds to wait at one space before all are asked again.
_PATIENCE = 0.02


class Search:
    """Asks ``spaces`` in an order, until one of them has the tuple. ``me`` is the place of the crew's own space.

    - ``listing``: one's own first, then the others in turn, as the paper's listings do;
    - ``learned``: where something was found last is asked first, as Tupleware does;
    - ``placed``: whoever put the tuple did so in the space that its ``home`` names, which is asked first.
    """

    def __init__(self, spaces: Sequence[px.Space], me: int, order: str) -> None:
        self.spaces = spaces
        self.order = order
        self._places = [*range(me, len(spaces)), *range(me)]

    def home(self, number: int, me: int) -> int:
        """The space for what has this number: its own crew's, unless tuples are ``placed``."""
        return number % len(self.spaces) if self.order == "placed" else me

    def rdp(self, *template: Any, home: int = 0) -> tuple[Any, ...]:
        """Read a tuple that is there, in one of the spaces; ``home`` as in ``home()``."""
        return self._search("rdp", template, home)

    def inp(self, *template: Any, home: int = 0) -> tuple[Any, ...]:
        """Withdraw a tuple that is there already, or soon will be."""
        return self._search("inp", template, home)

    def _search(self, operation: str, template: tuple[Any, ...], home: int) -> tuple[Any, ...]:
        visited = 0
        with px.profile.timed(SEARCH_TIME):
            while True:
                places = self._sorted(home)
                for place in places:
                    visited += 1
                    found = getattr(self.spaces[place], operation)(*template)
                    if found is not None:
                        return self._found(found, place, visited)
                # Nowhere yet. To ask all again at once would only keep them from getting it.
                visited += 1
                with suppress(px.SpaceTimeoutError):
                    wait = self.spaces[places[0]].in_ if operation == "inp" else self.spaces[places[0]].rd
                    return self._found(wait(*template, timeout=_PATIENCE), places[0], visited)

    def _sorted(self, home: int) -> list[int]:
        if self.order == "placed":
            return [home % len(self.spaces), *(place for place in self._places if place != home % len(self.spaces))]
        return list(self._places)

    def _found(self, found: tuple[Any, ...], place: int, visited: int) -> tuple[Any, ...]:
        px.profile.record(VISITED, visited)
        if self.order == "learned":
            self._places.remove(place)
            self._places.insert(0, place)
        return found
