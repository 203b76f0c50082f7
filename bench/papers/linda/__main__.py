"""The experiments of paper 002 with phalanx: `make paper-linda`, or `python -m bench.papers.linda` from the top.

Each case study runs in three settings: its crew in threads of one process, in processes on this machine, and on
machines, which are network namespaces (that needs root). `--redis` adds spaces kept by a Redis server of its own.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import phalanx as px

from bench.papers.linda.cases import Case, cases
from bench.papers.linda.figure import CaseFigure, Curve, Point
from bench.papers.linda.in_lab import machines
from bench.papers.muskel import drawing, writing
from bench.peers import command
from bench.peers.processes import Strangers
from examples.linda.places import CrewError, Place, run
from examples.linda.search import ORDERS
from laboratory.namespaces import obstacle
from laboratory.redis_server import missing, redis_server

SETTINGS = ("threads", "processes", "machines")

Places = dict[Curve, Place]


def main() -> None:
    """Measure what was asked for, and write it."""
    options = _options()
    if lacking := drawing.missing():
        command.say(lacking)
    chosen = cases(options.order)
    with ExitStack() as stack:
        places = _places(stack, options)
        for name in options.only:
            case = chosen[name].quick() if options.quick else chosen[name]
            _measure(name, case.limited(options.crews, options.runs), places, options)


def _options() -> argparse.Namespace:
    parser = command.parser("the experiments of paper 002, with phalanx", cases("listing"), kind="CASE")
    parser.add_argument("--settings", default=",".join(SETTINGS), metavar="LIST", help=",".join(SETTINGS))
    parser.add_argument("--order", choices=ORDERS, default="listing", help="in which searches visit spaces")
    parser.add_argument("--redis", action="store_true", help="also with all spaces at a Redis server, in processes")
    parser.add_argument("--quick", action="store_true", help="the smallest workloads, crews of 1 and 5, one run each")
    parser.add_argument("--crews", metavar="LIST", help="only crews of these sizes: 1,5,10,15 are the paper's")
    parser.add_argument("--runs", type=int, metavar="N", help="how often each is run; the paper did it ten times")
    parser.add_argument("--raw", type=Path, metavar="FOLDER", help="keep the profiler's files of all processes there")
    parser.add_argument("--out", type=Path, default=Path("bench-output/linda"), metavar="FOLDER")
    options = parser.parse_args()
    options.settings = options.settings.split(",")
    options.crews = [int(crew) for crew in options.crews.split(",")] if options.crews else None
    if options.crews and not all(0 < crew <= 15 for crew in options.crews):
        parser.error("--crews are numbers from 1 to 15")
    if unknown := set(options.settings) - set(SETTINGS):
        parser.error(f"no such setting: {', '.join(sorted(unknown))}; there are {', '.join(SETTINGS)}")
    return options


def _places(stack: ExitStack, options: argparse.Namespace) -> Places:
    """Where to measure: what this machine cannot have is said and left out."""
    places = {Curve(kind, "phalanx"): Place(kind) for kind in ("threads", "processes") if kind in options.settings}
    if "machines" in options.settings:
        if reason := obstacle():
            command.say(f"without machines: {reason}")
        else:
            places[Curve("machines", "phalanx")] = stack.enter_context(machines(5 if options.quick else 15))
    if options.redis:
        if reason := missing():
            command.say(f"without Redis: {reason}")
        else:
            server = stack.enter_context(redis_server())
            places[Curve("processes", "redis")] = Place("processes", redis=server.unix)
    return places


def _measure(name: str, case: Case, places: Places, options: argparse.Namespace) -> None:
    strangers = Strangers()
    points = list(_points(case, places))
    for number in range(case.rounds):
        for point in points:  # in turn, so that what is compared was measured within seconds
            program = next(size.program for size in case.sizes if size.label == point.size)
            command.say(
                f"{name}: run {number + 1} of {case.rounds}: {point.size}, crew of {point.crew}, {point.curve.title}"
            )
            with tempfile.TemporaryDirectory(prefix="bench-") as folder:
                place = places[point.curve]
                run(program, point.crew, Place(**{**vars(place), "figures": Path(folder)}))
                point.runs.append({label: found.mean for label, found in px.profile.merge(folder).items()})
                if options.raw:
                    label = f"{name}-{point.size}-{point.crew}-{point.curve.title}-{number}".replace(" ", "-")
                    shutil.copytree(folder, options.raw / label, dirs_exist_ok=True)
    facts = {"order": options.order, "rounds": case.rounds}
    note = f"n = {case.rounds} on {os.cpu_count()} cores; searches visit spaces in the order: {options.order}"
    writing.publish(options.out / name, CaseFigure(case, points), strangers, facts, note)


def _points(case: Case, places: Places) -> Iterator[Point]:
    for size in case.sizes:
        for crew in case.crews:
            for curve in places:
                yield Point(size.label, crew, curve)


if __name__ == "__main__":
    command.run(main, px.PhalanxError, CrewError, RuntimeError)
