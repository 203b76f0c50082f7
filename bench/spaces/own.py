"""One's own space, in this process; Redis' is always in another one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from random import Random
from statistics import median

import phalanx as px

from bench.spaces.settings import Settings
from bench.spaces.timing import batch_microseconds, fill, key
from laboratory.redis_server import RedisServer

_BATCH, _REDIS_BATCH = 5000, 1000
Samples = dict[str, tuple[list[float], "list[float] | None"]]


def operations(settings: Settings, redis: RedisServer | None) -> Samples:
    """out, rdp and inp by key among many tuples."""
    with ExitStack() as stack:
        ours = stack.enter_context(px.Space())
        theirs = stack.enter_context(px.Space(f"{redis.unix}/own")) if redis else None
        return _measured(settings, ours, theirs, settings.tuples)


def million(settings: Settings, redis: RedisServer | None) -> Samples:
    """The same among many more, over what it is among fewer: medians, so one sample."""
    with ExitStack() as stack:
        few, many = (stack.enter_context(px.Space()) for _ in range(2))
        their_few, their_many = (
            (stack.enter_context(px.Space(f"{redis.unix}/{name}")) if redis else None) for name in ("few", "many")
        )
        before = _measured(settings, few, their_few, settings.tuples)
        after = _measured(settings, many, their_many, settings.many)
    samples: Samples = {}
    for name, (ours, theirs) in after.items():
        our_ratio = median(ours) / median(before[name][0])
        samples[name] = [our_ratio], [median(theirs) / median(before[name][1] or [])] if theirs else None
    return samples


def _measured(settings: Settings, ours: px.Space, theirs: px.Space | None, tuples: int) -> Samples:
    samples: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in ("out", "rdp", "inp")}
    spaces = [(ours, 0, _BATCH), *([(theirs, 1, _REDIS_BATCH)] if theirs else [])]
    for space, _, _ in spaces:
        fill(space, tuples)
        space.rdp("entry", key(0), int)  # from now on there is an index
    random = Random(0)
    for turn in range(settings.rounds):
        for space, side, batch in spaces:
            new = range(tuples + turn * batch, tuples + (turn + 1) * batch)
            known = [random.randrange(tuples) for _ in range(batch)]
            for name, value in _once(space, new, known).items():
                samples[name][side].append(value - _OVERHEAD)
    return {name: (mine, other or None) for name, (mine, other) in samples.items()}


def _once(space: px.Space, new: Sequence[int], known: Sequence[int]) -> dict[str, float]:
    return {
        "out": batch_microseconds(lambda number: space.out("entry", key(number), number), new),
        "rdp": batch_microseconds(lambda number: space.rdp("entry", key(number), int), known),
        "inp": batch_microseconds(lambda number: space.inp("entry", key(number), int), new),
    }


def _overhead() -> float:
    """Of making a key and calling a function, which is no part of the operations."""
    return min(batch_microseconds(lambda number: key(number), range(20_000)) for _ in range(3))


_OVERHEAD = _overhead()
