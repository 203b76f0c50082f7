"""Null calls through the standard library's names: `map`, and `submit` with `as_completed`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, cast

from bench.peers.interface import Caller, Farm
from bench.peers.settings import Settings
from bench.peers.work import give_back


def map_rate(farm: Farm, settings: Settings) -> dict[str, Any]:
    """Return calls of `map` per second, a sample for each repeat."""
    return _rates(partial(cast(Caller, farm).map, give_back), settings)


def submit_rate(farm: Farm, settings: Settings) -> dict[str, Any]:
    """Return calls per second of which each was submitted, and each result taken as it was completed."""
    return _rates(partial(cast(Caller, farm).submit_all, give_back), settings)


def _rates(call: Callable[[range], Iterable[int]], settings: Settings) -> dict[str, Any]:
    count = 50
    while count / (rate := _rate(call, count)) < settings.seconds:
        count = round(min(max(rate * settings.seconds * 1.3, count * 1.5), count * 10))
    return {"rate": [_rate(call, count) for _ in range(settings.repeats)]}


def _rate(call: Callable[[range], Iterable[int]], count: int) -> float:
    """Return calls per second, first one made to last result had."""
    begin = time.perf_counter()
    total = sum(call(range(count)))
    elapsed = time.perf_counter() - begin
    if total != sum(range(count)):
        raise RuntimeError("results were lost or repeated")
    return count / elapsed
