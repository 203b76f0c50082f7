"""Which members serve a space."""

from __future__ import annotations

from phalanx._native import RemoteSpace
from phalanx.errors import SpaceError
from phalanx.space._engine import Engine
from phalanx.space._replicas import Replicas
from phalanx.space._spread import Spread


def servers_of(engine: Engine) -> dict[str, tuple[str, str]]:
    """For the address of each server of a space: the name in the server's certificate, and the name of the space there.

    Servers without a known name are left out. A replicated space has all of its members here, because any of them may
    lead it later.
    """
    if isinstance(engine, Replicas):
        return servers_of(engine.leader)
    if isinstance(engine, Spread):
        return {place: served for one in engine.engines for place, served in servers_of(one).items()}
    if not isinstance(engine, RemoteSpace) or engine.place.startswith("unix:"):
        return {}
    try:
        member = engine.server_name()
    except SpaceError:  # its connection has ended
        return {}
    names = dict(zip(engine.members, engine.names_of_members, strict=True)) | {engine.place: member}
    return {place: (name, engine.coordinator[1]) for place, name in names.items() if name}
