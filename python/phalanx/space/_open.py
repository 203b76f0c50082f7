"""The engine for an address."""

from __future__ import annotations

import os
from typing import Any

from phalanx import _native
from phalanx.errors import SpaceError
from phalanx.hosts import home, read_identity
from phalanx.security import policy_words
from phalanx.space._engine import Engine

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
        return _native.LocalSpace(options, objects)
    if address.startswith(("redis://", "rediss://", "redis+")):
        # Not before: who has no Redis needs none of it.
        from phalanx.space._redis import RedisEngine

        return RedisEngine(address, objects, options)
    return reach(address, objects, **options)


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
    text = read_identity(identity, "user.pem") if identity or (home() / "user.pem").exists() else None
    words = policy_words(policy, trusted)
    return _native.RemoteSpace(address, options, objects, identity_file=text, policy=words, create=create)
