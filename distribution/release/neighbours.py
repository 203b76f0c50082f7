"""The wheels of the version before, which must work together with the new ones.

They are kept in ``dist/previous/``. Each is installed into an environment of its own. Then a farm, a space and copies
go from each version to the other.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from distribution.release import trying
from distribution.release.building import OUT

PREVIOUS = OUT / "previous"
_VERSION = re.compile(r"phalanx_grid-(\d+\.\d+)\.\d+-")


def state(folder: Path = PREVIOUS) -> str:
    """A hash of the wheels in the folder."""
    digest = hashlib.sha256()
    for wheel in sorted(folder.glob("*.whl")):
        digest.update(wheel.name.encode() + b"\0" + hashlib.sha256(wheel.read_bytes()).digest())
    return digest.hexdigest()


def chosen(wheel: Path, folder: Path = PREVIOUS) -> tuple[list[Path], list[str]]:
    """The earlier wheels that must work together with a wheel, and those that need not, in words.

    Wheels of other machines and of another kind are left out without a word.
    """
    tags = wheel.name.split("-", 2)[2]
    alike = [it for it in sorted(folder.glob("phalanx_grid-*.whl")) if it.name.split("-", 2)[2] == tags]
    own = _VERSION.match(wheel.name)
    near = [it for it in alike if own and (found := _VERSION.match(it.name)) and found[1] == own[1]]
    far = [f"together with {it.name}: another MAJOR.MINOR, so both refuse each other" for it in alike if it not in near]
    if not near:
        far.append(f"together with an earlier version: dist/{folder.name}/ has no wheel of this MAJOR.MINOR")
    return near, far


def trials(wheel: Path, python: Path) -> Iterator[trying.Trial | str]:
    """The wheel with each earlier one, in both directions; in words, what was not tried."""
    near, far = chosen(wheel)
    yield from far
    for other in near:
        yield from trying.between(wheel, other, python)
