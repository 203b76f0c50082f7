"""A client of a replicated space whose leaders are killed: says what was promised to it.

    python replicated_program.py MEMBERS put|take|count FOLDER NUMBER

Its lines: `put N` before an out and `there N` after it; `got K N` for a tuple that is its own; `counted N` when it has
made one of N into N + 1, in a transaction. It opens the space once.
It ends when FOLDER has a file `stop`, and who takes only when nothing came for a while.
"""

from __future__ import annotations

import sys
from pathlib import Path

import phalanx as px


def put(space: px.Space, stop: Path, number: int) -> None:
    for serial in range(10**9):
        if stop.exists():
            return
        print("put", serial, flush=True)
        space.out("job", number, serial)
        print("there", serial, flush=True)


def count(space: px.Space, stop: Path) -> None:
    while not stop.exists():
        try:
            with px.Transaction(space) as transaction:
                found = space.inp("sum", int, transaction=transaction)
                if found is None:
                    continue
                space.out("sum", found[1] + 1, transaction=transaction)
        except px.SpaceLostError:
            continue  # it had not come to the commit: nothing has happened
        except px.TransactionError:
            continue  # nor here, where it was tried
        print("counted", found[1], flush=True)


def take(space: px.Space, stop: Path) -> None:
    while True:
        try:
            job = space.inp("job", int, int) or space.in_("job", int, int, timeout=2)
        except px.SpaceTimeoutError:
            if stop.exists():
                return
        else:
            print("got", *job[1:], flush=True)


if __name__ == "__main__":
    members, what, folder, number = sys.argv[1:]
    first, *others = members.split(",")
    with px.Space(f"{first}/jobs", replicas=len(others) + 1, members=others) as space:
        if what == "put":
            put(space, Path(folder) / "stop", int(number))
        elif what == "count":
            count(space, Path(folder) / "stop")
        else:
            take(space, Path(folder) / "stop")
