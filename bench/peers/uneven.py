"""Streams of uneven tasks: makespan over what two interpreters that are always busy would need."""

from __future__ import annotations

import random
import time
from typing import Any

from bench.peers.interface import INTERPRETERS, Farm
from bench.peers.settings import Settings
from bench.peers.work import take, weigh_for

_ARRAY_BYTES = 40_000_000
_SEED = 15


def uneven(farm: Farm, settings: Settings) -> dict[str, Any]:
    """Return makespan over ideal of each mix, a sample for each repeat. Times of tasks are seconds."""
    mixes = {
        "jump": [1e-5] * 2000 + [settings.seconds] * 8,
        "tail_spread": ([0.001] * 99 + [0.1]) * 10,
        "tail_sorted": [0.1] * 10 + [0.001] * 990,
        "tail_last": [0.001] * 990 + [0.1] * 10,
        "pareto": _pareto(600),
        "phases": ([2e-5] * 500 + [0.01] * 20) * 8,
    }
    for _ in farm.stream(take, [0.05] * 2 * INTERPRETERS):
        pass
    samples = {name: [_ratio(farm, mix) for _ in range(settings.repeats)] for name, mix in mixes.items()}
    tails = zip(samples["tail_spread"], samples["tail_sorted"], samples["tail_last"], strict=True)
    samples["tail"] = [max(ratios) for ratios in tails]
    return samples


def heavy(farm: Farm, settings: Settings) -> dict[str, Any]:
    """Return makespan over ideal of four tasks that hold 40 MB and take long."""
    import numpy

    seconds = settings.seconds * 2
    tasks = [(numpy.full(_ARRAY_BYTES, number, numpy.uint8), seconds) for number in range(4)]
    for _ in farm.stream(weigh_for, [(array, 0.1) for array, _ in tasks]):
        pass
    ideal = seconds * len(tasks) / INTERPRETERS
    return {"heavy": [_makespan(farm, weigh_for, tasks) / ideal for _ in range(settings.repeats)]}


def _pareto(count: int) -> list[float]:
    """Return times from half a millisecond on, of which a few are most (shape 1.2), none longer than 0.2 s."""
    generator = random.Random(_SEED)
    return [min(0.0005 * generator.paretovariate(1.2), 0.2) for _ in range(count)]


def _ratio(farm: Farm, mix: list[float]) -> float:
    """Return the makespan of a mix over the ideal one."""
    return _makespan(farm, take, mix) / max(sum(mix) / INTERPRETERS, *mix)


def _makespan(farm: Farm, function: Any, tasks: list[Any]) -> float:
    """Return how long (s) the farm takes until it has given the last result."""
    begin = time.perf_counter()
    count = sum(1 for _ in farm.stream(function, tasks))
    elapsed = time.perf_counter() - begin
    if count != len(tasks):
        raise RuntimeError("results were lost or repeated")
    return elapsed
