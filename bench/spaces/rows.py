"""What is measured: each row with the figure that phalanx wants to reach, in the order in which they are printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.spaces import memory, own, programs, remote
from bench.spaces.settings import Settings
from laboratory.redis_server import RedisServer

#: The samples of one figure, ours and Redis'; None where there is nothing to compare with.
Samples = dict[str, "tuple[list[float], list[float] | None]"]


@dataclass(frozen=True)
class Figure:
    """``reach``: at least or at most so much, in ``unit``; None: shown for comparison."""

    what: str
    unit: str
    reach: float | None
    higher_is_better: bool = False


@dataclass(frozen=True)
class Row:
    """Figures that one measurement gives, by the names in its samples."""

    measure: Callable[[Settings, RedisServer | None], Samples]
    figures: dict[str, Figure]


ROWS: dict[str, Row] = {
    "own": Row(
        own.operations,
        {
            "out": Figure("out in one's own space of 100k tuples", "µs", 2),
            "rdp": Figure("rdp by key, the same", "µs", 2),
            "inp": Figure("inp by key, the same", "µs", None),
        },
    ),
    "million": Row(
        own.million,
        {
            "out": Figure("out at 1M tuples / at 100k", "×", 1.1),
            "rdp": Figure("rdp by key at 1M tuples / at 100k", "×", 1.1),
        },
    ),
    "other": Row(
        remote.operations,
        {
            "unix rdp": Figure("rdp at another process, unix socket", "µs", 20),
            "unix inp": Figure("inp, the same", "µs", 20),
            "tcp rdp": Figure("rdp at another process, TCP", "µs", 35),
            "tcp inp": Figure("inp, the same", "µs", 35),
        },
    ),
    "clients": Row(remote.two_clients, {"rate": Figure("rdp by two clients at once", "/s", 60_000, True)}),
    "blob": Row(
        remote.blobs,
        {
            "out": Figure("out of 64 KiB to another process", "µs", 70),
            "in": Figure("in_ of 64 KiB from another process", "µs", 70),
        },
    ),
    "woken": Row(remote.woken, {"one way": Figure("out to return of a blocked in_, two processes", "µs", 60)}),
    "private": Row(remote.private, {"ratio": Figure("rdp over a private link / over a clear one", "×", 1.15)}),
    "search": Row(programs.search, {"total": Figure("password search 10k, crew of 2", "s", 0.06)}),
    "matrix": Row(
        programs.matrix,
        {
            "total": Figure("matrix 100 by rows, crew of 10, a spread space", "s", 1.0),
            "slower": Figure("the same / crew of 1", "×", 1.0),
            "listing": Figure("crew of 10, spaces searched as in the paper's listing", "s", None),
        },
    ),
    "ocean": Row(
        programs.ocean,
        {"2": Figure("ocean 600, crew of 2", "s", 0.30), "10": Figure("ocean 600, crew of 10", "s", 0.45)},
    ),
    "blocks": Row(programs.blocks, {"total": Figure("matrix 100 by blocks of 10, crew of 2", "s", 0.20)}),
    "sort": Row(programs.sort, {"total": Figure("sort 1M, crew of 2", "s", 0.08)}),
    "visited": Row(
        programs.visited,
        {
            "spread": Figure("spaces visited per search, crew of 10, a spread space", "", 1.2),
            "listing": Figure("the same, in the order of the paper's listing", "", None),
        },
    ),
    "memory": Row(memory.per_tuple, {"ratio": Figure("memory of a small tuple / its encoded size", "×", 3.0)}),
}

Results = dict[str, dict[str, Any]]
