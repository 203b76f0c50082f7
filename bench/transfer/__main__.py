"""Bulk transfer beside its peers: `make bench-transfer`, or `python -m bench.transfer` from the top.

Both ends are on this machine, each in a process of its own, or in network namespaces with a shaped line between them.
The peers are Debian's packages; those that are not installed are named and left out. bench/README.md says how
each figure is taken.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial

import phalanx as px

from bench.peers import command
from bench.peers.processes import Strangers, adopt_orphans, end_descendants
from bench.peers.versions import versions
from bench.spaces.identities import own_grid
from bench.transfer.report import report
from bench.transfer.rows import ROWS
from bench.transfer.runs import Found, measured
from bench.transfer.settings import FULL, QUICK


def main() -> None:
    """Measure what was asked for and print the tables."""
    parser = command.table_parser("bulk transfer beside its peers", ROWS)
    parser.add_argument("--rounds", type=int, metavar="N", help=f"samples of each; default: {FULL.rounds}")
    options = parser.parse_args()
    settings = QUICK if options.quick else FULL
    settings = replace(settings, rounds=max(1, options.rounds or settings.rounds))
    results: dict[str, Found] = {}
    adopt_orphans()
    strangers = Strangers()
    with own_grid():
        for name in options.only:
            results[name] = measured(ROWS[name], settings, partial(_say, strangers, name))
    facts = {"versions": versions(), "settings": asdict(settings)}
    facts["results"] = {name: asdict(found) for name, found in results.items()}
    command.conclude(f"{report(results)}\n", strangers, rounds=settings.rounds, file=options.json, facts=facts)


def _say(strangers: Strangers, name: str, line: str) -> None:
    command.say(f"{strangers.seconds:5.0f} s  {name}: {line}")


if __name__ == "__main__":
    try:
        command.run(main, px.PhalanxError)
    finally:
        end_descendants()
