"""Arrays of 1 MB through `compute`, to an interpreter and back, at every level."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import phalanx as px

from bench.peers.work import give_back

LEVELS = ("clear", "authenticated", "safe", "private")
_RULE = '[[rule]]\nnetwork = "same machine"\npreferred = "{level}"\n'
_MEGABYTE = 1_000_000


def array_rates(turns: int, count: int) -> dict[str, list[float]]:
    """Return MB/s in both directions together, over the links of two interpreters here; the levels take turns."""
    arrays = [np.random.default_rng(0).integers(0, 256, _MEGABYTE, np.uint8) for _ in range(8)]
    rates: dict[str, list[float]] = {level: [] for level in LEVELS}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        managers = {}
        for level in LEVELS:
            rules = Path(folder, f"{level}.toml")
            rules.write_text(_RULE.format(level=level))
            manager = px.Manager(contract=px.ParDegree(2), policy=px.Rules(rules))
            managers[level] = stack.enter_context(manager)
            _rate(manager, arrays * 4)
        for _ in range(turns):
            for level, manager in managers.items():
                rates[level].append(_rate(manager, (arrays * (count // len(arrays) + 1))[:count]))
    return rates


def _rate(manager: px.Manager, arrays: list[np.ndarray[tuple[int], np.dtype[np.uint8]]]) -> float:
    begin = time.perf_counter()
    total: int = sum(result.nbytes for result in manager.compute(give_back, arrays))
    if total != sum(array.nbytes for array in arrays):
        raise RuntimeError("bytes were lost or repeated")
    return 2 * total / 1e6 / (time.perf_counter() - begin)
