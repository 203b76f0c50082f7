"""A copy from memory to an executor's that goes on for a given time: lines differ too much for a given size.

A program, for who measures is not in the namespace in which it runs:

    python -m bench.transfer.by_time TARGET NETWORK LEVEL STREAMS THREADS SECONDS [SOURCE [STRIPES]]

0: chosen by itself. SOURCE: an executor's address and a colon. It prints bytes/s over the second half: TCP, and whoever
chooses a number of streams, need the first to find out what the line carries.
"""

from __future__ import annotations

import sys
import time

import phalanx as px


class _Over(Exception):
    """Long enough."""


def main(
    target: str,
    network: str,
    level: str,
    streams: str,
    threads: str,
    seconds: str,
    source: str = "",
    stripes: str | None = None,
) -> None:
    """Copy, and print the rate."""
    marks: list[tuple[float, int]] = []

    def progress(now: px.transfer.Progress) -> None:
        marks.append((time.monotonic(), now.bytes))
        if marks[-1][0] - marks[0][0] >= float(seconds):
            raise _Over

    try:
        px.copy(
            f"{source}memory:1000T", target, level=level,  # type: ignore[arg-type]
            streams=int(streams) or None, threads=int(threads) or None,
            stripes=stripes, trusted=[network], check=False, progress=progress,
        )  # fmt: skip
    except _Over:
        middle = (marks[0][0] + marks[-1][0]) / 2
        start = next(mark for mark in marks if mark[0] >= middle)
        print((marks[-1][1] - start[1]) / (marks[-1][0] - start[0]))


if __name__ == "__main__":
    main(*sys.argv[1:])
