"""Speedup by number of interpreters, for programs of several grains: what figures 3 and 4, right, are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from bench.papers.muskel.places import Place, Unfit
from bench.papers.muskel.sampling import speedup, transfer_seconds
from bench.papers.muskel.settings import KIB, Settings
from bench.papers.muskel.work import WORKS, sequential_seconds

Say = Callable[[str], None]


@dataclass
class Point:
    """The speedups reached with so many interpreters; `work` is "busy" or "asleep"."""

    interpreters: int
    work: str
    samples: list[float] = field(default_factory=list)

    @property
    def speedup(self) -> float:
        """The median."""
        return median(self.samples)


@dataclass
class Curve:
    """Instructions of `seconds` (Tw), `grain` times what their transfer takes, over links of `level` (see LEVELS)."""

    level: str
    grain: float
    seconds: float
    kib: float
    points: list[Point]

    @property
    def g(self) -> str:
        """The grain, as short as it can be told."""
        return f"{self.grain:.0f}" if self.grain >= 10 else f"{self.grain:.2g}"

    @property
    def legend(self) -> str:
        """As in the paper: the average Tw, and the data to and fro."""
        return f"W = {shown_seconds(self.seconds)} / C = {self.kib:g}K"

    def to_json(self) -> dict[str, Any]:
        """Everything, also the single samples."""
        return asdict(self)


def shown_seconds(seconds: float) -> str:
    """Three digits in a unit that suits."""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"


Degrees = Sequence[tuple[int, str]]


def degrees(place: Place, settings: Settings) -> Degrees:
    """How many interpreters, as far as the place has them, and whether they can be busy all at once."""
    most = place.capacity(place.local)
    return [(degree, place.work(degree)) for degree in sorted({min(degree, most) for degree in settings.degrees})]


def new_curve(settings: Settings, steps: Degrees, level: str, grain: float, seconds: float) -> Curve:
    """A curve without samples."""
    points = [Point(degree, work) for degree, work in steps]
    return Curve(level, grain, seconds, 2 * settings.data / KIB, points)


def transfers(place: Place, settings: Settings, levels: Sequence[str]) -> dict[str, float]:
    """Tc by level, in seconds: medians of single transfers, one of each level in turn. Unfit where that cannot be."""
    if place.capacity(place.local[:1]) < len(levels):
        raise Unfit(f"{place.local[0]} must offer {len(levels)} interpreters, one for each kind of link")
    with ExitStack() as stack:
        managers = {
            level: stack.enter_context(place.manager(place.local[:1], level=level, degree=1)) for level in levels
        }
        return transfer_seconds(managers, settings.data, settings.seconds * settings.rounds)


def measure(place: Place, settings: Settings, curves: Sequence[Curve], say: Say) -> None:
    """Take the samples of all curves, in turn, so that what is compared was measured within seconds."""
    steps = [(point.interpreters, point.work) for point in curves[0].points]
    needed = {(work, curve.seconds) for curve in curves for _, work in steps}
    alone = {each: sequential_seconds(WORKS[each[0]], each[1]) for each in needed}
    for number in range(settings.rounds):
        for at, (degree, work) in enumerate(steps):
            say(f"round {number + 1} of {settings.rounds}: {degree} interpreters, {work}")
            for level in dict.fromkeys(curve.level for curve in curves):
                with place.manager(place.local, level=level, degree=degree) as manager:
                    for curve in (each for each in curves if each.level == level):
                        count = degree * max(settings.least, round(settings.seconds / curve.seconds))
                        args = WORKS[work], curve.seconds, settings.data, count, alone[work, curve.seconds]
                        curve.points[at].samples.append(speedup(manager, *args))


def hollow(curves: Sequence[Curve]) -> list[str]:
    """What hollow marks are, where there are some."""
    if not any(point.work == "asleep" for curve in curves for point in curve.points):
        return []
    return ["Hollow marks: more interpreters than cores; their instructions sleep instead of computing."]


def rows(curves: Sequence[Curve]) -> list[list[str]]:
    """The head and a row for each curve, for a table."""
    head = ["", "G", "program", *(f"{point.interpreters} {point.work}" for point in curves[0].points)]
    lines = [[c.level, c.g, c.legend, *(f"{point.speedup:.2f}" for point in c.points)] for c in curves]
    return [head, *lines]
