"""What all who use a spread space must agree on: its members, and where they keep tuples. Each member that others reach
has it on a card. Who names others would not find tuples that are there, and is refused."""

from __future__ import annotations

import json
import secrets
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from phalanx._native import LocalSpace, RemoteSpace
from phalanx.errors import AccessError, SpaceError
from phalanx.space._engine import Engine
from phalanx.space._placement import placing_positions

#: Spaces that have a card; those of several members of their own, and those at Redis, have none.
CARRIERS = (LocalSpace, RemoteSpace)
#: How spaces are called that only this process knows.
HIDDEN = "in-process:"
#: A placement that says nothing of where a tuple is.
ANYWHERE = "anywhere"


def text_of(names: Sequence[str], placement: str) -> bytes:
    """The card of each member of a space."""
    return _text({"placement": _placement(placement), "members": sorted(names)})


def moving_text(names: Sequence[str], placement: str, former: Sequence[str]) -> bytes:
    """The card of all former and future members while tuples are moved; of each move another one."""
    said = {"placement": _placement(placement), "members": sorted(names), "former": sorted(former)}
    return _text({**said, "move": secrets.token_hex(8)})


def moved_text(names: Sequence[str], placement: str) -> bytes:
    """The card of a former member: who still counts on it is told where the tuples are."""
    return _text({"placement": _placement(placement), "moved": sorted(names)})


def _placement(placement: str) -> str:
    positions = placing_positions(placement)
    return ANYWHERE if positions is None else f"hash({','.join(map(str, positions))})"


def _text(said: dict[str, Any]) -> bytes:
    return json.dumps(said, sort_keys=True).encode()


class Card:
    """The card of a spread space, as this process names it."""

    def __init__(self, names: Sequence[str], placement: str) -> None:
        self._text = text_of(names, placement)
        known = [name for name in names if not name.startswith(HIDDEN)]
        self._shared = len(known) == len(names)
        #: A process that has a space of its own among the members, which no other process knows, names one more than
        #: others do; where tuples may be anywhere, it finds them all the same.
        self._as_others_say = text_of(known, placement) if _placement(placement) == ANYWHERE else self._text

    def agree(
        self, engines: Sequence[Engine], names: Sequence[str], *, anew: bool, reach: Callable[[str], Engine]
    ) -> None:
        """Goes by it at all members; where they have none yet, they have this one. ``anew``: also in place of another
        one, and who was a member before is none any more. Raises SpaceError where members know it otherwise."""
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
        """At a connection that is new. Raises SpaceError where the member knows it otherwise."""
        other = self._other(engine)
        if other:
            _check_rests(name, other)
            raise SpaceError(f"{name} is a member of a space {_words(other)} now: open the space again")
        if other is not None and self._shared:
            self._set(engine, name, other)

    def _other(self, engine: Engine) -> bytes | None:
        """Another card that a member has, empty where it has none; None: it has this one, or it is as others say."""
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
            return  # who may put nothing there loses nothing
        if now is not None:
            raise SpaceError(f"somebody else has just made {name} a member of a space {_words(now)}")


def _dismiss(name: str, card: bytes, reach: Callable[[str], Engine]) -> None:
    """A member that has this card has none any more, if it is there."""
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
    """Raises SpaceError where the card is that of a space whose tuples are being moved."""
    if is_moving(card):
        raise SpaceError(
            f"{name} is to be a member of a space {_words(card)}: its tuples are being moved there now. Open it when "
            "they are; if the move was ended before, run it again"
        )


def is_moving(card: bytes) -> bool:
    """Whether it is the card of a space whose tuples are being moved."""
    with suppress(ValueError, TypeError, RecursionError):
        return "move" in json.loads(card)
    return False


def addresses_on(card: bytes) -> list[str]:
    """All that a card names as present, former or future members."""
    return [*_members(card), *_members(card, "former")]


def moved_to(card: bytes) -> list[str]:
    """Of a former member's card: where the space has moved to."""
    return _members(card, "moved")


def _members(card: bytes, which: str = "members") -> list[str]:
    """The addresses that a card names, which anybody may have written who may replace it."""
    with suppress(ValueError, KeyError, TypeError, RecursionError):
        return [name for name in json.loads(card)[which] if isinstance(name, str) and not name.startswith("redis")]
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
