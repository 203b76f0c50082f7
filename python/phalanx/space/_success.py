"""Which member is likely to have a match: Tupleware's success factor (paper 002, section 2)."""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.space._engine import Fields

#: Kinds of templates that are told apart; those beyond have no experience of their own.
MOST_KINDS = 256
#: How much the last request counts.
WEIGHT = 0.25
#: One that is asked alone has a match so often, and so many times as often as the next one.
CLEAR = 0.6
AHEAD = 2.0


class Success:
    """For each kind of template, how often each member had a match when it was asked. A kind: how many fields, and the
    first one, which by custom says what a tuple is about, if it is a text."""

    def __init__(self) -> None:
        self._factors: dict[tuple[int, str | None], dict[int, float]] = {}

    def sorted(self, template: Fields, members: list[int]) -> list[int]:
        """The likeliest first; where they are equal, in their order."""
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
        """These were asked, and this one had a match first."""
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
