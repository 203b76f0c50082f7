"""The state of a space in numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Partition:
    """The tuples of one signature, which is the kinds of the fields, like ``str, int``. ``indexes``: for each index the
    positions that it covers.

    Examples
    --------
    >>> import phalanx as px
    >>> with px.Space() as space:
    ...     space.out("job", 1)
    ...     [(part.signature, part.tuples) for part in space.info().partitions]
    [('str, int', 1)]
    """

    signature: str
    tuples: int
    indexes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Replica:
    """One of the servers of a replicated space.

    Attributes
    ----------
    address : str
        Where it is.
    name : str
        The name in its certificate.
    leads : bool
        Whether it is the leader.
    behind : int or None
        How many log entries it lacks. None: the leader has not heard from it since it leads.

    Examples
    --------
    >>> [replica.name for replica in space.info().replicas if replica.leads]  # doctest: +SKIP
    ['one']
    """

    address: str
    name: str
    leads: bool
    behind: int | None


@dataclass(frozen=True)
class SpaceInfo:
    """The state of a space. :meth:`phalanx.Space.info` returns one. For a spread space the numbers are sums.

    Attributes
    ----------
    tuples : int
        Number of tuples.
    bytes, encoded_bytes : int
        Approximate memory of tuples and indexes, and size of the encoded tuples, in bytes.
    takers, readers : int
        Requests that wait for a tuple.
    watches, transactions : int
        Watches and open transactions.
    unacknowledged : int
        Tuples that are on their way to takers.
    events, outs, reads, takes : int
        Events for watches and operations since the space was made.
    expired : int
        Tuples that have expired with their lease.
    looked_at : int
        Tuples that a search has looked at without a match.
    partitions : tuple of Partition
        The tuples by signature.
    options : dict
        The options that the space was made with.
    members : dict of str to SpaceInfo
        The members of a spread space.
    requests, visits : int
        For a spread space: requests through this object, and members that were asked for them.
    replicas : tuple of Replica
        The servers of a replicated space.
    term : int
        The number of elections of a replicated space.

    Examples
    --------
    >>> import phalanx as px
    >>> space = px.Space()
    >>> space.out("x", 1)
    >>> space.info().tuples
    1
    """

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
        """Makes it from the values of an engine."""
        partitions = tuple(
            Partition(signature, tuples, tuple(map(tuple, indexes)))
            for signature, tuples, indexes in told["partitions"]
        )
        members = {name: cls.of(info) for name, info in told.get("members", {}).items()}
        replicas = tuple(Replica(*replica) for replica in told.get("replicas", ()))
        return cls(**{**told, "partitions": partitions, "members": members, "replicas": replicas})
