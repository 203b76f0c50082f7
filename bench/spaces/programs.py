"""The case studies of paper 002 in processes on this machine: examples/linda, with our spaces and with Redis'."""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

import phalanx as px

from bench.spaces.settings import Settings
from examples.linda.matrix_blocks import MatrixBlocks
from examples.linda.matrix_rows import MatrixRows
from examples.linda.ocean import Ocean
from examples.linda.password_search import PasswordSearch
from examples.linda.places import Place, Program, run
from examples.linda.search import VISITED
from examples.linda.sorting import Sorting
from laboratory.redis_server import RedisServer

Samples = dict[str, tuple[list[float], "list[float] | None"]]


def search(settings: Settings, redis: RedisServer | None) -> Samples:
    """Seconds."""
    return {"total": _totals(PasswordSearch(10_000), 2, settings, redis)}


def matrix(settings: Settings, redis: RedisServer | None) -> Samples:
    """Seconds with ten, over one spread space, and how much slower that is than with one; and as the paper's listing
    searches."""
    ten = _totals(MatrixRows(100, order="spread"), 10, settings, redis)
    one = _totals(MatrixRows(100, order="spread"), 1, settings, redis)
    listing = _totals(MatrixRows(100), 10, settings, redis)
    theirs = [median(ten[1]) / median(one[1])] if ten[1] and one[1] else None
    return {"total": ten, "slower": ([median(ten[0]) / median(one[0])], theirs), "listing": listing}


def ocean(settings: Settings, redis: RedisServer | None) -> Samples:
    """Seconds with two and ten."""
    return {str(crew): _totals(Ocean(600), crew, settings, redis) for crew in (2, 10)}


def blocks(settings: Settings, redis: RedisServer | None) -> Samples:
    """Seconds."""
    return {"total": _totals(MatrixBlocks(100, 10), 2, settings, redis)}


def sort(settings: Settings, redis: RedisServer | None) -> Samples:
    """Seconds."""
    return {"total": _totals(Sorting(1_000_000), 2, settings, redis)}


def visited(settings: Settings, redis: RedisServer | None) -> Samples:
    """Spaces visited per search; who keeps the spaces makes no difference to it."""
    return {order: ([_visited(PasswordSearch(10_000, order=order), redis)], None) for order in ("spread", "listing")}


def _totals(
    program: Program, crew: int, settings: Settings, redis: RedisServer | None
) -> tuple[list[float], list[float] | None]:
    ours, theirs = [], []
    for _ in range(min(3, settings.rounds)):
        ours.append(run(program, crew, Place("processes")))
        if redis:
            theirs.append(run(program, crew, Place("processes", redis=redis.unix)))
    return ours, theirs or None


def _visited(program: Program, redis: RedisServer | None) -> float:
    with tempfile.TemporaryDirectory() as folder:
        run(program, 10, Place("threads", figures=Path(folder)))
        return px.profile.merge(folder)[VISITED].mean
