"""A space, counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Partition:
    """The tuples of one signature: the kinds of the fields, like ``Str, Int``. ``indexes``: positions that each
    covers."""

    signature: str
    tuples: int
    indexes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Replica:
    """One of the servers that keep a space together: where it is, the name in its certificate, whether it leads, and
    how many entries of their log it does not have; None: it was not heard since this one leads."""

    address: str
    name: str
    leads: bool
    behind: int | None


@dataclass(frozen=True)
class SpaceInfo:
    """What :meth:`phalanx.Space.info` tells.

    ``bytes``: memory of tuples and indexes, about; ``encoded_bytes``: of the tuples' encodings. ``takers``,
    ``readers``: who waits. ``unacknowledged``: tuples on their way to takers. Since the space was made: ``events`` for
    watches, ``outs``, ``reads``, ``takes``, tuples that ``expired`` with their lease, and tuples that were
    ``looked_at`` in vain while searching. ``options``: how the space was made. Of a space that several servers keep:
    ``replicas`` are these, and ``term`` counts their elections.

    Of a space that is spread: these are sums, ``members`` tells of each one, ``requests`` were made through this
    object, and ``visits`` is how many members were asked for them."""

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
    members: dict[str, SpaceInfo] = field(default_factory=dict)
    requests: int = 0
    visits: int = 0
    replicas: tuple[Replica, ...] = ()
    term: int = 0

    @classmethod
    def of(cls, told: dict[str, Any]) -> SpaceInfo:
        """From what an engine tells."""
        partitions = tuple(
            Partition(signature, tuples, tuple(map(tuple, indexes)))
            for signature, tuples, indexes in told["partitions"]
        )
        members = {name: cls.of(info) for name, info in told.get("members", {}).items()}
        replicas = tuple(Replica(*replica) for replica in told.get("replicas", ()))
        return cls(**{**told, "partitions": partitions, "members": members, "replicas": replicas})
