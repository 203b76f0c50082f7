"""The engine for an address."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from phalanx import _native
from phalanx._native import LocalSpace
from phalanx.errors import SpaceError
from phalanx.hosts import Hosts, home, read_identity
from phalanx.security import policy_words
from phalanx.space._engine import Engine, Over
from phalanx.space._members import Members
from phalanx.space._placement import placement
from phalanx.space._spread import Spread

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_native.space_was_forked)


class ClosedEngine:
    """Stands behind a space that was closed, so that nothing of it is held."""

    def close(self) -> None:
        """It is."""

    def __getattr__(self, name: str) -> Any:
        raise SpaceError("this space is closed")


def open_engine(address: str | None, objects: bool, options: dict[str, Any]) -> Engine:
    """What does the work of a space. Raises SpaceError where the address is none."""
    if address is None:
        return _here(objects, **options)
    if address.startswith(("redis://", "rediss://", "redis+")):
        # Not before: who has no Redis needs none of it.
        from phalanx.space._redis import RedisEngine

        return RedisEngine(address, objects, options)
    return reach(address, objects, **options)


def _here(objects: bool, durable: bool | str | os.PathLike[str] = False, **options: Any) -> _native.LocalSpace:
    if durable is True:
        raise SpaceError('a durable space in this process needs a directory of its own: durable="PATH"')
    return _native.LocalSpace(options, objects, os.fspath(durable) if durable else None)


def reach(
    address: str,
    objects: bool,
    *,
    identity: str | os.PathLike[str] | None = None,
    policy: Any = "links",
    trusted: tuple[str, ...] | list[str] = (),
    create: bool = True,
    **options: Any,
) -> _native.RemoteSpace:
    """A served space. ``identity``: the user's file, by default user.pem in $PHALANX_HOME or ~/.phalanx, if it is
    there; ``policy``, ``trusted``: what decides the link's level, as a manager's; ``create``: whether a space that is
    not there is made. Raises SpaceError where the server cannot be reached or refuses."""
    if not isinstance(options.get("durable", False), bool):
        raise SpaceError("a served space is kept in its server's directory: say durable=True")
    text = read_identity(identity, "user.pem") if identity or (home() / "user.pem").exists() else None
    words = policy_words(policy, trusted)
    return _native.RemoteSpace(address, options, objects, identity_file=text, policy=words, create=create)


#: Where a space is that needs no network.
_HERE = ("unix:", "127.", "localhost:", "[::1]:")


def members_of(address: str) -> list[str] | None:
    """The addresses that ``HOSTS_FILE/NAME`` stands for: a space with this name at each of the machines; None where
    that is no file."""
    file, _, name = address.rpartition("/")
    return [f"{machine}/{name}" for machine in Hosts(file).addresses] if file and Path(file).is_file() else None


def open_members(members: Sequence[str | Over], where: str, objects: bool, options: dict[str, Any]) -> Spread:
    """One space over the spaces with these addresses. Those that are open already stay so when it is closed."""

    def reach(address: str) -> Engine:
        return open_engine(address, objects, options)

    names = [member if isinstance(member, str) else member.name for member in members]
    if len(set(names)) < len(names):
        raise SpaceError(f"a member is named twice among {', '.join(names)}")
    addresses = [member if isinstance(member, str) else None for member in members]
    engines: list[Engine] = []
    try:
        for member in members:
            engines.append(reach(member) if isinstance(member, str) else member.engine)
        own = next((at for at, engine in enumerate(engines) if isinstance(engine, LocalSpace)), None)
        here = next((at for at, name in enumerate(names) if name.startswith(_HERE)), None)
        return Spread(Members(engines, addresses, reach), names, placement(where, names, own, here, objects))
    except BaseException:
        Members(engines, addresses[: len(engines)], reach).close()
        raise
