"""A client of a space that another process keeps: `python -m bench.spaces.client ORDER` prints figures as JSON.

It does one thing of its order for each line that it reads, and says when it is ready.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from random import Random
from typing import Any

import phalanx as px

from bench.spaces.timing import key, microseconds

_BLOB = os.urandom(1 << 16)
_WARM_UP = 200


def rdp(space: px.Space, seconds: float, tuples: int) -> float:
    """Microseconds, each of another key."""
    random = Random(os.getpid())
    return microseconds(lambda _: space.rdp("entry", key(random.randrange(tuples)), int), seconds)


def inp(space: px.Space, seconds: float, tuples: int) -> float:
    """Microseconds; what was taken is put back."""
    taken = 0

    def take(number: int) -> None:
        nonlocal taken
        taken = number + 1
        space.inp("entry", key(number % tuples), int)

    value = microseconds(take, seconds)
    space.out_many([("entry", key(number), number) for number in range(min(taken, tuples))])
    return value


def rate(space: px.Space, seconds: float, tuples: int) -> float:
    """rdp per second."""
    random, count, end = Random(os.getpid()), 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        for _ in range(20):
            space.rdp("entry", key(random.randrange(tuples)), int)
        count += 20
    return count / seconds


def blob_out(space: px.Space, seconds: float, tuples: int) -> float:
    """Microseconds to put 64 KiB; they are taken out again."""
    value = microseconds(lambda number: space.out("blob", number, _BLOB), seconds)
    while space.inp("blob", int, bytes):
        pass
    return value


def blob_in(space: px.Space, seconds: float, tuples: int) -> float:
    """Microseconds to take 64 KiB."""
    count = 300
    for number in range(count):
        space.out("blob", number, _BLOB)
    numbers = iter(range(count))
    begin = time.perf_counter()
    for number in numbers:
        space.in_("blob", number, bytes)
    return (time.perf_counter() - begin) / count * 1e6


def ask(space: px.Space, seconds: float, tuples: int) -> float:
    """Microseconds one way: half of a round trip to `echo`, whose in_ has to wait."""
    taken = microseconds(lambda number: (space.out("ping", number), space.in_("pong", number)), seconds)
    space.out("ping", -1)
    return taken / 2


def echo(space: px.Space, seconds: float, tuples: int) -> float:
    """Answers `ask` until it is told to end."""
    while True:
        _, number = space.in_("ping", int)
        if number < 0:
            return 0.0
        space.out("pong", number)


OPERATIONS: dict[str, Callable[[px.Space, float, int], float]] = {
    "rdp": rdp,
    "inp": inp,
    "rate": rate,
    "blob out": blob_out,
    "blob in": blob_in,
    "ask": ask,
    "echo": echo,
}


def main(order: dict[str, Any]) -> None:
    """Open the space, then do as each line says."""
    with px.Space(order["address"], **order["options"]) as space:
        level = getattr(space.engine, "level", (None,))[0]
        assert level == order["level"], f"the link is {level}, not {order['level']}"
        for number in range(_WARM_UP):
            space.rdp("entry", key(number), int)
        print("ready", flush=True)
        for line in sys.stdin:
            value = OPERATIONS[line.strip()](space, order["seconds"], order["tuples"])
            print(json.dumps(value), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
