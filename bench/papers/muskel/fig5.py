"""Figure 5: mixes of local interpreters, whose links are plain, and remote ones, whose links are private."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

import phalanx as px

from bench.papers.muskel import drawing
from bench.papers.muskel.curves import Say, shown_seconds
from bench.papers.muskel.places import LEVELS, Place, Unfit
from bench.papers.muskel.sampling import speedup
from bench.papers.muskel.settings import KIB, Settings
from bench.papers.muskel.work import WORKS, sequential_seconds


@dataclass
class Mix:
    """So many interpreters of each kind, with so much data; `shares` of the tasks, largest first, a list a round."""

    local: int
    remote: int
    kib: float
    samples: list[float] = field(default_factory=list)
    local_shares: list[list[float]] = field(default_factory=list)
    remote_shares: list[list[float]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """As on the plot's axis."""
        return f"{self.local}+{self.remote}"

    @property
    def speedup(self) -> float:
        """The median."""
        return median(self.samples)

    def shares(self) -> tuple[list[float], list[float]]:
        """Medians of what each interpreter got, local and remote."""
        return (
            [median(of_one) for of_one in zip(*self.local_shares, strict=True)],
            [median(of_one) for of_one in zip(*self.remote_shares, strict=True)],
        )


@dataclass
class Mixes:
    """Speedups by mix, small and large data; instructions take `seconds`."""

    title = "Local and remote interpreters mixed"
    size = (12.0, 5.2)
    mixes: list[Mix]
    seconds: float
    work: str
    line: str

    @classmethod
    def measured(cls, place: Place, settings: Settings, say: Say) -> Mixes:
        """Every mix in turn. Unfit where there are not both kinds of machines."""
        if not place.remote:
            raise Unfit("figure 5 needs machines on a network that is not declared trusted, and there are none")
        place.lines[0].lay()
        machines = _machines(place, settings.mixed)
        degree = min(settings.mixed, *(place.capacity(some) for some in machines))
        kind = place.work(degree)
        work = WORKS[kind]
        alone = sequential_seconds(work, settings.mixed_seconds)
        sizes = (settings.small, settings.large)
        found: dict[tuple[int, int], Mix] = {}
        for number in range(settings.rounds):
            say(f"round {number + 1} of {settings.rounds}: {len(machines)} mixes")
            for at, some in enumerate(machines):
                with place.manager(some, level=None, degree=degree) as manager:
                    for data in sizes:
                        mix = found.setdefault((at, data), Mix(*_kinds(manager), 2 * data / KIB))
                        before = _tasks(manager)
                        count = degree * max(settings.least, round(settings.seconds / settings.mixed_seconds))
                        args = work, settings.mixed_seconds, data, count, alone
                        mix.samples.append(speedup(manager, *args))
                        _add_shares(mix, before, _tasks(manager))
        return cls(list(found.values()), settings.mixed_seconds, kind, place.lines[0].title)

    def of(self, kib: float) -> list[Mix]:
        """Those with so much data."""
        return [mix for mix in self.mixes if mix.kib == kib]

    def even(self, kib: float) -> Mix:
        """The mix with the most equal numbers."""
        return min(self.of(kib), key=lambda mix: abs(mix.local - mix.remote))

    @property
    def sizes(self) -> list[float]:
        """KiB to and fro: small, large."""
        return sorted({mix.kib for mix in self.mixes})

    def tables(self) -> list[list[list[str]]]:
        """Rows, the head first."""
        head = ["local + remote", "C", "speedup", "a local one's share", "a remote one's share"]
        return [[head, *(_row(mix) for kib in self.sizes for mix in self.of(kib))]]

    def words(self) -> list[str]:
        """What one must know to read it."""
        kind = "sleeping" if self.work == "asleep" else "busy"
        return [f"On {self.line}. Instructions of {shown_seconds(self.seconds)}, {kind}. Policy: links, the default."]

    def to_json(self) -> dict[str, Any]:
        """Every sample."""
        return {"line": self.line, "seconds": self.seconds, "work": self.work, "mixes": list(map(asdict, self.mixes))}

    def draw(self, canvas: Any) -> None:
        """Speedups on the left, the shares of an even mix on the right."""
        speedups, *panels = canvas.subplots(1, 3, width_ratios=(1.5, 1, 1))
        drawing.mixes(speedups, {f"C = {kib:g}K": self.of(kib) for kib in self.sizes})
        names = ("Small", "Large")
        for axes, kib, name in zip(panels, self.sizes, names, strict=True):
            even = self.even(kib)
            drawing.shares(axes, *even.shares(), title=f"{name} data ({kib:g}K), {even.name}")


def _machines(place: Place, interpreters: int) -> list[Sequence[str]]:
    """As many machines in every mix, from all local to all remote; of one and one, also both."""
    most = min(len(place.local), len(place.remote), interpreters)
    pairs = [(most - remote, remote) for remote in range(most + 1)] if most > 1 else [(1, 0), (1, 1), (0, 1)]
    return [[*place.local[:local], *place.remote[:remote]] for local, remote in pairs]


def _kinds(manager: px.Manager) -> tuple[int, int]:
    local = [_is_local(each) for each in manager.summary().interpreters]
    return sum(local), len(local) - sum(local)


def _is_local(interpreter: px.InterpreterSummary) -> bool:
    return interpreter.level == LEVELS["plain"]


def _tasks(manager: px.Manager) -> list[tuple[bool, int]]:
    """Whether it is local, and tasks so far, of each interpreter."""
    return [(_is_local(each), each.tasks) for each in manager.summary().interpreters]


def _add_shares(mix: Mix, before: Sequence[tuple[bool, int]], after: Sequence[tuple[bool, int]]) -> None:
    done = [(local, tasks - earlier) for (_, earlier), (local, tasks) in zip(before, after, strict=True)]
    total = sum(tasks for _, tasks in done)
    for kind, shares in ((True, mix.local_shares), (False, mix.remote_shares)):
        shares.append(sorted((tasks / total for local, tasks in done if local == kind), reverse=True))


def _row(mix: Mix) -> list[str]:
    shares = [f"{median(shares):.1%}" if shares else "" for shares in mix.shares()]
    return [f"{mix.local} + {mix.remote}", f"{mix.kib:g}K", f"{mix.speedup:.2f}", *shares]
