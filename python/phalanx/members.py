"""The members of a grid with a hub, as its hub knows them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Any, NamedTuple, TypeAlias

from phalanx.errors import IdentityError

#: A member as the native core tells it: name, role, address, whether it is here, since when, until when its certificate
#: is good (both in seconds since 1970), and facts.
Row: TypeAlias = tuple[str, str, str | None, bool, int, int, dict[str, str]]

#: The fact by which a hub marks the executor of its own machine.
AT_HUB = "at hub"
#: The fact by which a hub says why an executor works for nobody now.
CLOSED = "closed"
#: The fact of a hub that says whether it leads the hubs of its grid.
LEADS = "leads"

#: The fact by which a hub marks owners of the grid. Also the role of a token that makes one.
OWNER = "owner"

#: Longest name of a grid or of a member: it is a label of a domain name.
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]{1,255}):[0-9]{1,5}")
#: The last second of the year 9999, which is the last that Python's calendar has.
_LAST = 253402300799


class Member(NamedTuple):
    """A member of a grid: a machine or a person with a certificate of the grid.

    Attributes
    ----------
    name : str
        Its name in its certificate.
    role : str
        ``"executor"``, ``"user"`` or ``"hub"``.
    address : str or None
        Where it is reached, or was reached last, as ``host:port``.
    is_here : bool
        Whether it runs now. Users are never here, because nothing of theirs listens.
    since : datetime
        Since when it is here, or when it was here last. For a member that never was here: when it joined.
    until : datetime
        When its newest certificate ends. Certificates are renewed while a member runs.
    facts : dict of str to str
        What its machine has: ``cores``, ``memory`` in bytes, ``python``, and others. What the hub says of it: ``owner``
        of a user who owns the grid, and ``leads`` of a hub.

    Examples
    --------
    >>> import phalanx as px
    >>> for member in px.Grid("lab").members():  # doctest: +SKIP
    ...     print(member.name, member.is_here, member.facts["cores"])
    """

    name: str
    role: str
    address: str | None
    is_here: bool
    since: datetime
    until: datetime
    facts: dict[str, str]

    @property
    def is_owner(self) -> bool:
        """Whether it is a user who may invite and expel others."""
        return self.role == "user" and self.facts.get(OWNER) == "yes"


def is_name(text: str) -> bool:
    """Whether a grid or a member can have this name."""
    return _NAME.fullmatch(text) is not None


def to_name(text: str, default: str) -> str:
    """The name that is nearest to a text: that of an account or of a machine. ``default`` if nothing is left of it.

    Examples
    --------
    >>> to_name("Ada Lovelace", "user"), to_name("___", "user")
    ('ada-lovelace', 'user')
    """
    return re.sub("[^a-z0-9-]+", "-", text.lower()).strip("-")[:63].strip("-") or default


def is_address(text: str) -> bool:
    """Whether a text is ``host:port``."""
    return _ADDRESS.fullmatch(text) is not None and 0 < int(text.rpartition(":")[2]) < 1 << 16


def members_of(rows: Iterable[Row]) -> list[Member]:
    """The members of rows that a hub has sent, by role and name. A member that has told the hub an address that is none
    has none. Raises IdentityError where one is no member: the rows were not made by a hub of phalanx, or were
    damaged."""
    told = (row if row[2] is None or is_address(row[2]) else (*row[:2], None, *row[3:]) for row in rows)
    return sorted(map(_member, told), key=lambda member: (member.role, member.name))


def to_json(member: Member) -> dict[str, Any]:
    """A member as JSON has it: times are texts."""
    return {**member._asdict(), "since": member.since.isoformat(), "until": member.until.isoformat()}


def from_json(value: object) -> Member:
    """The reverse of :func:`to_json`. Raises IdentityError for anything else."""
    if not isinstance(value, Mapping) or set(value) != set(Member._fields):
        raise IdentityError("an entry is no member")
    try:
        since, until = (int(datetime.fromisoformat(value[word]).timestamp()) for word in ("since", "until"))
    except (TypeError, ValueError, OverflowError) as error:
        raise IdentityError(f"an entry has a time that is none: {error}") from None
    name, role, address, is_here = (value[word] for word in ("name", "role", "address", "is_here"))
    return _member((name, role, address, is_here, since, until, value["facts"]))


def _member(row: Row) -> Member:
    name, role, address, is_here, since, until, facts = row
    texts = [name, role, *([] if address is None else [address])]
    is_whole = all(isinstance(text, str) for text in texts) and isinstance(is_here, bool)
    if not (is_whole and is_name(name) and is_name(role) and (address is None or is_address(address))):
        raise IdentityError(f"an entry is no member: {row!r:.200}")
    told = facts.items() if isinstance(facts, dict) else [(None, None)]
    if not all(isinstance(word, str) and isinstance(fact, str) for word, fact in told):
        raise IdentityError(f"an entry has facts that are none: {row!r:.200}")
    return Member(name, role, address, is_here, moment(since), moment(until), dict(facts))


def moment(seconds: int) -> datetime:
    """The time so many seconds after the beginning of 1970. What Python's calendar lacks is the nearest that it has."""
    return datetime.fromtimestamp(min(max(seconds, 0), _LAST), timezone.utc)
