"""How each figure is taken. Every function takes a farm and returns its samples, ready for JSON."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

from bench.peers.calls import map_rate, submit_rate
from bench.peers.grain import grain, null_rate, pipeline, stream_rate
from bench.peers.interface import INTERPRETERS, Farm
from bench.peers.processes import cpu_seconds, memory, tree_cpu_seconds
from bench.peers.settings import Settings
from bench.peers.uneven import heavy, uneven
from bench.peers.work import give_back, who

MEGABYTE = 10**6
_IDLE_SECONDS = 1.0
_LARGE_TASKS = 8  # with their results 1.6 GB: as much as Ray's object store holds without writing to disk


def null(farm: Farm, settings: Settings) -> dict[str, Any]:
    """Return null tasks per second and CPU per task (µs, all processes), a sample for each repeat."""
    count = max(round(null_rate(farm) * settings.seconds), 100)
    rates, costs = [], []
    for _ in range(settings.repeats):
        before = tree_cpu_seconds()
        rates.append(stream_rate(farm, give_back, range(count)))
        costs.append((tree_cpu_seconds() - before) / count * 1e6)
    return {"rate": rates, "cpu_us": costs, "chunk": getattr(farm, "chunk", 1)}


def round_trip(farm: Farm, settings: Settings) -> dict[str, Any]:
    """Return the median time of one task given and its result had, in µs, a sample for each repeat."""
    for _ in range(20):
        farm.one(give_back, 0)
    return {"us": [_median_round_trip(farm, settings.seconds) for _ in range(settings.repeats)]}


def _median_round_trip(farm: Farm, seconds: float) -> float:
    """Return the median of as many round trips as fit into that time, in µs."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while (begin := time.perf_counter()) < end:
        farm.one(give_back, 1)
        times.append(time.perf_counter() - begin)
    return median(times) * 1e6


def megabytes(farm: Farm, settings: Settings) -> dict[str, Any]:
    """Return MB per second, in and out together, of arrays of 1 MB that come back as they went."""
    import numpy

    generator = numpy.random.default_rng(0)
    arrays = [generator.integers(0, 256, MEGABYTE, numpy.uint8) for _ in range(8)]
    count = 32
    _bytes_rate(farm, arrays, count)
    while (rate := _bytes_rate(farm, arrays, count)) and count * 2 / rate < settings.seconds:
        count *= 2
    return {"mb_per_s": [_bytes_rate(farm, arrays, count) for _ in range(settings.repeats)]}


def hundred_megabytes(farm: Farm, settings: Settings) -> dict[str, Any]:
    """Return MB per second, in and out together, of arrays of 100 MB that come back as they went."""
    import numpy

    generator = numpy.random.default_rng(0)
    arrays = [generator.integers(0, 256, 100 * MEGABYTE, numpy.uint8) for _ in range(4)]
    _bytes_rate(farm, arrays, _LARGE_TASKS)
    return {"mb_per_s": [_bytes_rate(farm, arrays, _LARGE_TASKS) for _ in range(settings.repeats)]}


def _bytes_rate(farm: Farm, arrays: list[Any], count: int) -> float:
    """Return MB per second of that many tasks, each its own object: none can be sent once for two."""
    tasks = [arrays[number % len(arrays)][:] for number in range(count)]
    begin = time.perf_counter()
    total = 0
    for result in farm.stream(give_back, tasks):
        total += result.nbytes
    elapsed = time.perf_counter() - begin
    if total != count * arrays[0].nbytes:
        raise RuntimeError("results were lost or repeated")
    return 2 * total / MEGABYTE / elapsed


def idle_memory(farm: Farm, settings: Settings) -> dict[str, Any]:
    """Return RSS and PSS (MB) of the largest interpreter once idle, and the CPU all use then (%)."""
    pids: set[int] = set()
    deadline = time.monotonic() + 20
    while len(pids) < INTERPRETERS and time.monotonic() < deadline:
        pids |= set(farm.stream(who, range(20)))
    time.sleep(_IDLE_SECONDS)
    before = tree_cpu_seconds()
    time.sleep(_IDLE_SECONDS)
    idle_cpu = (tree_cpu_seconds() - before) / _IDLE_SECONDS
    sizes = [memory(pid) for pid in pids]
    return {
        "rss_mb": [max(resident for resident, _ in sizes)],
        "pss_mb": [max(proportional for _, proportional in sizes)],
        "idle_cpu_percent": [idle_cpu * 100],
        "interpreter_cpu_s": [cpu_seconds(pids)],
    }


MEASURES: dict[str, Callable[[Farm, Settings], dict[str, Any]]] = {
    "memory": idle_memory,  # first: while the interpreters have imported nothing but the null function
    "null": null,
    "round_trip": round_trip,
    "map": map_rate,
    "submit": submit_rate,
    "grain": grain,
    "pipeline": pipeline,
    "uneven": uneven,
    "bytes": megabytes,  # last, as what follows: they import numpy
    "bytes_100": hundred_megabytes,
    "heavy": heavy,
}
