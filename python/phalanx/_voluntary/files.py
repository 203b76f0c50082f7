"""Files for the owner's account alone, written atomically."""

from __future__ import annotations

from pathlib import Path

from phalanx import _native

#: Other accounts must not read which users' programs run on the machine.
_MODE = 0o700


def write(file: Path, text: str) -> None:
    """Writes a file atomically, so that no reader finds a part of it. Creates its folder if it is missing."""
    file.parent.mkdir(mode=_MODE, parents=True, exist_ok=True)
    with _native.LockedFolder(file.parent) as locked:
        locked.replace(file, text + "\n")
