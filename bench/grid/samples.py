"""What the rows are asked, what they find, and the grids in which they find it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from laboratory.hub import PATIENCE, HubGrid, User
from laboratory.lab import Host, Lab
from laboratory.processes import Process

PROGRAMS = Path(__file__).with_name("programs")
#: What both private networks have, so that addresses mean nothing.
SUBNET = "10.0.0"


@dataclass(frozen=True)
class Settings:
    """How much is measured."""

    rounds: int
    quick: bool
    members: int


@dataclass
class Samples:
    """What was found: every sample of each figure, and what one must know to judge them."""

    values: dict[str, list[float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def put(self, name: str, value: float) -> None:
        """Add a sample."""
        self.values.setdefault(name, []).append(value)


@contextmanager
def hub() -> Iterator[HubGrid]:
    """A lab with a hub, which is no executor."""
    with Lab(quiet=True) as lab:
        yield HubGrid(lab.host("hub"))


@contextmanager
def two_networks() -> Iterator[tuple[User, Sequence[Host]]]:
    """A user behind a NAT, and two machines behind another one. Their routers let out connections to port 443 only."""
    with hub() as grid:
        lab = grid.host.lab
        office = lab.nat("office", subnet=SUBNET, ports=[443], symmetric=True)
        attic = lab.nat("attic", subnet=SUBNET, ports=[443], symmetric=True)
        yield grid.user(lab.host("desk", office)), [lab.host(name, attic) for name in ("left", "right")]


def program(user: User, name: str, *words: object) -> Process:
    """Start one of the programs at the user's desk."""
    return user.desk.popen([sys.executable, str(PROGRAMS / name), *map(str, words)])


def figures(process: Process, count: int = 1) -> list[float]:
    """The numbers that a program prints in its line `figures`."""
    numbers = [float(word) for word in process.line("figures ", timeout=PATIENCE).split()[1:]]
    assert len(numbers) == count, process.report()
    return numbers
