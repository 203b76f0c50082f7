"""Tuple spaces beside Redis: `make bench-space`, or `python -m bench.spaces` from the top.

Redis is Debian's server with a tuple space in Lua, reached by redis-py and hiredis: `px.Space("redis://…")`. Both take
turns in the same run. bench/README.md says how each figure is taken.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import phalanx as px

from bench.peers.figures import shown
from bench.peers.processes import Strangers, disturbance
from bench.peers.table import grid, verdict
from bench.peers.versions import versions
from bench.spaces.identities import own_grid
from bench.spaces.rows import ROWS, Figure, Samples
from bench.spaces.settings import FULL, QUICK
from laboratory.redis_server import missing, redis_server

_HEAD = ("what", "phalanx", "Redis", "ratio", "reach", "verdict")


def main() -> int:
    """Measure what was asked for and print the table."""
    options = _options()
    settings = QUICK if options.quick else FULL
    results: dict[str, Samples] = {}
    strangers = Strangers()
    with ExitStack() as stack:
        stack.enter_context(own_grid())
        reason = missing()
        redis = None if reason else stack.enter_context(redis_server())
        if reason:
            _say(f"without Redis: {reason}")
        for name in dict.fromkeys(options.only):
            _say(f"{strangers.seconds:5.0f} s  {name}")
            results[name] = ROWS[name].measure(settings, redis)
    seconds, others = strangers.seconds, sum(strangers.percents())
    print(_report(results, f"medians of {settings.rounds}, {seconds:.0f} s; others used {others:.0f} % of the cores"))
    if disturbed := disturbance(others):
        print(f"Uncertain figures: {disturbed}.")
    if options.json:
        facts = {"versions": versions(), "settings": settings._asdict(), "others_percent": others}
        options.json.write_text(json.dumps({**facts, "results": results}, indent=1) + "\n")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="tuple spaces beside Redis")
    parser.add_argument("--quick", action="store_true", help="one short sample of each, to see that it runs")
    parser.add_argument("--only", action="append", choices=ROWS, metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample there")
    options = parser.parse_args()
    options.only = options.only or list(ROWS)
    return options


def _report(results: dict[str, Samples], note: str) -> str:
    lines = [
        _line(figure, *results[row][name])
        for row in results
        for name, figure in ROWS[row].figures.items()
        if name in results[row]
    ]
    machine = ", ".join(f"{name} {version}" for name, version in versions().items() if name in _SHOWN)
    return "\n\n".join([grid(_HEAD, lines), f"{machine}\n{note}"])


_SHOWN = {"python", "machine", "phalanx", "redis", "hiredis"}


def _line(figure: Figure, ours: Sequence[float], theirs: Sequence[float] | None) -> tuple[str, ...]:
    mine, other = median(ours), median(theirs) if theirs else None
    ratio = None if other is None else (mine / other if figure.higher_is_better else other / mine)
    sign = "≥" if figure.higher_is_better else "≤"
    words = [] if figure.reach is None else [verdict(mine, figure.reach, figure.higher_is_better)]
    if ratio is not None and ratio < 1:
        words.append("Redis wins")
    return (
        figure.what,
        shown(mine, figure.unit),
        shown(other, figure.unit),
        "-" if ratio is None else f"{ratio:.2f} × better",
        "-" if figure.reach is None else f"{sign} {figure.reach:g} {figure.unit}".strip(),
        ", ".join(words) or "-",
    )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started ends too
    try:
        sys.exit(main())
    except px.PhalanxError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
