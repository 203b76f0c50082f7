"""Spaces at servers that are not phalanx's own. The engines come from other packages.

Such a space has an address with a scheme, as in ``redis://HOST:PORT/DATABASE/NAME``. A package names its engine for
each of its schemes, as an entry point in the group ``phalanx.spaces``. The engine is called with the address, whether
objects are pickled, and the options of the space. It returns a :class:`phalanx.space._engine.Engine`.
"""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from typing import Any

from phalanx.errors import SpaceError
from phalanx.space._engine import Engine

_GROUP = "phalanx.spaces"
#: ``unix:`` is an address of phalanx's own servers, also before a path with two slashes.
_SCHEME = re.compile(r"(?!unix:)([a-z][a-z0-9+.\-]*)://")
#: What to install for the schemes that phalanx's documentation names.
_INSTALL = dict.fromkeys(("redis", "rediss", "redis+unix", "redis+cluster"), "pip install 'phalanx-grid[redis]'")


def is_elsewhere(address: str) -> bool:
    """Whether the address has a scheme, so that the space is at a server of another kind."""
    return _SCHEME.match(address) is not None


def is_at_machine(address: str) -> bool:
    """Whether the address begins with a machine: it has no scheme, and is no unix socket."""
    return not address.startswith("unix:") and not is_elsewhere(address)


def open_elsewhere(address: str, objects: bool, options: dict[str, Any]) -> Engine | None:
    """The engine for an address with a scheme. None if there is no such scheme. Raises SpaceError if the package for it
    is not installed."""
    scheme = _SCHEME.match(address)
    if scheme is None:
        return None
    for found in entry_points(group=_GROUP, name=scheme[1]):
        engine: Engine = found.load()(address, objects, options)
        return engine
    if scheme[1] in _INSTALL:
        raise SpaceError(f"spaces at {scheme[1]}:// need another package: {_INSTALL[scheme[1]]}")
    return None
