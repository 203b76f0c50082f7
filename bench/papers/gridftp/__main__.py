"""The experiments of paper 003 with phalanx and the real GridFTP: `make paper-gridftp`.

Both take turns in the same run, from memory to memory. Where Debian's packages of GridFTP are not installed, ours is
measured alone. Figure 2 needs root, for its machines are network namespaces.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from dataclasses import replace
from pathlib import Path

import phalanx as px

from bench.papers.gridftp.heat import Heat
from bench.papers.gridftp.stripes import CURVES, QUICK_CURVES, QUICK_STRIPES, STRIPES, Stripes
from bench.papers.gridftp.systems import FULL, QUICK
from bench.papers.gridftp.tables import Tables
from bench.papers.muskel import drawing, writing
from bench.peers import command
from bench.peers.processes import Strangers, adopt_orphans, end_descendants
from bench.spaces.identities import own_grid
from bench.transfer import gridftp
from bench.transfer.site import Failure, Site

FIGURES = ("tables", "fig1-private", "fig1-safe", "fig2")


def main() -> None:
    """Measure what was asked for, and write it."""
    options = _options()
    if lacking := drawing.missing():
        command.say(lacking)
    if lacking := gridftp.missing():
        command.say(f"without GridFTP: {lacking}")
    adopt_orphans()
    with own_grid():
        for name in options.only:
            _measure(name, options)


def _options() -> argparse.Namespace:
    parser = command.parser("the experiments of paper 003, with phalanx and GridFTP", FIGURES, kind="FIGURE")
    parser.add_argument("--quick", action="store_true", help="short samples, one round, few counts: does it run?")
    parser.add_argument("--rounds", type=int, metavar="N", help="samples of each figure; default: 3, of figure 1 one")
    parser.add_argument("--counts", metavar="LIST", help="threads and streams of figure 1; default: 1,2,4,8,16,64")
    parser.add_argument("--link", type=float, default=1000, metavar="MBIT", help="of each stripe of figure 2, Mbit/s")
    parser.add_argument("--seconds", type=float, metavar="S", help="each sample of figure 2 takes; default: 2")
    parser.add_argument("--out", type=Path, default=Path("bench-output/gridftp"), metavar="FOLDER")
    options = parser.parse_args()
    default = "1,2" if options.quick else "1,2,4,8,16,64"
    try:
        options.counts = [int(count) for count in (options.counts or default).split(",")]
    except ValueError:
        parser.error("--counts are numbers like 1,2,4")
    if not all(1 <= count <= 64 for count in options.counts):
        parser.error("--counts are numbers from 1 to 64")
    if options.seconds is not None and options.seconds <= 0:
        parser.error("--seconds is a number above 0")
    if options.link <= 0:
        parser.error("--link is a number of Mbit/s above 0")
    return options


def _measure(name: str, options: argparse.Namespace) -> None:
    strangers = Strangers()
    rounds = max(1, options.rounds or (1 if options.quick or name.startswith("fig1") else FULL.rounds))
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        try:
            figure = _figure(name, Path(folder), options, rounds)
        except Failure as error:
            command.say(f"{name} is left out: {error}")
            return
    note = f"n = {rounds} on {os.cpu_count()} cores"
    writing.publish(options.out / name, figure, strangers, {"rounds": rounds}, note)


def _figure(name: str, folder: Path, options: argparse.Namespace, rounds: int) -> writing.Measured:
    settings = QUICK if options.quick else FULL
    if options.seconds:
        settings = replace(settings, seconds=options.seconds)

    def say(line: str) -> None:
        command.say(f"{name}: {line}")

    if name == "tables":
        return Tables.measured(Site(folder), settings, rounds, say)
    if name == "fig2":
        stripes = Stripes(options.link, *((QUICK_STRIPES, QUICK_CURVES) if options.quick else (STRIPES, CURVES)))
        stripes.measure(folder, settings, rounds, say)
        return stripes
    return Heat.measured(name.removeprefix("fig1-"), Site(folder), settings, options.counts, rounds, say)


if __name__ == "__main__":
    try:
        command.run(main, px.PhalanxError)
    finally:
        end_descendants()
