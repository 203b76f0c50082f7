"""Estimates which member is likely to have a match: Tupleware's success factor (paper 002, section 2)."""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.space._engine import Fields

#: Maximum number of kinds of templates with success factors. It bounds memory; further kinds have no factors.
MOST_KINDS = 256
#: Weight of the latest request in the moving average.
WEIGHT = 0.25
#: A member is asked alone if its success factor is at least `CLEAR`, and at least `AHEAD` times that of the next
#: member.
CLEAR = 0.6
AHEAD = 2.0


class Success:
    """For each kind of template, how often each member had a match when it was asked.

    A kind is the number of fields, and the first field if it is a text. By custom that field says what a tuple is
    about."""

    def __init__(self) -> None:
        self._factors: dict[tuple[int, str | None], dict[int, float]] = {}

    def sorted(self, template: Fields, members: list[int]) -> list[int]:
        """The members, the likeliest first. Equally likely ones keep their order."""
        factors = self._factors.get(_kind(template))
        if factors is None or len(members) == 1:
            return members
        return sorted(members, key=lambda member: -factors.get(member, 0.0))

    def is_clear(self, template: Fields, members: Sequence[int]) -> bool:
        """Whether the first of these sorted members is so likely that the others need not be asked at once."""
        factors = self._factors.get(_kind(template), {})
        first, second = (factors.get(member, 0.0) for member in members[:2])
        return first >= CLEAR and first >= AHEAD * second

    def note(self, template: Fields, asked: Sequence[int], found: int | None) -> None:
        """Records which members were asked, and which one had a match first (``found``)."""
        kind = _kind(template)
        factors = self._factors.get(kind)
        if factors is None:
            if len(self._factors) >= MOST_KINDS:
                return
            factors = self._factors[kind] = {}
        for member in asked:
            before = factors.get(member, 0.0)
            factors[member] = before + WEIGHT * ((member == found) - before)


def _kind(template: Fields) -> tuple[int, str | None]:
    first = template[0] if template else None
    return len(template), first if isinstance(first, str) else None
