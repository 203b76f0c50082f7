"""A space whose operations are timed: paper 002's writing and reading times, local and remote."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import phalanx as px


class Measured:
    """Offers the operations that the programs need, and times each with the profiler.

    ``where`` is "local" for the process that made the space, and "remote" for all others (the paper's remark 1). The
    wait for a tuple that is not there yet says nothing about the space, so it is timed as "waiting time".
    """

    def __init__(self, space: px.Space, where: str) -> None:
        self.space = space
        self._writing, self._reading = f"{where} writing time", f"{where} reading time"

    def out(self, *fields: Any) -> None:
        """Same as :meth:`phalanx.Space.out`, timed."""
        with px.profile.timed(self._writing):
            self.space.out(*fields)

    def in_(self, *template: Any, timeout: float | None = None) -> tuple[Any, ...]:
        """Same as :meth:`phalanx.Space.in_`, timed."""
        return self.inp(*template) or self._waited(self.space.in_, template, timeout)

    def rd(self, *template: Any, timeout: float | None = None) -> tuple[Any, ...]:
        """Same as :meth:`phalanx.Space.rd`, timed."""
        return self.rdp(*template) or self._waited(self.space.rd, template, timeout)

    def inp(self, *template: Any) -> tuple[Any, ...] | None:
        """Same as :meth:`phalanx.Space.inp`, timed."""
        with px.profile.timed(self._reading):
            return self.space.inp(*template)

    def rdp(self, *template: Any) -> tuple[Any, ...] | None:
        """Same as :meth:`phalanx.Space.rdp`, timed."""
        with px.profile.timed(self._reading):
            return self.space.rdp(*template)

    def _waited(
        self, read: Callable[..., tuple[Any, ...]], template: tuple[Any, ...], timeout: float | None
    ) -> tuple[Any, ...]:
        with px.profile.timed("waiting time"):
            return read(*template, timeout=timeout)
