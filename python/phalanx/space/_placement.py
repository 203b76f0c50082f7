"""Placement: which member of a spread space keeps a tuple, and so which members a template goes to (Blossom, DTuples,
Tupleware; paper 002, section 2)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from phalanx._native import encode_fields
from phalanx.errors import SpaceError
from phalanx.space._engine import Fields
from phalanx.space._template import ANY, formal_of
from phalanx.space._where import Query

#: Number of hash buckets (*parts*) for the values of the placing fields. Each part belongs to one member.
PARTS = 1024

_HASH = re.compile(r"hash\(\s*(\d+(?:\s*,\s*\d+)*)\s*\)")


class AtOne:
    """Puts all tuples of this process at one member: its own, or the one on this machine. A template may match at any
    member, so that member is only asked first."""

    def __init__(self, member: int, members: int) -> None:
        self._member = member
        self._members = [member, *(other for other in range(members) if other != member)]

    def member(self, fields: Fields) -> int:
        """The member that keeps this tuple."""
        return self._member

    def members(self, template: Fields) -> Sequence[int]:
        """The members that may have a matching tuple, the likeliest first."""
        return self._members


class ByFields:
    """Places tuples by the values of some fields. A template with these values goes to one member. All processes find
    the same member, because it depends only on the values and the names of the members."""

    def __init__(self, positions: Sequence[int], names: Sequence[str], objects: bool) -> None:
        self._positions = positions
        self._objects = objects
        self._names = names
        self._all = range(len(names))
        #: By part: its member. A cache of the parts that were needed so far.
        self._parts: dict[int, int] = {}

    def member(self, fields: Fields) -> int:
        """The member that keeps this tuple. Raises SpaceError if the tuple is too short."""
        placing = self._placing(fields)
        if placing is None:
            raise SpaceError(
                f"a tuple of {len(fields)} fields has not all that its place depends on: {self._positions}"
            )
        return self._member(placing)

    def members(self, template: Fields) -> Sequence[int]:
        """The only member that can have a matching tuple, or all members if the template leaves it open."""
        placing = self._placing(template)
        if placing is None:
            return () if len(template) <= max(self._positions) else self._all
        is_open = any(_is_open(element, self._objects) for element in placing)
        return self._all if is_open else (self._member(placing),)

    def _placing(self, fields: Fields) -> list[Any] | None:
        return [fields[at] for at in self._positions] if len(fields) > max(self._positions) else None

    def member_of(self, encoded: Sequence[bytes]) -> int:
        """The member that keeps a tuple of encoded fields. Raises SpaceError if the tuple is too short."""
        if len(encoded) <= max(self._positions):
            raise SpaceError(
                f"a tuple of {len(encoded)} fields has not all that its place depends on: {self._positions}"
            )
        return self._member_at([encoded[at] for at in self._positions])

    def _member(self, placing: list[Any]) -> int:
        return self._member_at(encode_fields(tuple(placing), self._objects))

    def _member_at(self, placing: Sequence[bytes]) -> int:
        encoded = b"".join(placing)
        part = int.from_bytes(blake2b(encoded, digest_size=8).digest(), "little") % PARTS
        member = self._parts.get(part)
        if member is None:
            # Rendezvous hashing: each member draws a number for each part, and the highest number gets the part. With
            # one member more or less, no part moves between two others (D. Thaler and C. Ravishankar, Name-based
            # mappings, 1998).
            member = self._parts[part] = max(self._all, key=lambda member: _draw(self._names[member], part))
        return member


#: Either placement.
Placement = AtOne | ByFields


def placing_positions(text: str) -> list[int] | None:
    """The positions in ``"hash(0,1)"``; None for the other placements. Raises SpaceError for any other text."""
    if text in ("owner", "local"):
        return None
    match = _HASH.fullmatch(text)
    if match is None:
        raise SpaceError(f'placement is "owner", "local" or like "hash(0,1)", not {text!r}')
    return [int(position) for position in match[1].split(",")]


def placement(text: str, names: Sequence[str], own: int | None, local: int | None, objects: bool) -> Placement:
    """Reads ``"owner"``, ``"local"`` or ``"hash(0,1)"``. ``own``: the member of this process; ``local``: a member on
    this machine. Raises SpaceError if the text is another one, or if the needed member is missing."""
    if (positions := placing_positions(text)) is not None:
        return ByFields(positions, names, objects)
    member = own if text == "owner" else local if own is None else own
    if member is None:
        who = "one of this process" if text == "owner" else "on this machine"
        raise SpaceError(f'placement="{text}" needs a member that is {who}: {", ".join(names)}')
    return AtOne(member, len(names))


def _draw(name: str, part: int) -> bytes:
    return blake2b(f"{part} {name}".encode(), digest_size=8).digest()


def _is_open(element: Any, objects: bool) -> bool:
    """Whether an element of a template matches more than one value. ``objects``: whether the space pickles objects."""
    if isinstance(element, tuple):
        return any(_is_open(part, objects) for part in element)
    return element is ANY or isinstance(element, Query) or formal_of(element, objects) is not None
