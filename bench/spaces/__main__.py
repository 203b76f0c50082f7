"""Tuple spaces beside Redis: `make bench-space`, or `python -m bench.spaces` from the top.

Redis is Debian's server with a tuple space in Lua, reached by redis-py and hiredis: `px.Space("redis://…")`. Both take
turns in the same run. bench/README.md says how each figure is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from statistics import median

import phalanx as px

from bench.peers import command
from bench.peers.figures import shown
from bench.peers.processes import Strangers
from bench.peers.table import grid, verdict
from bench.peers.versions import versions
from bench.spaces.identities import own_grid
from bench.spaces.rows import ROWS, Figure, Samples
from bench.spaces.settings import FULL, QUICK
from laboratory.redis_server import missing, redis_server

_HEAD = ("what", "phalanx", "Redis", "ratio", "reach", "verdict")


def main() -> None:
    """Measure what was asked for and print the table."""
    options = command.table_parser("tuple spaces beside Redis", ROWS).parse_args()
    settings = QUICK if options.quick else FULL
    results: dict[str, Samples] = {}
    strangers = Strangers()
    with ExitStack() as stack:
        stack.enter_context(own_grid())
        reason = missing()
        redis = None if reason else stack.enter_context(redis_server())
        if reason:
            command.say(f"without Redis: {reason}")
        for name in options.only:
            command.say(f"{strangers.seconds:5.0f} s  {name}")
            results[name] = ROWS[name].measure(settings, redis)
    facts = {"versions": versions(), "settings": settings._asdict(), "results": results}
    command.conclude(_report(results), strangers, rounds=settings.rounds, file=options.json, facts=facts)


def _report(results: dict[str, Samples]) -> str:
    lines = [
        _line(figure, *results[row][name])
        for row in results
        for name, figure in ROWS[row].figures.items()
        if name in results[row]
    ]
    machine = ", ".join(f"{name} {version}" for name, version in versions().items() if name in _SHOWN)
    return "\n\n".join([grid(_HEAD, lines), machine])


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


if __name__ == "__main__":
    command.run(main, px.PhalanxError)
