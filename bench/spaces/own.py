"""One's own space, in this process; Redis' is always in another one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from random import Random

import phalanx as px

from bench.spaces.settings import Settings
from bench.spaces.timing import batch_microseconds, fill, key
from laboratory.redis_server import RedisServer

#: Operations in a sample. Ours are too short to be timed one by one.
_OURS, _REDIS = 5000, 1000
Samples = dict[str, tuple[list[float], "list[float] | None"]]


def operations(settings: Settings, redis: RedisServer | None) -> Samples:
    """out, rdp and inp by key among many tuples."""
    with ExitStack() as stack:
        sizes = {"": settings.tuples}
        ours = _measured(stack, settings, sizes, None)[""]
        theirs = _measured(stack, settings, sizes, redis)[""] if redis else None
    return {name: (ours[name], theirs[name] if theirs else None) for name in ours}


def million(settings: Settings, redis: RedisServer | None) -> Samples:
    """The same among many more, over what it is among fewer."""
    with ExitStack() as stack:
        sizes = {"few": settings.tuples, "many": settings.many}
        ours = _measured(stack, settings, sizes, None)
        theirs = _measured(stack, settings, sizes, redis) if redis else None

    def ratios(figures: dict[str, dict[str, list[float]]], name: str) -> list[float]:
        return [many / few for many, few in zip(figures["many"][name], figures["few"][name], strict=True)]

    return {name: (ratios(ours, name), ratios(theirs, name) if theirs else None) for name in ("out", "rdp")}


def _measured(
    stack: ExitStack, settings: Settings, sizes: dict[str, int], redis: RedisServer | None
) -> dict[str, dict[str, list[float]]]:
    """By the spaces' names: samples of each operation. Spaces take turns."""
    batch = _REDIS if redis else _OURS
    spaces = {name: stack.enter_context(px.Space(f"{redis.unix}/own{name}" if redis else None)) for name in sizes}
    for name, space in spaces.items():
        fill(space, sizes[name])
        space.rdp("entry", key(0), int)  # from now on there is an index
    random = Random(0)
    samples: dict[str, dict[str, list[float]]] = {name: {} for name in sizes}
    for _ in range(settings.rounds):
        for name, space in spaces.items():
            new = range(sizes[name], sizes[name] + batch)  # which inp takes again
            known = [random.randrange(sizes[name]) for _ in range(batch)]
            for operation, value in _once(space, new, known, 1 if redis else 100).items():
                samples[name].setdefault(operation, []).append(value - _OVERHEAD)
    return samples


def _once(space: px.Space, new: Sequence[int], known: Sequence[int], batch: int) -> dict[str, float]:
    return {
        "out": batch_microseconds(lambda number: space.out("entry", key(number), number), new, batch),
        "rdp": batch_microseconds(lambda number: space.rdp("entry", key(number), int), known, batch),
        "inp": batch_microseconds(lambda number: space.inp("entry", key(number), int), new, batch),
    }


def _overhead() -> float:
    """Of making a key and calling a function, which is no part of the operations."""
    return min(batch_microseconds(lambda number: key(number), range(20_000)) for _ in range(3))


_OVERHEAD = _overhead()
