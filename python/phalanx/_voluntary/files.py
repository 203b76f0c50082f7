"""Files for the owner's account alone, written in one step."""

from __future__ import annotations

from pathlib import Path

from phalanx import _native

#: Others must not read what runs on the machine, for whom.
_MODE = 0o700


def write(file: Path, text: str) -> None:
    """Writes a file, in a folder that is made if there is none. A reader never finds half of it."""
    file.parent.mkdir(mode=_MODE, parents=True, exist_ok=True)
    with _native.LockedFolder(file.parent) as locked:
        locked.replace(file, text + "\n")
