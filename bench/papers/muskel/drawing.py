"""What the plots have in common. Only `write` imports matplotlib, so that tables can be had without it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.papers.muskel.settings import shown_size

if TYPE_CHECKING:
    from bench.papers.muskel.curves import Curve, Point
    from bench.papers.muskel.fig5 import Mix

#: A colour for each level, cold to warm as protection grows, and the markers that tell them apart in print.
COLOURS = {"plain": "#1b7f8c", "authenticated": "#7a9e3b", "safe": "#e0a030", "secure": "#c2384a"}
MARKERS = {"plain": "o", "authenticated": "^", "safe": "D", "secure": "s"}
#: Coarse to fine grains.
SHADES = ["#0b2f4a", "#1f6f8b", "#4fa58a", "#c99a2e", "#d2603a", "#8c2f39"]
INK, FAINT = "#22303c", "#8a96a0"
STYLE = {
    "axes.axisbelow": True,
    "axes.edgecolor": FAINT,
    "axes.grid": True,
    "axes.labelcolor": INK,
    "axes.labelsize": 11,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlepad": 12,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "font.family": "sans-serif",
    "font.size": 10,
    "grid.color": "#e6eaee",
    "legend.fontsize": 9,
    "legend.frameon": False,
    "lines.linewidth": 2.0,
    "lines.markersize": 7,
    # No date and no random names in the files: the same figures make the same bytes.
    "svg.hashsalt": "phalanx",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def missing() -> str | None:
    """What to install for plots; None when it is there."""
    if importlib.util.find_spec("matplotlib") is None:
        return "no plots, only tables: matplotlib is not installed; it is in the extra bench"
    return None


def write(stem: Path, size: tuple[float, float], title: str, note: str, draw: Callable[[Any], None]) -> None:
    """Write `stem`.png and `stem`.svg with a title above what `draw` puts on the canvas, and a note below."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        canvas = Figure(figsize=size, layout="constrained", facecolor="white")
        FigureCanvasAgg(canvas)
        canvas.suptitle(title, x=0.012, ha="left", fontsize=15, fontweight="bold")
        canvas.supxlabel(note, x=0.012, ha="left", fontsize=8.5, color=FAINT)
        draw(canvas)
        canvas.savefig(stem.with_suffix(".png"), dpi=160)
        canvas.savefig(stem.with_suffix(".svg"), metadata={"Date": None})


def shades(count: int) -> list[str]:
    """Colours for so many grains, coarse to fine."""
    return [SHADES[at % len(SHADES)] for at in range(count)]


def speedup_axes(axes: Any, points: Sequence[Point], *, title: str = "") -> None:
    """The paper's axes, and its ideal line."""
    most = points[-1].interpreters
    axes.set(title=title, xlabel="number of interpreters", ylabel="speedup")
    axes.set_xticks([point.interpreters for point in points])
    axes.set_yticks([0, *(point.interpreters for point in points if point.interpreters * 8 >= most)])
    axes.set_xlim(0, most * 1.04)
    axes.set_ylim(0, most * 1.3)
    axes.plot([0, most], [0, most], color=FAINT, linestyle=(0, (2, 2)), linewidth=1.2, label="ideal", zorder=1)


def curve(axes: Any, curve: Curve, colour: str, label: str, *, broad: bool = False) -> None:
    """The medians, with a bar from the least to the most sample; hollow where the grains only sleep.

    `broad`: so that a curve drawn later in the same place does not hide it.
    """
    xs, ys = [point.interpreters for point in curve.points], [point.speedup for point in curve.points]
    marker = MARKERS[curve.level]
    width, size = (6, 11) if broad else (2, 7)
    axes.plot(
        xs, ys, color=colour, linewidth=width, marker=marker, markersize=size,
        alpha=0.55 if broad else 1, label=label, clip_on=False,
    )  # fmt: skip
    for point in curve.points:
        axes.vlines(point.interpreters, min(point.samples), max(point.samples), color=colour, linewidth=1)
        if point.work == "asleep":
            axes.plot(
                point.interpreters,
                point.speedup,
                marker=marker,
                markersize=size,
                color=colour,
                markerfacecolor="white",
                markeredgewidth=1.6,
                clip_on=False,
                zorder=5,
            )


def bandwidth_axes(axes: Any, messages: Sequence[int], *, title: str, rate: float | None) -> None:
    """Message sizes on a logarithmic scale, MB/s on a straight one; a line where the network ends."""
    axes.set(title=title, xlabel="message size", ylabel="bandwidth, MB/s")
    axes.set_xscale("log", base=2)
    axes.set_xticks(messages, [shown_size(message) for message in messages])
    axes.minorticks_off()
    if rate:
        axes.axhline(rate / 1e6, color=FAINT, linestyle=(0, (2, 2)), linewidth=1.2, label="the line's rate")


def bandwidth(axes: Any, messages: Sequence[int], rates: Sequence[float], level: str) -> None:
    """One level's line."""
    label = {"plain": "plain (clear)", "secure": "secure (private)"}.get(level, level)
    axes.plot(messages, [rate / 1e6 for rate in rates], color=COLOURS[level], marker=MARKERS[level], label=label)


def mixes(axes: Any, by_size: Mapping[str, Sequence[Mix]]) -> None:
    """Speedup by mix, a bar for each size of data."""
    names = [mix.name for mix in next(iter(by_size.values()))]
    total = max(mix.local + mix.remote for some in by_size.values() for mix in some)
    axes.set(title="Speedup by mix", xlabel="interpreters, local + remote", ylabel="speedup", ylim=(0, total * 1.3))
    axes.axhline(total, color=FAINT, linestyle=(0, (2, 2)), linewidth=1.2, label="ideal")
    axes.grid(visible=False, axis="x")
    step = 0.8 / len(by_size)
    for at, (label, some) in enumerate(by_size.items()):
        xs = [x + (at - (len(by_size) - 1) / 2) * step for x in range(len(names))]
        colour = SHADES[1 + 2 * at % len(SHADES)]
        bars = axes.bar(xs, [mix.speedup for mix in some], width=step * 0.92, color=colour, label=label)
        axes.bar_label(bars, fmt="%.1f", fontsize=8, padding=-12, color="white")
    axes.set_xticks(range(len(names)), names)
    legend(axes)


def shares(axes: Any, local: Sequence[float], remote: Sequence[float], *, title: str) -> None:
    """The share of the tasks that each interpreter got, in percent."""
    axes.set(title=title, xlabel="interpreter", ylabel="share of tasks, %")
    count = len(local) + len(remote)
    kinds = (("local, plain", COLOURS["plain"], local, 0), ("remote, private", COLOURS["secure"], remote, len(local)))
    for label, colour, part, start in (kind for kind in kinds if kind[2]):
        xs = range(start + 1, start + 1 + len(part))
        axes.bar(xs, [share * 100 for share in part], color=colour, width=0.74, label=label)
    axes.axhline(100 / count, color=FAINT, linestyle=(0, (2, 2)), linewidth=1.2, label="equal shares")
    axes.set_xticks(range(1, count + 1))
    axes.set_ylim(0, max([100 / count, *(share * 100 for share in (*local, *remote))]) * 1.5)
    axes.grid(visible=False, axis="x")
    legend(axes)


def legend(axes: Any, corner: str = "upper left") -> None:
    """By default where curves that rise to the right leave room."""
    axes.legend(loc=corner, handlelength=2.4)


def remark(axes: Any, text: str) -> None:
    """A sentence in the lower right corner."""
    axes.text(0.98, 0.04, text, transform=axes.transAxes, ha="right", va="bottom", fontsize=11, fontweight="bold")
