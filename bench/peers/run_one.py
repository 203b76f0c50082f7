"""Measure one peer in a process of its own: `python -m bench.peers.run_one PEER SETTINGS OUT ROW...`.

SETTINGS is JSON, OUT the file that receives the samples of the rows as JSON. Whatever
the peer started is gone when this ends.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import NoReturn

from bench.peers.processes import adopt_orphans, end_descendants
from bench.peers.registry import start
from bench.peers.rows import MEASURES
from bench.peers.settings import Settings


def main(name: str, settings: str, out: str, *rows: str) -> None:
    """Start, measure, write, stop."""
    adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: leave(1))
    try:
        farm = start(name)
        wanted = [row for row in MEASURES if row in rows]
        samples = {row: MEASURES[row](farm, Settings(**json.loads(settings))) for row in wanted}
        Path(out).write_text(json.dumps(samples))
        farm.stop()
    except Exception:
        traceback.print_exc()
        leave(1)
    leave(0)


def leave(status: int) -> NoReturn:
    """End everything that was started, and this process at once: a library might wait for what has ended."""
    end_descendants()
    os._exit(status)


if __name__ == "__main__":
    main(*sys.argv[1:])
