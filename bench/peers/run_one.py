"""Measure one peer in a process of its own: `python -m bench.peers.run_one PEER SETTINGS OUT ROW...`.

SETTINGS is JSON, OUT the file that receives the samples of the rows as JSON. Whatever
the peer started is gone when this ends.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

from bench.peers.processes import adopt_orphans, end_descendants
from bench.peers.registry import start
from bench.peers.rows import MEASURES
from bench.peers.settings import Settings


def main(name: str, settings: str, out: str, *rows: str) -> None:
    """Start, measure, write, stop."""
    adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started ends too
    try:
        farm = start(name)
        samples = {row: MEASURES[row](farm, Settings(**json.loads(settings))) for row in MEASURES if row in rows}
        Path(out).write_text(json.dumps(samples))
        farm.stop()
    finally:
        end_descendants()


if __name__ == "__main__":
    main(*sys.argv[1:])
