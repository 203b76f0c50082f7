"""A space whose operations are timed: paper 002's writing and reading times, local and remote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import phalanx as px


class Measured:
    """Has the operations that the programs need, and times each with the profiler.

    ``where`` is "local" for the process that made the space, and "remote" for all others (the paper's remark 1). What
    is not there yet has to be waited for, which says nothing of the space: that is timed as "waiting time".
    """

    def __init__(self, space: px.Space, where: str) -> None:
        self.space = space
        self._writing, self._reading = f"{where} writing time", f"{where} reading time"

    def out(self, *fields: Any) -> None:
        """As the space's."""
        with px.profile.timed(self._writing):
            self.space.out(*fields)

    def in_(self, *template: Any, timeout: float | None = None) -> tuple[Any, ...]:
        """As the space's."""
        return self.inp(*template) or self._waited(self.space.in_, template, timeout)

    def rd(self, *template: Any, timeout: float | None = None) -> tuple[Any, ...]:
        """As the space's."""
        return self.rdp(*template) or self._waited(self.space.rd, template, timeout)

    def inp(self, *template: Any) -> tuple[Any, ...] | None:
        """As the space's."""
        with px.profile.timed(self._reading):
            return self.space.inp(*template)

    def rdp(self, *template: Any) -> tuple[Any, ...] | None:
        """As the space's."""
        with px.profile.timed(self._reading):
            return self.space.rdp(*template)

    def _waited(
        self, read: Callable[..., tuple[Any, ...]], template: tuple[Any, ...], timeout: float | None
    ) -> tuple[Any, ...]:
        with px.profile.timed("waiting time"):
            return read(*template, timeout=timeout)
