"""One sample of one figure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.transfer.settings import Settings
from bench.transfer.site import Site


@dataclass(frozen=True)
class Sample:
    """GB/s; CPU seconds a GB, both ends together; files/s; milliseconds of set-up; MB that crossed.

    None: not measured.
    """

    rate: float | None = None
    cpu: float | None = None
    files: float | None = None
    setup: float | None = None
    crossed: float | None = None


#: Measures with a peer that was started at a site.
Measure = Callable[[Any, Site, Settings], Sample]


@dataclass(frozen=True)
class Entry:
    """A line of the table: who is measured, by its name in `bench.transfer.rows.PEERS`, and how."""

    peer: str
    measure: Measure
