"""A client of a durable space whose server is killed again and again: says what was promised to it.

    python durable_program.py ADDRESS put|take|prefetch FOLDER NUMBER

Its lines: `put N` before an out and `there N` after it; `got K N` for a tuple that is its own. It ends when FOLDER has a file
`stop`, and who takes only when nothing came for a while.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import Future, TimeoutError
from pathlib import Path
from typing import Any

import phalanx as px


def open_space(address: str) -> px.Space:
    while True:
        try:
            return px.Space(address, durable=True)
        except px.SpaceError:
            time.sleep(0.02)


def put(address: str, stop: Path, number: int) -> None:
    space = open_space(address)
    for serial in range(10**9):
        if stop.exists():
            return
        print("put", serial, flush=True)
        try:
            space.out("job", number, serial)
        except px.SpaceError:
            space = open_space(address)
        else:
            print("there", serial, flush=True)


def got(job: tuple[Any, ...]) -> bool:
    print("got", *job[1:], flush=True)
    return True


def take(space: px.Space) -> bool:
    """At once, or waiting for it."""
    if job := space.inp("job", int, int):
        return got(job)
    return got(space.in_("job", int, int, timeout=0.5))


def prefetch(space: px.Space) -> bool:
    """Several, before they are needed."""
    futures = [space.in_future("job", int, int) for _ in range(4)]
    return any([read(future) for future in futures])


def read(future: Future[tuple[Any, ...]]) -> bool:
    try:
        return got(future.result(timeout=0.5))
    except TimeoutError:
        return not future.cancel() and got(future.result())


def take_all(address: str, stop: Path, ahead: bool) -> None:
    space = open_space(address)
    while True:
        try:
            found = prefetch(space) if ahead else take(space)
        except px.SpaceTimeoutError:
            found = False
        except px.SpaceError:
            space, found = open_space(address), True
        if not found and stop.exists():
            return


if __name__ == "__main__":
    address, what, folder, number = sys.argv[1:]
    stop = Path(folder) / "stop"
    if what == "put":
        put(address, stop, int(number))
    else:
        take_all(address, stop, what == "prefetch")
