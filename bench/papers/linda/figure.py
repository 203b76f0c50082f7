"""One case study measured: tables of all metrics, and plots of those that the paper plots, over the crew's size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any

from bench.papers.linda.cases import METRICS, Case
from bench.papers.muskel.drawing import SHADES, legend
from examples.linda.search import VISITED

#: A colour and a marker for each setting; spaces at Redis are drawn with broken lines.
_LOOKS = {"threads": (SHADES[0], "o"), "processes": (SHADES[2], "s"), "machines": (SHADES[4], "D")}


@dataclass(frozen=True)
class Curve:
    """A setting, and who keeps the spaces: "phalanx" or "redis"."""

    place: str
    engine: str

    @property
    def title(self) -> str:
        """For people."""
        return self.place if self.engine == "phalanx" else f"{self.place}, Redis"


@dataclass
class Point:
    """The runs of one workload with a crew of one size in one setting: each gave the mean of every metric it has."""

    size: str
    crew: int
    curve: Curve
    runs: list[dict[str, float]] = field(default_factory=list)

    def values(self, metric: str) -> list[float]:
        """Of all runs: milliseconds, or numbers of spaces."""
        scale = 1 if metric == VISITED else 1e3
        return [run[metric] * scale for run in self.runs if metric in run]


@dataclass
class CaseFigure:
    """What `bench.papers.muskel.writing` writes."""

    case: Case
    points: list[Point]

    @property
    def title(self) -> str:
        """The case study's."""
        return self.case.title

    @property
    def size(self) -> tuple[float, float]:
        """A row for each metric, a column for each workload."""
        return max(7.0, 1.2 + 4.2 * len(self._sizes())), 0.9 + 2.8 * len(self.case.plotted)

    def tables(self) -> list[list[list[str]]]:
        """One for each workload."""
        return [self._table(size) for size in self._sizes()]

    def words(self) -> list[str]:
        """What the columns are."""
        return [
            f"The paper's figures {self.case.figures}. Times in ms: means of all operations in all processes, as in "
            "the paper; of the runs the median, and the quartiles in brackets (shaded in the plots). Waiting for "
            "a tuple that is not written yet does not count as reading."
        ]

    def to_json(self) -> dict[str, Any]:
        """Every run."""
        points = [
            {"size": point.size, "crew": point.crew, **vars(point.curve), "runs": point.runs} for point in self.points
        ]
        return {"title": self.title, "points": points}

    def draw(self, canvas: Any) -> None:
        """Rows of metrics, columns of workloads, on logarithmic scales as the paper's."""
        sizes = self._sizes()
        axes = canvas.subplots(len(self.case.plotted), len(sizes), squeeze=False, sharex=True, sharey="row")
        for row, metric in zip(axes, self.case.plotted, strict=True):
            for one, size in zip(row, sizes, strict=True):
                self._draw_one(one, metric, size)
        for one, size in zip(axes[0], sizes, strict=True):
            one.set_title(size)
        for row, metric in zip(axes, self.case.plotted, strict=True):
            row[0].set_ylabel(metric if metric == VISITED else f"{metric}, ms")
        for one in axes[-1]:
            one.set_xlabel("size of the crew")
        legend(axes[0][0], "best")

    def _draw_one(self, axes: Any, metric: str, size: str) -> None:
        from matplotlib.ticker import LogLocator, NullFormatter

        for curve, points in self._curves(size):
            drawn = [(point.crew, *_quartiles(values)) for point in points if (values := point.values(metric))]
            colour, marker = _LOOKS[curve.place]
            line = "-" if curve.engine == "phalanx" else "--"
            crews, lows, middles, highs = zip(*drawn, strict=True) if drawn else ((), (), (), ())
            axes.plot(crews, middles, line, color=colour, marker=marker, label=curve.title)
            axes.fill_between(crews, lows, highs, color=colour, alpha=0.2, linewidth=0)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_xticks(list(self.case.crews))

    def _sizes(self) -> list[str]:
        return list(dict.fromkeys(point.size for point in self.points))

    def _curves(self, size: str) -> Iterator[tuple[Curve, Sequence[Point]]]:
        for curve in dict.fromkeys(point.curve for point in self.points):
            yield curve, [point for point in self.points if point.curve == curve and point.size == size]

    def _table(self, size: str) -> list[list[str]]:
        head = [size, "crew", *METRICS]
        rows = [
            [point.curve.title, str(point.crew), *(_shown(point.values(metric)) for metric in METRICS)]
            for _, points in self._curves(size)
            for point in points
        ]
        return [head, *rows]


def _quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """The first quartile, the median and the third quartile."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, _, high = quantiles(values, n=4, method="inclusive")
    return low, median(values), high


def _shown(values: Sequence[float]) -> str:
    if not values:
        return "-"
    low, middle, high = (_number(value) for value in _quartiles(values))
    return f"{middle} ({low}, {high})" if len(values) > 1 else middle


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"
