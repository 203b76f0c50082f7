"""A grid that a test's account has joined, and a hub that is a function of the test."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from phalanx import _native
from phalanx._grids import Joined, fingerprint_of_root, write_joined
from phalanx._identities import GRID
from phalanx.errors import RecruitError
from phalanx.members import Row

from laboratory import identities

#: The fingerprint of no root.
ROOT = "0123456789abcdef" * 4


def row(name: str, address: str | None, *, role: str = "executor", is_here: bool = True, **facts: str) -> Row:
    """A member as the native core tells it, which is here since an hour."""
    now = int(time.time())
    return name, role, address, is_here, now - 3600, now + 3600, facts


class FakeHub:
    """Answers as a hub does. ``rows``: the members; None: no hub answers. ``asked``: the identities that asked.
    ``guided``: the grids whose members this process reaches by name. ``sought``: the programs that were asked for, and
    ``found``: what executors answer about them, by their names."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.rows: list[Row] | None = []
        self.asked: list[str | None] = []
        self.renews: Callable[[str], str | None] = lambda text: None
        self.renewed = 0
        self.guided: list[str] = []
        self.sought: list[list[str]] = []
        self.found: dict[str, dict[str, str]] = {}
        patch.setattr(_native, "hub_members", self._members, raising=False)
        patch.setattr(_native, "hub_renew", self._renew, raising=False)
        patch.setattr(_native, "guide_to", lambda dialler, grid, hubs, known: self.guided.append(grid), raising=False)

    def _members(self, dialler: tuple[str | None, ...], hubs: list[str], programs: list[str]) -> list[Row]:
        self.asked.append(dialler[0])
        self._answer(hubs)
        assert self.rows is not None
        if not programs:
            return self.rows
        self.sought.append(programs)
        return [(*it[:6], {**it[6], **self._told(it[0], programs)}) for it in self.rows]

    def _told(self, name: str, programs: list[str]) -> dict[str, str]:
        answers = self.found.get(name, {})
        return {f"has {program}": answers[program] for program in programs if program in answers}

    def _renew(self, text: str, file: str, hubs: list[str]) -> str | None:
        assert Path(file).read_text() == text
        self._answer(hubs)
        self.renewed += 1
        return self.renews(text)

    def _answer(self, hubs: list[str]) -> None:
        assert hubs[0] == "10.0.0.5:7400"  # a hub that phalanx up starts has several
        if self.rows is None:
            raise RecruitError("10.0.0.5:7400: no hub listens there (start one with: phalanx up)")


def join(home: Path, identity: str, name: str = "lab", role: str = "user") -> Joined:
    """Makes the folder of a grid, as ``phalanx join`` does. ``identity``: the text of the identity file."""
    root = fingerprint_of_root(identity)
    joined = Joined(name, home / "grids" / name, name, ("10.0.0.5:7400",), root)
    write_joined(joined)
    assert (joined.folder / GRID).exists()
    identities.write(joined.folder / f"{role}.pem", identity)
    return joined
