"""The engine for an address."""

from __future__ import annotations

import os
from typing import Any

from phalanx import _native
from phalanx.errors import SpaceError
from phalanx.space._engine import Engine

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_native.space_was_forked)


def open_engine(address: str | None, objects: bool, options: dict[str, Any]) -> Engine:
    """What does the work of a space. Raises SpaceError where the address is none."""
    if address is None:
        return _native.LocalSpace(options, objects)
    raise SpaceError(f"{address!r} is no address of a space: write host:port/name, unix:path/name or redis://…/name")
