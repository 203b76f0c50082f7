"""Single measurements: a transfer, a bandwidth, a speedup, the bytes on the wire."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import phalanx as px

from bench.papers.muskel.work import Work, give_back, random_data, size

#: Transfers, however long one takes.
_FEWEST = 9


def transfer_seconds(managers: Mapping[str, px.Manager], data: int, seconds: float) -> dict[str, float]:
    """Tc of the paper: seconds to bring `data` bytes to an interpreter and back, one instruction at a time.

    The managers take turns, transfer by transfer, so that what disturbs one disturbs all; `seconds` for each.
    """
    task = random_data(data)
    taken: dict[str, list[float]] = {name: [] for name in managers}
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds * len(managers) or len(taken[next(iter(taken))]) < _FEWEST:
        for name, manager in managers.items():
            started = time.perf_counter()
            manager.submit(give_back, task).result()
            taken[name].append(time.perf_counter() - started)
    return {name: median(samples) for name, samples in taken.items()}


def bandwidth(manager: px.Manager, message: int, seconds: float) -> float:
    """Bytes/s of a stream of messages to one interpreter, which gives back only their sizes."""
    task, count = random_data(message), 8
    while True:
        taken = stream_seconds(manager, size, [task] * count)
        if taken >= seconds / 2:
            return message * count / taken
        count = min(count * 8, max(count * 2, int(count * seconds / taken)))


def stream_seconds(manager: px.Manager, function: Any, tasks: Iterable[Any]) -> float:
    """Seconds from the first task given to the last result had."""
    begin = time.perf_counter()
    deque(manager.compute(px.Farm(function), tasks, ordered=False), maxlen=0)
    return time.perf_counter() - begin


def speedup(manager: px.Manager, work: Work, seconds: float, data: int, count: int, alone: float) -> float:
    """How many times faster `count` instructions are done than sequentially, where one takes `alone` seconds."""
    return alone * count / stream_seconds(manager, work, [(seconds, random_data(data))] * count)


def sent_bytes() -> int:
    """What this machine has sent over all its networks so far: proc(5), /proc/net/dev."""
    lines = Path("/proc/thread-self/net/dev").read_text().splitlines()[2:]
    counters = {name.strip(): figures.split() for name, figures in (line.split(":") for line in lines)}
    return sum(int(figures[8]) for name, figures in counters.items() if name != "lo")
