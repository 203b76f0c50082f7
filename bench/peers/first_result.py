"""The script whose start is timed: `python -m bench.peers.first_result PEER` prints its first result."""

from __future__ import annotations

import sys

from bench.peers.registry import start
from bench.peers.work import give_back


def main() -> None:
    """Start a farm, compute, print."""
    farm = start(sys.argv[1])
    for result in farm.stream(give_back, range(1, 11)):
        print(result, flush=True)
    farm.stop()


if __name__ == "__main__":
    main()
