"""A space, counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Partition:
    """The tuples of one signature: the kinds of the fields, like ``Str, Int``. ``indexes``: positions that each
    covers."""

    signature: str
    tuples: int
    indexes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class SpaceInfo:
    """What :meth:`phalanx.Space.info` tells.

    ``bytes``: memory of tuples and indexes, about; ``encoded_bytes``: of the tuples' encodings. ``takers``,
    ``readers``: who waits. ``unacknowledged``: tuples on their way to takers. Since the space was made: ``events`` for
    watches, ``outs``, ``reads``, ``takes``, tuples that ``expired`` with their lease, and tuples that were
    ``looked_at`` in vain while searching. ``options``: how the space was made."""

    tuples: int
    bytes: int
    encoded_bytes: int
    takers: int
    readers: int
    watches: int
    transactions: int
    unacknowledged: int
    events: int
    outs: int
    reads: int
    takes: int
    expired: int
    looked_at: int
    partitions: tuple[Partition, ...]
    options: dict[str, Any]

    @classmethod
    def of(cls, told: dict[str, Any]) -> SpaceInfo:
        """From what an engine tells."""
        partitions = tuple(
            Partition(signature, tuples, tuple(map(tuple, indexes)))
            for signature, tuples, indexes in told["partitions"]
        )
        return cls(**{**told, "partitions": partitions})
