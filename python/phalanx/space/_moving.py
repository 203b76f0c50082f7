"""Changes the members of a spread space: every tuple is moved to the member that keeps it from then on.

First all former and future members get a card that says that tuples are being moved. From then on, programs that opened
the spread space are refused. Then tuples go from member to member in transactions of a few hundred tuples. So each
tuple is at exactly one of the two members whenever this process ends. When all tuples are in place, and no open
transaction or unacknowledged take could bring others back, the members get their new card. An interrupted move
continues when it is started again, with the same steps.

Tuples travel as bytes that this module does not decode.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from phalanx._native import LocalSpace, RemoteSpace, split_fields
from phalanx.errors import SpaceError
from phalanx.space._card import HIDDEN, addresses_on, moved_text, moved_to, moving_text, text_of
from phalanx.space._commit import commit_parts, promise
from phalanx.space._deadline import deadline, is_over
from phalanx.space._elsewhere import is_elsewhere
from phalanx.space._engine import Engine, Over
from phalanx.space._open import members_of, open_engine, open_former, with_hosts
from phalanx.space._placement import ByFields, placing_positions
from phalanx.space._uninterrupted import Uninterrupted
from phalanx.words import Placement

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from phalanx.space._option_types import MoveOptions

#: Engines whose tuples can be moved. Replicated spaces and spaces in Redis have no card that keeps others out.
Member: TypeAlias = LocalSpace | RemoteSpace
#: The position of a tuple at its member.
Spot: TypeAlias = tuple[int, int, int]

#: Approximate number of tuples and bytes of a transaction. Larger batches spread the cost of round trips and disk
#: writes over more tuples.
BATCH, BATCH_BYTES = 500, 4 << 20
#: Timeout of a transaction in seconds.
PATIENCE = 60.0
#: Seconds between two checks for open transactions and unacknowledged takes.
PAUSE = 0.1
#: Seconds to wait for tuples that are on their way to a client, or in transactions.
WAITING = 150.0
#: The lease of a tuple without one, at a member that gives tuples a lease by default.
FOR_EVER = float("inf")
#: Options that a newly made member copies from an existing one.
SAME = ("order", "lease", "indexes", "boxes", "most_tuple_bytes", "durable", "secure", "group")


def move_tuples(
    members: str | Iterable[str | Over],
    *,
    placement: Placement,
    former: Iterable[str | Over] = (),
    gone: Iterable[str] = (),
    timeout: float = WAITING,
    **options: Unpack[MoveOptions],
) -> int:
    """Makes these the members of a spread space, and moves its tuples to where they are looked for from now on.

    During the move no program can use the spread space. Waiting requests get a SpaceError at once, and so do programs
    that open it, with the old members or the new ones. Interrupting this function ends only the move. It continues when
    the function is called again, with these members or with others. No tuple is lost, and none is there twice.

    Parameters
    ----------
    members : str or iterable of str or Space
        As for a :class:`phalanx.Space`: all members from now on. A missing member is made like the first existing one.
    placement : str
        As for a space. With ``"local"`` and ``"owner"`` only the tuples of members that leave are moved.
    former : iterable of str or Space
        Members that leave and that no card names, as after a move to members that share none with those before. Other
        former members need not be named.
    gone : iterable of str
        Former members that are lost with their tuples. They are not asked.
    timeout : float
        Seconds to wait for tuples that are on their way to a client, or in a transaction.
    **options
        Options of spaces that are made, and of links, as for a space.

    Returns
    -------
    int
        How many tuples were moved.

    Raises
    ------
    SpaceError
        A member cannot be reached, is replicated or in Redis, has tuples without the fields that the placement names,
        or has tuples on their way for too long. Then the space stays closed until it is moved again.
    AccessError
        The caller lacks a right. It needs the rights to make the space, and to read, take and put all tuples.

    Examples
    --------
    >>> import phalanx as px
    >>> one, other = px.Space(), px.Space()
    >>> one.out_many([("x", number) for number in range(100)])
    >>> moved = px.space.move_tuples([one, other], placement="hash(1)", former=[one])
    >>> with px.Space([one, other], placement="hash(1)") as both:
    ...     both.count("x", int)
    100
    """
    placing_positions(placement)  # a wrong word is an error before a member is connected to
    with ExitStack() as opened:
        listed = [*(members_of(members) or [members])] if isinstance(members, str) else list(members)
        told: dict[str, Any] = {**options}
        if isinstance(members, str):
            told = with_hosts(members, told)
        places = _Places(opened, gone, told)
        for member in listed:
            places.add(member, create=True)
        names = list(places.names)
        if len(set(names)) < len(names) or not names:
            raise SpaceError(f"a space has members, and each once: {', '.join(names)}")
        for member in former:
            places.add(member, create=False)
        places.make_missing()
        return _Move(places, names, placement, timeout).run()


class _Places:
    """Former and future members, by their names."""

    def __init__(self, opened: ExitStack, gone: Iterable[str], options: dict[str, Any]) -> None:
        self._opened = opened
        self._gone = set(gone)
        self._options = options
        #: The names of the members, in the order in which they were added.
        self.names: list[str] = []
        self.engines: dict[str, Member] = {}

    def add(self, member: str | Over, *, create: bool) -> None:
        """Adds a member and connects to it. Raises SpaceError if it has no card, or is missing and ``create`` is
        false."""
        name = member if isinstance(member, str) else member.name
        if not create and self.knows(name):
            return
        self.names.append(name)
        if not isinstance(member, str):
            self.engines[name] = _with_card(name, member.engine)
            return
        if is_elsewhere(name):
            raise _without_card(name)
        try:
            engine = open_former(name, self._options)
        except SpaceError as error:
            if not create:
                raise type(error)(
                    f"{name} is to leave, and cannot be reached (if it is lost for good, say gone= or --gone): {error}"
                ) from error
        else:
            self._keep(name, engine)

    def knows(self, name: str) -> bool:
        """Whether the caller or a card has named it."""
        return name in self.names or name in self._gone

    def make_missing(self) -> None:
        """Makes the members that do not exist yet. Raises SpaceError if no member exists."""
        missing = [name for name in self.names if name not in self.engines]
        first = next(iter(self.engines.values()), None)
        if first is None:
            try:
                open_former(missing[0], self._options).close()
            except SpaceError as error:
                raise SpaceError(
                    f"none of the members is there: name a former one, which has tuples ({error})"
                ) from error
        told = first.info()["options"] if first is not None and missing else {}
        like = {name: told[name] for name in SAME if told.get(name)}
        for name in missing:
            self._keep(name, open_engine(name, False, like | self._options))

    def _keep(self, name: str, engine: Engine) -> None:
        self._opened.callback(engine.close)
        self.engines[name] = _with_card(name, engine)


def _with_card(name: str, engine: Engine) -> Member:
    if not isinstance(engine, LocalSpace | RemoteSpace) or getattr(engine, "members", None):
        raise _without_card(name)
    return engine


def _without_card(name: str) -> SpaceError:
    return SpaceError(
        f"{name} is replicated, at Redis, or itself spread, and has no card that keeps programs out while tuples are "
        "moved: stop them, take the tuples with in_all, and put them into the new space"
    )


class _Batch(NamedTuple):
    """Tuples of one member that are to go to the member ``to``."""

    to: str
    spots: list[Spot]


class _Move:
    """One move. It has its own card."""

    def __init__(self, places: _Places, names: list[str], placement: str, timeout: float) -> None:
        self._places = places
        self._names = names
        self._placement = placement
        self._timeout = timeout
        self._target = _Target(names, placement)
        self._leases: dict[str, float | None] = {}

    def run(self) -> int:
        """Runs the whole move and returns how many tuples were moved."""
        engines = self._places.engines
        if any(name.startswith(HIDDEN) for name in self._places.names):  # such a space has no card
            return self._move_all()
        cards = self._read_cards()
        done = text_of(self._names, self._placement)
        if all(cards[name] == done for name in self._names) and self._is_in_place():
            return 0
        moving = moving_text(self._names, self._placement, [name for name in engines if name not in self._names])
        try:
            for name, engine in engines.items():
                _replace(engine, cards[name], moving)
            moved = self._move_all()
            moved_away = moved_text(self._names, self._placement)
            for name in sorted(engines, key=lambda name: name in self._names):
                if engines[name].go_by(done if name in self._names else moved_away, moving) is not None:
                    raise SpaceError(f"another move has begun, as {name} tells")
        except SpaceError as error:
            raise type(error)(
                f"not all tuples were moved, and nobody can open the space until they are; run this again, or move "
                f"them to other members: {error}"
            ) from error
        return moved

    def _read_cards(self) -> dict[str, bytes]:
        """The cards of all members, including members that only a card names. Raises SpaceError if a future member
        belonged to a space that has moved, and nothing tells whether it was this space."""
        cards: dict[str, bytes] = {}
        while rest := [name for name in self._places.names if name not in cards]:
            for name in rest:
                cards[name] = self._places.engines[name].go_by(b"") or b""
                others = addresses_on(cards[name])
                for other in others if name in self._names else [*others, *moved_to(cards[name])]:
                    self._places.add(other, create=False)
        for name in self._names:
            if unknown := [other for other in moved_to(cards[name]) if not self._places.knows(other)]:
                raise SpaceError(
                    f"{name} was a member of a space that has moved to {', '.join(unknown)}: name these as former "
                    "members if their tuples are to be moved, or as gone if not"
                )
        return cards

    def _is_in_place(self) -> bool:
        return not any(batch for name in self._places.engines for batch in self._misplaced(name))

    def _move_all(self) -> int:
        """Moves tuples until none is misplaced and no transaction or take was open before that check. An open one could
        have brought a tuple back."""
        moved, until = 0, deadline(self._timeout)
        while True:
            is_open = self._open()
            count = sum(self._move(name, batch) for name in self._places.engines for batch in self._misplaced(name))
            if count > 0:
                moved, until = moved + count, deadline(self._timeout)
            elif not is_open:
                return moved
            elif is_over(until):
                raise SpaceError(f"tuples are in transactions or on their way at {', '.join(is_open)}")
            if is_open:
                time.sleep(PAUSE)

    def _open(self) -> list[str]:
        """Members with tuples that are invisible now: in transactions or on their way to clients."""
        infos = ((name, engine.info()) for name, engine in self._places.engines.items())
        return [name for name, info in infos if info["transactions"] or info["unacknowledged"]]

    def _misplaced(self, name: str) -> Iterator[_Batch]:
        """The tuples of a member that belong to other members."""
        engine, after, goes_on = self._places.engines[name], None, True
        stays = name if name in self._names else None
        while goes_on:
            page, after = engine.browse(after)
            goes_on = after is not None
            of: dict[str, list[tuple[Spot, int]]] = {}
            for spot, tuple_, *_ in sorted(page, key=lambda item: item[0][2]):  # the oldest first
                to = self._target.of(tuple_, stays)
                if to != name:
                    of.setdefault(to, []).append((spot, len(tuple_)))
            for to, spots in of.items():
                yield from (_Batch(to, batch) for batch in _batches(spots))

    def _move(self, name: str, batch: _Batch) -> int:
        """Moves a batch in one transaction and returns how many of its tuples were still there."""
        source, to = self._places.engines[name], self._places.engines[batch.to]
        lease, number = self._lease_at(batch.to), secrets.randbits(128)
        with Uninterrupted() as ctrl_c:
            try:
                for engine in (source, to):
                    engine.begin(number, PATIENCE, False)
                taken = source.withdraw(batch.spots, number)
                for (own, key, label, priority), items in groupby(taken, key=lambda item: item[2:]):
                    tuples = [tuple_ for _, tuple_, *_ in items]
                    to.put_whole(tuples, lease if own is None else own, key, label, priority, number)
                promises = promise(number, [lambda: source, lambda: to])
                ctrl_c.check()
            except BaseException:
                for engine in (source, to):
                    with suppress(SpaceError):  # an unreachable member aborts by itself
                        engine.abort(number)
                raise
            commit_parts(number, promises)
        return len(taken)

    def _lease_at(self, name: str) -> float | None:
        """The lease for a tuple without one: endless if the member gives tuples a lease by default, else None."""
        if name not in self._leases:
            told = self._places.engines[name].info()["options"]
            self._leases[name] = None if told["lease"] is None else FOR_EVER
        return self._leases[name]


class _Target:
    """Tells which member keeps a tuple from now on."""

    def __init__(self, names: Sequence[str], placement: str) -> None:
        positions = placing_positions(placement)
        self._names = names
        self._by_fields = None if positions is None else ByFields(positions, names, False)
        self._anywhere = ByFields([0], names, False)

    def of(self, tuple_: bytes, stays: str | None) -> str:
        """The member that keeps a tuple, which is given as its bytes. ``stays``: the member that keeps it if the
        placement allows every member."""
        if self._by_fields is not None:
            return self._names[self._by_fields.member_of(split_fields(tuple_))]
        return stays or self._names[self._anywhere.member_of([tuple_])]


def _replace(engine: Member, card: bytes, moving: bytes) -> None:
    """Gives a member the card, whichever card it has now. This ends another move that may be under way."""
    other: bytes | None = card
    while other is not None:
        other = engine.go_by(moving, other)


def _batches(spots: Sequence[tuple[Spot, int]]) -> Iterator[list[Spot]]:
    batch, size = list[Spot](), 0
    for spot, length in spots:
        if batch and (len(batch) == BATCH or size + length > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(spot)
        size += length
    if batch:
        yield batch
