"""A client of a replicated space that says what it did and when: one JSON list a line, until SIGTERM. It
finishes what it does then.

    python history_program.py '["HOST:PORT", …]' '{"identity": …}' [KINDS]

With KINDS, a list, it takes all tuples of these kinds, until there are no more, and ends.

A line: kind of tuple, operation, when it was called and answered (seconds of the machine's clock), whether there was a
tuple, or null where that was not heard. Every kind is in use for a fraction of a second, by all clients together.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import time
from threading import Event
from typing import Any

import phalanx as px

#: Seconds that a kind is in use, and how often by one client.
SLOT, MOST = 0.25, 16


def do(space: px.Space, what: str, kind: int) -> bool:
    if what == "out":
        space.out("kind", kind)
        return True
    return (space.inp if what == "inp" else space.rdp)("kind", kind) is not None


def drain(space: px.Space, kinds: list[int]) -> None:
    for kind in kinds:
        found = True
        while found:
            called = time.monotonic()
            found = do(space, "inp", kind)
            print(json.dumps([kind, "inp", called, time.monotonic(), found]), flush=True)


def main(members: list[str], options: dict[str, Any], kinds: list[int]) -> None:
    ended = Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    with px.Space(f"{members[0]}/jobs", replicas=len(members), members=members[1:], **options) as space:
        if kinds:
            drain(space, kinds)
            return
        kind, did = 0, 0
        while not ended.is_set():
            now = int(time.monotonic() / SLOT)
            kind, did = (kind, did + 1) if now == kind else (now, 0)
            if did >= MOST:
                time.sleep(SLOT / 20)
                continue
            # Of every other kind nothing is taken, so that a tuple which is there is seen by all from then on.
            what = random.choice(["out", "rdp", "rdp", "inp"] if kind % 2 else ["out", "rdp", "rdp", "rdp"])
            called = time.monotonic()
            try:
                found: bool | None = do(space, what, kind)
            except px.SpaceError as error:
                found = None
                print(f"{what} {kind}: {error}", file=sys.stderr, flush=True)
            print(json.dumps([kind, what, called, time.monotonic(), found]), flush=True)


if __name__ == "__main__":
    main(*map(json.loads, [*sys.argv[1:], "[]"][:3]))
