"""Who is compared, and how one sample of each is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple

from bench.transfer import gridftp, phalanx
from bench.transfer.runs import Ends
from bench.transfer.sample import Entry
from bench.transfer.settings import Settings
from bench.transfer.site import Failure, Site

LEVELS = ("clear", "authenticated", "safe", "private")
SYSTEMS = {"phalanx": "phalanx", "gridftp": "GridFTP"}
FULL = Settings(rounds=3, gigabytes=2, files=0, seconds=2)
QUICK = Settings(rounds=1, gigabytes=0.1, files=0, seconds=0.4)

#: So often a peer may fail at a level.
_PATIENCE = 3

Say = Callable[[str], None]


class Cell(NamedTuple):
    """A system with a level, a number of streams, threads at each end (0: GridFTP without a pool), and stripes."""

    system: str
    level: str
    streams: int
    threads: int
    stripes: int = 1


@dataclass
class Samples:
    """GB/s by cell, and why there are none of some."""

    rates: dict[Cell, list[float]] = field(default_factory=dict)
    failures: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def take(self, cell: Cell, sample: Callable[[Cell], float]) -> None:
        """One more; a peer that fails again and again is not asked any more at that level."""
        failures = self.failures.setdefault((cell.system, cell.level), [])
        if len(failures) >= _PATIENCE:
            return
        try:
            rate = sample(cell)
        except Failure as error:
            failures.append(str(error))
        else:
            self.rates.setdefault(cell, []).append(rate)

    def median(self, cell: Cell) -> float | None:
        """In Mbit/s, as the paper; None: not measured."""
        return median(self.rates[cell]) * 8e3 if self.rates.get(cell) else None

    def shown(self, cell: Cell) -> str:
        """The median for people."""
        found = self.median(cell)
        return "-" if found is None else f"{found:,.0f}".replace(",", " ")

    def row(self, head: str, cells: Iterable[Cell]) -> list[str]:
        """Of a table."""
        return [head, *map(self.shown, cells)]

    def words(self) -> list[str]:
        """What could not be measured."""
        return [
            f"{SYSTEMS[system]} {level} failed {len(failures)} times: {failures[-1]}."
            for (system, level), failures in self.failures.items()
            if failures
        ]

    def to_json(self) -> list[dict[str, Any]]:
        """Every sample."""
        return [{**cell._asdict(), "gigabytes_per_second": rates} for cell, rates in self.rates.items()]


def entry(cell: Cell) -> Entry:
    """From memory to memory on this machine. GridFTP between two servers, as in the paper."""
    if cell.system == "phalanx":
        return phalanx.memory(cell.level, cell.streams, cell.threads)
    return gridftp.memory(cell.level, cell.streams, cell.threads, third_party=True)


def measure_here(cells: list[Cell], site: Site, settings: Settings, rounds: int, say: Say) -> Samples:
    """All cells in turn, on this machine."""
    samples = Samples()
    with ExitStack() as stack:
        ends = Ends(site, stack)

        def sample(cell: Cell) -> float:
            return ends.sample(entry(cell), settings).rate or 0.0

        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            for cell in cells:
                samples.take(cell, sample)
    return samples
