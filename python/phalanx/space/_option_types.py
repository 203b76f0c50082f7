"""The options of spaces and of their servers, as type checkers see them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from typing import TypedDict

from phalanx.security import Rules
from phalanx.words import Order, Policy, StrPath


class LinkOptions(TypedDict, total=False):
    """Who one is to the other end of links, and what they may be."""

    identity: StrPath | None
    policy: Policy | Rules
    trusted: str | Iterable[str]


class ReachOptions(LinkOptions, total=False):
    """How a served space is reached."""

    certificates: Mapping[str, str]
    hosts_file: StrPath | None


class LimitOptions(TypedDict, total=False):
    """The options of a new space that few programs need. :attr:`phalanx.space.SpaceInfo.options` shows them."""

    secure: bool
    automatic_indexes: bool
    most_tuple_bytes: int
    most_waiters: int
    most_session_waiters: int
    most_transactions: int
    longest_transaction: float
    log_events: int
    log_bytes: int


class NewOptions(LimitOptions, total=False):
    """The options of a new space."""

    order: Order | None
    lease: float | None
    indexes: Iterable[Iterable[int]]
    boxes: Iterable[Iterable[int]]
    most_tuples: int | None
    most_bytes: int | None
    durable: bool | StrPath
    group: str | None


class MoreOptions(LimitOptions, ReachOptions, total=False):
    """The options of :class:`phalanx.Space` beside those that its signature names."""


class MoveOptions(NewOptions, ReachOptions, total=False):
    """The options of spaces that :func:`phalanx.space.move_tuples` makes, and of links to all members."""


class GridSpaceOptions(NewOptions, total=False):
    """The options of a space that are not about how its server is reached."""

    objects: bool
    manager: Executor | None
    replicas: int | None
    members: Iterable[str]
    new_members: bool


class ServeOptions(LinkOptions, total=False):
    """The options of :meth:`phalanx.Space.serve`."""

    accept: Iterable[str]
    access: StrPath | None
    spaces: int
    sessions: int
    directory: StrPath | None
    most_bytes: int | None
    most_memory: int | None
    user_share: int
    most_unfinished: int | None
    says: bool
