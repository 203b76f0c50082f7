"""Figure 5: mixes of local interpreters, whose links are plain, and remote ones, whose links are private."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

import phalanx as px

from bench.papers.muskel import drawing
from bench.papers.muskel.curves import Say, shown_seconds
from bench.papers.muskel.places import LEVELS, Line, Place, Unfit
from bench.papers.muskel.sampling import speedup
from bench.papers.muskel.settings import Settings, shown_size
from bench.papers.muskel.work import WORKS, sequential_seconds


@dataclass(frozen=True)
class Case:
    """Data of one size, in bytes each way, on one of the place's lines."""

    name: str
    data: int
    line: Line

    @property
    def size(self) -> str:
        """To and fro."""
        return shown_size(2 * self.data)


@dataclass
class Mix:
    """So many interpreters of each kind; `shares` of the tasks, largest first, a list a round."""

    local: int
    remote: int
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
    """Speedups by mix for several sizes of data; instructions take `seconds`."""

    title = "Local and remote interpreters mixed"
    size = (13.0, 5.2)
    mixes: dict[Case, list[Mix]]
    seconds: float
    work: str

    @classmethod
    def measured(cls, place: Place, settings: Settings, say: Say) -> Mixes:
        """Every mix in turn. Unfit where there are not both kinds of machines."""
        if not place.remote:
            raise Unfit("figure 5 needs machines on a network that is not declared trusted, and there are none")
        machines = _machines(place, settings.mixed)
        degree = min(settings.mixed, *(place.capacity(some) for some in machines))
        cases = _cases(place, settings)
        made = cls({case: [] for case in cases}, settings.mixed_seconds, place.work(degree))
        alone = sequential_seconds(WORKS[made.work], made.seconds)
        count = degree * max(settings.least, round(settings.seconds / made.seconds))
        for line in place.lines:
            line.lay()
            for number in range(settings.rounds):
                say(f"round {number + 1} of {settings.rounds}: {len(machines)} mixes, {line.title}")
                for at, some in enumerate(machines):
                    with place.manager(some, level=None, degree=degree) as manager:
                        for case in (case for case in cases if case.line == line):
                            if not made._sample(manager, case, at, count, alone):
                                say(f"left out, the interpreters are others than before: {made.mixes[case][at].name}")
        return made

    def _sample(self, manager: px.Manager, case: Case, at: int, count: int, alone: float) -> bool:
        """Whether it could be taken: not where a machine gave fewer interpreters than in the first round."""
        before = _tasks(manager)
        reached = speedup(manager, WORKS[self.work], self.seconds, case.data, count, alone)
        done = [(local, after - tasks) for (_, tasks), (local, after) in zip(before, _tasks(manager), strict=True)]
        mixes = self.mixes[case]
        if at == len(mixes):
            mixes.append(Mix(sum(local for local, _ in done), sum(not local for local, _ in done)))
        if mixes[at].local != sum(local for local, _ in done):
            return False
        mixes[at].samples.append(reached)
        for kind, shares in ((True, mixes[at].local_shares), (False, mixes[at].remote_shares)):
            shares.append(sorted((tasks / count for local, tasks in done if local == kind), reverse=True))
        return True

    def even(self, case: Case) -> Mix:
        """The mix with the most equal numbers."""
        return min(self.mixes[case], key=lambda mix: abs(mix.local - mix.remote))

    def tables(self) -> list[list[list[str]]]:
        """Rows, the head first."""
        head = ["local + remote", "C", "line", "speedup", "a local one's share", "a remote one's share"]
        return [[head, *(_row(case, mix) for case, mixes in self.mixes.items() for mix in mixes)]]

    def words(self) -> list[str]:
        """What one must know to read it."""
        kind = "sleeping" if self.work == "asleep" else "busy"
        return [
            f"Instructions of {shown_seconds(self.seconds)}, {kind}. Policy: links, the default.",
            *map(_told, self.mixes),
        ]

    def to_json(self) -> dict[str, Any]:
        """Every sample."""
        mixes = [
            {"data": case.name, "bytes": 2 * case.data, "line": case.line.title, **asdict(mix)}
            for case, some in self.mixes.items()
            for mix in some
        ]
        return {"seconds": self.seconds, "work": self.work, "mixes": mixes}

    def draw(self, canvas: Any) -> None:
        """Speedups on the left, the shares of an even mix on the right."""
        speedups, *panels = canvas.subplots(1, 1 + len(self.mixes), width_ratios=(2, *(1 for _ in self.mixes)))
        drawing.mixes(speedups, {f"{case.name.lower()} data, {case.size}": some for case, some in self.mixes.items()})
        for axes, case in zip(panels, self.mixes, strict=True):
            even = self.even(case)
            drawing.shares(axes, *even.shares(), title=f"{case.name}, {even.name}")
            axes.sharey(panels[0])
        for axes in panels[1:]:
            axes.set_ylabel("")


def _cases(place: Place, settings: Settings) -> list[Case]:
    first, last = place.lines[0], place.lines[-1]
    return [
        Case("Small", settings.small, first),
        Case("Large", settings.large, first),
        Case("Huge", settings.huge, last),
    ]


def _told(case: Case) -> str:
    return f"{case.name}: C = {case.size}, on {case.line.title}."


def _machines(place: Place, interpreters: int) -> list[Sequence[str]]:
    """As many machines in every mix, from all local to all remote; of one and one, also both."""
    most = min(len(place.local), len(place.remote), interpreters)
    pairs = [(most - remote, remote) for remote in range(most + 1)] if most > 1 else [(1, 0), (1, 1), (0, 1)]
    return [[*place.local[:local], *place.remote[:remote]] for local, remote in pairs]


def _is_local(interpreter: px.InterpreterSummary) -> bool:
    return interpreter.level == LEVELS["plain"]


def _tasks(manager: px.Manager) -> list[tuple[bool, int]]:
    """Whether it is local, and tasks so far, of each interpreter."""
    return [(_is_local(each), each.tasks) for each in manager.summary().interpreters]


def _row(case: Case, mix: Mix) -> list[str]:
    shares = [f"{sum(shares) / len(shares):.1%}" if shares else "" for shares in mix.shares()]
    return [f"{mix.local} + {mix.remote}", case.size, case.line.title, f"{mix.speedup:.2f}", *shares]
