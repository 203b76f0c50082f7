"""The experiments of paper 000 with phalanx: `make paper-muskel`, or `python -m bench.papers.muskel` from the top.

Without `--hosts`, the machines are network namespaces of this one, which needs root. With it, they are those of a
hosts file, where executors run already: links to its trusted networks are plain, the others secure.
"""

from __future__ import annotations

import argparse
import logging
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import phalanx as px

from bench.papers.muskel import drawing, writing
from bench.papers.muskel.fig3 import Figure3
from bench.papers.muskel.fig4_left import Bandwidth
from bench.papers.muskel.fig4_right import IsoGrain
from bench.papers.muskel.fig5 import Mixes
from bench.papers.muskel.in_lab import lab_place
from bench.papers.muskel.on_hosts import hosts_place
from bench.papers.muskel.places import Place, Unfit
from bench.papers.muskel.settings import SIZES, Settings
from bench.peers import command
from bench.peers.processes import Strangers
from laboratory.namespaces import obstacle

FIGURES: dict[str, Any] = {"fig3": Figure3, "fig4-left": Bandwidth, "fig4-right": IsoGrain, "fig5": Mixes}


def main() -> None:
    """Measure what was asked for, and write it."""
    options = _options()
    settings = SIZES[options.scale]
    logging.getLogger("phalanx").setLevel(logging.ERROR)  # links are weak on purpose here, no need to warn each time
    if not options.hosts and (reason := obstacle()):
        raise Unfit(f"{reason}. On real machines: --hosts hosts.txt needs none of this.")
    if lacking := drawing.missing():
        command.say(lacking)
    with _place(options, settings) as place:
        _measure(place, settings, options)


def _options() -> argparse.Namespace:
    parser = command.parser("the experiments of paper 000, with phalanx", FIGURES, kind="FIGURE")
    parser.add_argument("--quick", action="store_const", const="quick", dest="scale", help="under 90 s")
    parser.add_argument("--scale", choices=SIZES, help=argparse.SUPPRESS)
    parser.add_argument("--hosts", type=Path, metavar="FILE", help="real machines; trusted networks are plain")
    parser.add_argument("--identity", type=Path, metavar="FILE", help="the user's, for --hosts")
    parser.add_argument("--lan", type=float, default=1000, metavar="MBIT", help="the LAN of the namespaces, Mbit/s")
    parser.add_argument("--out", type=Path, default=Path("bench-output/muskel"), metavar="FOLDER")
    parser.set_defaults(scale="full")
    options = parser.parse_args()
    if options.lan <= 0:
        parser.error("--lan is a number of Mbit/s above 0")
    return options


def _place(options: argparse.Namespace, settings: Settings) -> AbstractContextManager[Place]:
    if options.hosts:
        return hosts_place(options.hosts, options.identity)
    most = max(*settings.degrees, settings.mixed)
    return lab_place(interpreters=most, rate=options.lan * 1e6 / 8)


def _measure(place: Place, settings: Settings, options: argparse.Namespace) -> None:
    """Measure figure by figure, and write each as soon as it is there."""
    if not place.local:
        raise Unfit(
            "no link would be plain: declare a network trusted in the hosts file (trusted 10.1.0.0/16), "
            "and start the executors on it with --trusted 10.1.0.0/16"
        )
    for name in options.only:
        command.say(f"{name}: {FIGURES[name].title}")
        strangers = Strangers()
        figure = FIGURES[name].measured(place, settings, lambda line: command.say(f"    {line}"))
        facts = {"place": place.title, "rounds": settings.rounds}
        note = f"Medians of n = {settings.rounds} on {place.title}"
        writing.publish(options.out / name, figure, strangers, facts, note)


if __name__ == "__main__":
    command.run(main, px.PhalanxError, Unfit)
