"""Measures rows: both sides of each in turn; a peer that cannot be measured is left out with its reason."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bench.transfer.rows import PEERS, Row
from bench.transfer.sample import Entry, Sample
from bench.transfer.settings import Settings
from bench.transfer.site import Failure, Site

#: On Linux a file system in memory.
_MEMORY = Path("/dev/shm")


@dataclass
class Found:
    """Samples by entry, and why some of them, or all, are not there."""

    samples: dict[str, list[Sample]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)


class Ends:
    """A site with the peers' servers, each started when it is first needed."""

    def __init__(self, site: Site, stack: ExitStack) -> None:
        self._site, self._stack = site, stack
        self._servers: dict[str, Any] = {}
        self._reasons: dict[str, str] = {}

    def sample(self, entry: Entry, settings: Settings) -> Sample:
        """One; Failure when the peer is absent or fails."""
        return entry.measure(self._server(entry.peer), self._site, settings)

    def _server(self, name: str) -> Any:
        if reason := self._reasons.get(name) or PEERS[name].missing():
            raise Failure(reason)
        if name not in self._servers:
            try:
                self._servers[name] = self._stack.enter_context(PEERS[name].started(self._site))
            except Failure as error:
                self._reasons[name] = str(error)
                raise
        return self._servers[name]


def measured(row: Row, settings: Settings, say: Callable[[str], None]) -> Found:
    """All rounds of a row."""
    found = Found()
    with ExitStack() as stack:
        where = _MEMORY if _MEMORY.is_dir() else None
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-", dir=where))
        try:
            ends = Ends(stack.enter_context(row.where(Path(folder))), stack)
        except Failure as error:
            found.reasons = dict.fromkeys(row.entries, str(error))
            return found
        for number in range(settings.rounds):
            _round(row, ends, settings, found, partial(_say, say, f"round {number + 1} of {settings.rounds}"))
    return found


def _round(row: Row, ends: Ends, settings: Settings, found: Found, say: Callable[[str], None]) -> None:
    """One sample of each entry. Who failed at first is not asked again, who fails later is measured by the others."""
    for title, entry in row.entries.items():
        if title in found.reasons and title not in found.samples:
            continue
        say(title)
        try:
            sample = ends.sample(entry, settings)
        except Failure as error:
            found.reasons[title] = str(error)
        else:
            found.samples.setdefault(title, []).append(sample)


def _say(say: Callable[[str], None], when: str, title: str) -> None:
    say(f"{when}: {title}")
