"""The card of a spread space: its members and its placement, on which all its clients must agree.

Each member that other processes reach keeps the card. A client that names other members or another placement is
refused, because it would not find existing tuples."""

from __future__ import annotations

import json
import secrets
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from phalanx._native import LocalSpace, RemoteSpace
from phalanx.errors import AccessError, SpaceError
from phalanx.space._elsewhere import is_elsewhere
from phalanx.space._engine import Engine
from phalanx.space._placement import placing_positions

#: Engines with a card. Spaces with several members of their own, and spaces in Redis, have none.
CARRIERS = (LocalSpace, RemoteSpace)
#: Prefix of the names of spaces that only this process knows.
HIDDEN = "in-process:"
#: The placement on a card if a tuple may be at any member.
ANYWHERE = "anywhere"


def text_of(names: Sequence[str], placement: str) -> bytes:
    """The card of each member of a space."""
    return _text({"placement": _placement(placement), "members": sorted(names)})


def moving_text(names: Sequence[str], placement: str, former: Sequence[str]) -> bytes:
    """The card of all former and future members while tuples are moved. Each move has a different one."""
    said = {"placement": _placement(placement), "members": sorted(names), "former": sorted(former)}
    return _text({**said, "move": secrets.token_hex(8)})


def moved_text(names: Sequence[str], placement: str) -> bytes:
    """The card of a former member. It tells clients of the old members where the tuples are now."""
    return _text({"placement": _placement(placement), "moved": sorted(names)})


def _placement(placement: str) -> str:
    positions = placing_positions(placement)
    return ANYWHERE if positions is None else f"hash({','.join(map(str, positions))})"


def _text(said: dict[str, Any]) -> bytes:
    return json.dumps(said, sort_keys=True).encode()


class Card:
    """The card of a spread space as this process expects it."""

    def __init__(self, names: Sequence[str], placement: str) -> None:
        self._text = text_of(names, placement)
        known = [name for name in names if not name.startswith(HIDDEN)]
        self._shared = len(known) == len(names)
        #: The card without the spaces that only this process knows. A process with such a space among the members names
        #: one member more than others do. It still finds all tuples if they may be anywhere.
        self._as_others_say = text_of(known, placement) if _placement(placement) == ANYWHERE else self._text

    def agree(
        self, engines: Sequence[Engine], names: Sequence[str], *, anew: bool, reach: Callable[[str], Engine]
    ) -> None:
        """Checks the card at all members, and gives it to members without a card. ``anew``: also replaces other cards,
        and dismisses former members. Raises SpaceError if a member has another card."""
        found = {at: other for at, engine in enumerate(engines) if (other := self._other(engine)) is not None}
        wrong = {at: other for at, other in found.items() if other}
        for at, other in wrong.items():
            _check_rests(names[at], other)
        if wrong and not anew:
            at, other = next(iter(wrong.items()))
            known = f"{names[at]} is a member of a space {_words(other)}, not of one {_words(self._text)}"
            raise SpaceError(
                f"{known}: tuples would not be found (phalanx space move makes this the space, and moves them; "
                "new_members=True moves nothing)"
            )
        if self._shared:
            for at, other in found.items():
                self._set(engines[at], names[at], other)
            former = {name: card for card in wrong.values() for name in _members(card) if name not in names}
            for name, card in former.items():
                _dismiss(name, card, reach)

    def go_by(self, engine: Engine, name: str) -> None:
        """Checks the card at a new connection to a member. Raises SpaceError if the member has another card."""
        other = self._other(engine)
        if other:
            _check_rests(name, other)
            raise SpaceError(f"{name} is a member of a space {_words(other)} now: open the space again")
        if other is not None and self._shared:
            self._set(engine, name, other)

    def _other(self, engine: Engine) -> bytes | None:
        """The different card that a member has; empty if it has none. None if it has this card, or the one without the
        spaces that only this process knows."""
        if not isinstance(engine, CARRIERS):
            return None
        other = engine.go_by(self._text)
        return engine.go_by(other) if other == self._as_others_say else other

    def _set(self, engine: Engine, name: str, other: bytes) -> None:
        if not isinstance(engine, CARRIERS):
            return
        try:
            now = engine.go_by(self._text, other)
        except AccessError:
            return  # a client without the right to put tuples cannot lose any
        if now is not None:
            raise SpaceError(f"somebody else has just made {name} a member of a space {_words(now)}")


def _dismiss(name: str, card: bytes, reach: Callable[[str], Engine]) -> None:
    """Removes this card from a former member, if the member can be reached."""
    try:
        engine = reach(name)
    except SpaceError as error:
        warnings.warn(f"a former member was not told that it is none any more: {error}", RuntimeWarning, stacklevel=5)
        return
    try:
        if isinstance(engine, CARRIERS):
            engine.go_by(b"", card)
    finally:
        engine.close()


def _check_rests(name: str, card: bytes) -> None:
    """Raises SpaceError if the card says that tuples are being moved."""
    if is_moving(card):
        raise SpaceError(
            f"{name} is to be a member of a space {_words(card)}: its tuples are being moved there now. Open it when "
            "they are; if the move was ended before, run it again"
        )


def is_moving(card: bytes) -> bool:
    """Whether the card says that tuples are being moved."""
    with suppress(ValueError, TypeError, RecursionError):
        return "move" in json.loads(card)
    return False


def addresses_on(card: bytes) -> list[str]:
    """All addresses that a card names as present, former or future members."""
    return [*_members(card), *_members(card, "former")]


def moved_to(card: bytes) -> list[str]:
    """The members that the space has moved to, from the card of a former member."""
    return _members(card, "moved")


def _members(card: bytes, which: str = "members") -> list[str]:
    """The addresses that a card names. They are not trusted, because any client with the right to replace the card may
    have written them."""
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        return [name for name in json.loads(card)[which] if isinstance(name, str) and not is_elsewhere(name)]
    return []


def _words(card: bytes) -> str:
    try:
        said = json.loads(card)
        if "moved" in said:
            return f"that has moved to {', '.join(said['moved'])}"
        members = f" over {', '.join(said['members'])}" if "members" in said else ""
        return f"with placement {said['placement']}{members}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return "of another version of phalanx"
