"""The members of a space that is spread."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phalanx._native import LocalSpace
from phalanx.errors import SpaceError
from phalanx.hosts import Hosts
from phalanx.space._engine import Engine
from phalanx.space._placement import placement
from phalanx.space._spread import Spread

if TYPE_CHECKING:
    from phalanx.space._space import Space

#: Where a space is that needs no network.
_HERE = ("unix:", "127.", "localhost:", "[::1]:")


def members_of(address: str) -> list[str] | None:
    """The addresses that ``HOSTS_FILE/NAME`` stands for: a space with this name at each of the machines; None where
    that is no file."""
    file, _, name = address.rpartition("/")
    return [f"{machine}/{name}" for machine in Hosts(file).addresses] if file and Path(file).is_file() else None


def open_members(members: Sequence[str | Space], where: str, objects: bool, options: dict[str, Any]) -> Spread:
    """One space over the spaces with these addresses. Those that are open already stay so when it is closed."""
    from phalanx.space._open import open_engine

    engines: list[Engine] = []
    opened: list[Engine] = []
    try:
        for member in members:
            if isinstance(member, str):
                opened.append(open_engine(member, objects, options))
                engines.append(opened[-1])
            else:
                engines.append(member.engine)
        names = [member if isinstance(member, str) else member.name for member in members]
        if len(set(names)) < len(names):
            raise SpaceError(f"a member is named twice among {', '.join(names)}")
        own = next((at for at, engine in enumerate(engines) if isinstance(engine, LocalSpace)), None)
        here = next((at for at, name in enumerate(names) if name.startswith(_HERE)), None)
        return Spread(engines, names, placement(where, names, own, here, objects), opened)
    except BaseException:
        for engine in opened:
            engine.close()
        raise
