"""What the machines of a grid run, for whom, and which links its hub relays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from phalanx.members import moment

#: A member at one end of a link as the native core tells it: its role and its name.
_End = tuple[str, str]


@dataclass(frozen=True)
class Running:
    """What an executor runs for a user: several things of one kind, whose links are alike.

    Attributes
    ----------
    user : str
        Whose they are.
    what : str
        ``"interpreters"``, ``"ranks"``, ``"copies"``, or ``"spaces"`` for links to spaces.
    level : str or None
        The level of their links. None for ranks, whose links are their own.
    is_relayed : bool
        Whether their links go through the hub.
    count : int
        How many there are.
    rate : int
        Bytes a second over their links, rounded to two digits; 0 below 1 KB/s.

    Examples
    --------
    >>> import phalanx as px
    >>> status = px.Grid("lab").status()  # doctest: +SKIP
    >>> [(it.user, it.count, it.what) for it in status.executors[0].running]  # doctest: +SKIP
    [('ada', 2, 'interpreters')]
    """

    user: str
    what: str
    level: str | None
    is_relayed: bool
    count: int
    rate: int


@dataclass(frozen=True)
class ExecutorStatus:
    """What an executor of a grid runs, as it has told the hub.

    Attributes
    ----------
    name : str
        Its name in its certificate.
    is_here : bool
        Whether it runs now.
    since : datetime
        Since when it is here, or when it was here last.
    interpreters : int or None
        The most interpreters and ranks that it runs at a time. None: it has told nothing yet, or is not here.
    used : int or None
        How many of these places are in use, also by processes that begin or end and are not in ``running``.
    running : tuple of Running
        What it runs, at most 64 entries.
    more : int
        How many entries were left out.
    lost : int
        Interpreters and ranks that ended by themselves since it started.
    last_loss : str
        How the last of these ended; empty if there was none.
    closed : str
        Why it works for nobody now, like ``"its owner uses it"``; empty if it is open.

    Examples
    --------
    >>> import phalanx as px
    >>> [it.name for it in px.Grid("lab").status().executors if it.lost]  # doctest: +SKIP
    ['ws7']
    """

    name: str
    is_here: bool
    since: datetime
    interpreters: int | None = None
    used: int | None = None
    running: tuple[Running, ...] = ()
    more: int = 0
    lost: int = 0
    last_loss: str = ""
    closed: str = ""


@dataclass(frozen=True)
class RelayedLink:
    """A link that the hub relays, as ciphertext.

    Attributes
    ----------
    source, target : str
        The role and the name of the member that opened it, and of the one that it leads to, like ``"user ada"``.
    bytes : int
        What was relayed so far, in both directions.
    seconds : int
        For how long.

    Examples
    --------
    >>> import phalanx as px
    >>> [it.source for it in px.Grid("lab").status().relayed.largest]  # doctest: +SKIP
    ['user ada']
    """

    source: str
    target: str
    bytes: int
    seconds: int


@dataclass(frozen=True)
class Relayed:
    """What the hub relays.

    Attributes
    ----------
    links : int
        How many links it relays now.
    bytes : int
        What it has relayed since it started.
    largest : tuple of RelayedLink
        The links over which most went.

    Examples
    --------
    >>> import phalanx as px
    >>> px.Grid("lab").status().relayed.links  # doctest: +SKIP
    0
    """

    links: int
    bytes: int
    largest: tuple[RelayedLink, ...] = ()


@dataclass(frozen=True)
class GridStatus:
    """What the machines of a grid run, and what its hub relays. :meth:`phalanx.Grid.status` returns it.

    Attributes
    ----------
    grid : str
        What this account calls the grid.
    executors : tuple of ExecutorStatus
        All executors of the grid, by name, also those that do not run.
    relayed : Relayed
        What the hub relays.

    Examples
    --------
    >>> import phalanx as px
    >>> status = px.Grid("lab").status()  # doctest: +SKIP
    >>> {it.name: it.used for it in status.executors if it.is_here}  # doctest: +SKIP
    {'ws7': 2, 'ws8': 0}
    """

    grid: str
    executors: tuple[ExecutorStatus, ...]
    relayed: Relayed

    def to_json(self) -> dict[str, Any]:
        """The same as plain objects, as ``phalanx status --json`` prints them.

        Returns
        -------
        dict
        """
        links: list[dict[str, Any]] = [
            {"from": it.source, "to": it.target, "bytes": it.bytes, "seconds": it.seconds}
            for it in self.relayed.largest
        ]
        return {
            "grid": self.grid,
            "executors": [_executor_json(it) for it in self.executors],
            "relayed": {"links": self.relayed.links, "bytes": self.relayed.bytes, "largest": links},
        }


def status_of(
    grid: str,
    executors: Iterable[tuple[Any, ...]],
    relayed: Iterable[tuple[_End, _End, int, int]],
    links: int,
    size: int,
) -> GridStatus:
    """The status as the native core tells it: executors, relayed links, how many of these there are, and their bytes
    since the hub started."""
    largest = (RelayedLink(" ".join(one), " ".join(other), sent, seconds) for one, other, sent, seconds in relayed)
    return GridStatus(grid, (*(_executor(*it) for it in executors),), Relayed(links, size, (*largest,)))


def _executor(name: str, is_here: bool, since: int, told: Any) -> ExecutorStatus:
    if told is None:
        return ExecutorStatus(name, is_here, moment(since))
    interpreters, used, running, more, lost, last_loss, closed = told
    rows = (*(Running(*row) for row in running),)
    return ExecutorStatus(name, is_here, moment(since), interpreters, used, rows, more, lost, last_loss, closed)


def _executor_json(status: ExecutorStatus) -> dict[str, Any]:
    running = [asdict(it) for it in status.running]
    return {**asdict(status), "since": status.since.isoformat(), "running": running}
