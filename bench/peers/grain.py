"""The grain from which a farm reaches 90 % of two unconnected processes, and the makespan of two stages.

Both are ratios to silent processes that compute the same, measured just before, so that what
the machine gives and takes from minute to minute cancels out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from statistics import mean, median
from typing import Any

from bench.peers.interface import INTERPRETERS, Farm
from bench.peers.processes import tree_cpu_seconds
from bench.peers.settings import Settings
from bench.peers.silent import Sample, SilentProcesses
from bench.peers.work import filter_image, give_back, render_image, spin

# Milliseconds of CPU.
LADDER = (0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.9, 1.3, 2, 3, 4.5, 6.5, 10, 15, 20, 30, 45, 70, 100)
REACH = 0.9
_TURNS = 3
_FEWEST_TASKS = 24


def grain(farm: Farm, settings: Settings) -> dict[str, Any]:
    """Return the efficiency at each grain, and the grain (ms) where it crosses 90 %, infinite if never.

    Goes up the ladder, leaves out steps that the one before makes hopeless, ends after two above 90 %.
    """
    limit = null_rate(farm)
    steps: list[dict[str, float]] = []
    hopeless = 0.0
    for milliseconds in LADDER:
        if milliseconds < min(hopeless, LADDER[-2]):
            continue
        steps.append(_step(farm, milliseconds, limit, settings))
        hopeless = _expected(milliseconds, steps[-1]["efficiency"]) / 4
        if len(steps) > 1 and min(step["efficiency"] for step in steps[-2:]) >= REACH:
            break
    return {
        "grain_ms": [crossing([(step["ms"], step["efficiency"]) for step in steps])],
        "grain_cpu_ms": [crossing([(step["ms"], step["cpu_efficiency"]) for step in steps])],
        "steps": steps,
    }


def _expected(ms: float, efficiency: float) -> float:
    """Return the grain of 90 % of a farm that adds the same cost to every task."""
    cost = ms * (1 / efficiency - 1)
    return cost * REACH / (1 - REACH)


def _step(farm: Farm, ms: float, limit: float, settings: Settings) -> dict[str, float]:
    """Measure one grain: silent processes and farm in turn, the farm against the mean of before and after."""
    seconds = settings.seconds / _TURNS
    count = max(round(min(INTERPRETERS * 1000 / ms, limit) * seconds), _FEWEST_TASKS)
    tasks = [ms] * count
    with SilentProcesses() as silent:
        alone = [silent.sample(ms, 0, seconds)]
        reached = []
        for _ in range(_TURNS):
            reached.append(_sample(lambda: farm.stream(spin, tasks), count))
            alone.append(silent.sample(ms, 0, seconds))
    return {
        "ms": ms,
        "efficiency": 1 / median(_slowdowns(reached, alone)),
        "cpu_efficiency": 1 / _cpu_ratio(reached, alone),
        "silent_speedup": median(sample.rate for sample in alone) * ms / 1000,
    }


def _sample(give: Callable[[], Iterator[Any]], count: int) -> Sample:
    """Give so many tasks to a farm and take all its results; some compute before they return the iterator."""
    before, begin = tree_cpu_seconds(), time.perf_counter()
    delivered = sum(1 for _ in give())
    elapsed = time.perf_counter() - begin
    if delivered != count:
        raise RuntimeError(f"{delivered} results for {count} tasks")
    return Sample(count / elapsed, (tree_cpu_seconds() - before) / count)


def _slowdowns(reached: list[Sample], alone: list[Sample]) -> list[float]:
    """Return how many times longer than silent processes, the mean of before and after, the farm took each time."""
    return [(a.rate + b.rate) / 2 / farm.rate for farm, (a, b) in zip(reached, pairwise(alone), strict=True)]


def _cpu_ratio(reached: list[Sample], alone: list[Sample]) -> float:
    """Return how many times the CPU of silent processes the farm used: what remains visible on a busy machine."""
    return mean(sample.cpu for sample in reached) / mean(sample.cpu for sample in alone)


def crossing(steps: list[tuple[float, float]]) -> float:
    """Return the grain where the efficiency rises past 90 % for good, interpolated on a logarithmic scale.

    Infinite when the coarsest is still below, the finest grain measured when that is above already.
    """
    if not steps or steps[-1][1] < REACH:
        return math.inf
    for (finer, low), (coarser, high) in reversed(list(pairwise(steps))):
        if low < REACH:
            part = (REACH - low) / (high - low)
            return math.exp(math.log(finer) + part * math.log(coarser / finer))
    return steps[0][0]


def pipeline(farm: Farm, settings: Settings) -> dict[str, Any]:
    """Return makespan / ideal of a stream through filter (0.5 ms) and render (1.5 ms).

    Ideal is what silent processes take for the same work, measured before and after.
    """
    task = (0.5, 1.5)
    tasks = [task] * settings.pipeline_tasks
    warm_up(farm)
    with SilentProcesses() as silent:
        alone = [silent.sample(*task, settings.seconds)]
        reached = []
        for _ in range(settings.repeats):
            reached.append(_sample(lambda: farm.two_stages(filter_image, render_image, tasks), len(tasks)))
            alone.append(silent.sample(*task, settings.seconds))
    return {"ratio": _slowdowns(reached, alone), "cpu_ratio": [_cpu_ratio(reached, alone)]}


def warm_up(farm: Farm) -> None:
    """Let every interpreter have everything it needs, the functions of the pipeline included."""
    for _ in farm.two_stages(filter_image, render_image, [(1, 0)] * 20):
        pass


def stream_rate(farm: Farm, function: Any, tasks: Any) -> float:
    """Return tasks per second, first task given to last result had; the results must be the tasks."""
    begin = time.perf_counter()
    total = sum(farm.stream(function, tasks))
    elapsed = time.perf_counter() - begin
    if total != sum(tasks):
        raise RuntimeError("results were lost or repeated")
    return len(tasks) / elapsed


def null_rate(farm: Farm, seconds: float = 0.2) -> float:
    """Return null tasks per second, of a stream made long enough to last that long. Warms the farm up."""
    count = 50
    stream_rate(farm, give_back, range(count))
    while True:
        rate = stream_rate(farm, give_back, range(count))
        if count / rate >= seconds:
            return rate
        count = round(min(max(rate * seconds * 1.3, count * 1.5), count * 10))
