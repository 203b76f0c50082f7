"""The medians of the samples, and what the figures of phalanx must reach."""

from __future__ import annotations

from statistics import median
from typing import Any, NamedTuple

from bench.peers.registry import PEERS


class Figure(NamedTuple):
    """One kind of figure."""

    title: str
    row: str
    sample: str
    unit: str
    higher_is_better: bool


FIGURES = {
    "rate": Figure("null tasks", "null", "rate", "/s", True),
    "cpu": Figure("CPU per task", "null", "cpu_us", "µs", False),
    "round_trip": Figure("round trip", "round_trip", "us", "µs", False),
    "map": Figure("map", "map", "rate", "/s", True),
    "submit": Figure("submit", "submit", "rate", "/s", True),
    "grain": Figure("grain of 90 %", "grain", "grain_ms", "ms", False),
    "grain_cpu": Figure("by CPU", "grain", "grain_cpu_ms", "ms", False),
    "bytes": Figure("1 MB in, out", "bytes", "mb_per_s", "MB/s", True),
    "bytes_100": Figure("100 MB in, out", "bytes_100", "mb_per_s", "MB/s", True),
    "pipeline": Figure("makespan/ideal", "pipeline", "ratio", "", False),
    "pipeline_cpu": Figure("by CPU", "pipeline", "cpu_ratio", "", False),
    "jump": Figure("grain jumps", "uneven", "jump", "", False),
    "tail": Figure("heavy tail", "uneven", "tail", "", False),
    "pareto": Figure("Pareto", "uneven", "pareto", "", False),
    "phases": Figure("phases", "uneven", "phases", "", False),
    "heavy": Figure("40 MB + 1 s", "heavy", "heavy", "", False),
    "first": Figure("first result", "first", "s", "s", False),
    "rss": Figure("idle RSS", "memory", "rss_mb", "MB", False),
    "pss": Figure("idle PSS", "memory", "pss_mb", "MB", False),
    "idle": Figure("idle CPU", "memory", "idle_cpu_percent", "%", False),
}


class Claim(NamedTuple):
    """What phalanx wants to reach in one figure."""

    what: str
    figure: str
    ours: str  # peer
    theirs: tuple[str, ...]  # the best of these is the other side
    reach: float
    relative: bool  # the reach is of ours / theirs, not of ours


CLEAR_PEERS = ("pool", "processpool", "pipes", "dask", "dask-tuned", "ray", "parsl")
SECURED_PEERS = ("pipes-tls", "dask-tls", "ray-tls")
#: Two runs of the same peer differ by so much.
_NO_WORSE = 1.02
CLAIMS = (
    Claim("null tasks, against Pool with chunksize 1", "rate", "phalanx", ("pool",), 5, True),
    Claim("null tasks, against Pool with its best chunksize", "rate", "phalanx", ("pool-best",), 0.5, True),
    Claim(
        "null tasks, every link private, against ours clear",
        "rate",
        "phalanx-private",
        ("phalanx",),
        0.8,
        True,
    ),
    Claim("one task at a time, round trip", "round_trip", "phalanx", CLEAR_PEERS, 60, False),
    Claim("null tasks by map", "map", "phalanx", ("processpool", "processpool-best", "dask", "ray"), 1e6, False),
    Claim("null tasks by submit, as_completed", "submit", "phalanx", ("processpool", "dask", "ray"), 1e5, False),
    Claim("grain of 90 %, clear", "grain", "phalanx", CLEAR_PEERS, 0.3, False),
    Claim("grain of 90 %, private", "grain", "phalanx-private", SECURED_PEERS, 0.4, False),
    Claim("1 MB in and out, clear, against the best peer", "bytes", "phalanx", CLEAR_PEERS, 1.3, True),
    Claim("100 MB in and out, clear, against the best peer", "bytes_100", "phalanx", CLEAR_PEERS, 1, True),
    Claim("1 MB in and out, private, against the best with TLS", "bytes", "phalanx-private", SECURED_PEERS, 1.3, True),
    Claim("1 MB in and out, private, against ours clear", "bytes", "phalanx-private", ("phalanx",), 0.65, True),
    Claim("filter 0.5 ms + render 1.5 ms, makespan/ideal", "pipeline", "phalanx", CLEAR_PEERS, 1.08, False),
    Claim("2000 × 10 µs, then 8 × 0.5 s, makespan/ideal", "jump", "phalanx", ("pool",), 1.1, False),
    Claim("1 in 100 takes 100 times longer, against Pool", "tail", "phalanx", ("pool",), _NO_WORSE, True),
    Claim("times by Pareto, against Pool", "pareto", "phalanx", ("pool",), _NO_WORSE, True),
    Claim("phases of 20 µs and 10 ms, against Pool", "phases", "phalanx", ("pool",), _NO_WORSE, True),
    Claim("4 × (40 MB + 1 s), makespan/ideal", "heavy", "phalanx", ("pool",), 1.1, False),
    Claim("`python script.py` to first result", "first", "phalanx", CLEAR_PEERS, 0.35, False),
    Claim("resident memory of an idle interpreter", "rss", "phalanx", CLEAR_PEERS, 25, False),
)


def measured(results: dict[str, Any], peer: str, figure: str) -> float | None:
    """Return the median of a figure of a peer, infinite for a grain never reached; None when not measured."""
    row = results.get(peer, {}).get(FIGURES[figure].row)
    return None if row is None else float(median(row[FIGURES[figure].sample]))


def best(results: dict[str, Any], peers: tuple[str, ...], figure: str) -> tuple[str, float] | None:
    """Return which of the peers does best in the figure, and how well."""
    known = [(name, value) for name in peers if (value := measured(results, name, figure)) is not None]
    choose = max if FIGURES[figure].higher_is_better else min
    return choose(known, key=lambda item: item[1]) if known else None


def shown(value: float | None, unit: str) -> str:
    """Return the figure for people, to three digits."""
    if value is None:
        return "-"
    if value == float("inf"):
        return "> 100 ms"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    number = f"{value:,.{digits}f}".replace(",", " ")
    return f"{number} {unit}".strip() if unit != "/s" else number + unit


def title(peer: str) -> str:
    """Return how the table calls a peer."""
    return PEERS[peer].title
