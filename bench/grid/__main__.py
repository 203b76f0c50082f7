"""A grid with a hub in figures: `make bench-grid`, or `python -m bench.grid` from the top; as root.

All machines are network namespaces of this one. bench/README.md says how each figure is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median, quantiles
from typing import NamedTuple

from bench.grid import joining, losing, relaying, resting, volunteering
from bench.grid.samples import Samples, Settings
from bench.peers import command
from bench.peers.figures import shown
from bench.peers.processes import Strangers
from bench.peers.table import grid, verdict
from laboratory.namespaces import obstacle


class Figure(NamedTuple):
    """What phalanx wants to reach in one figure, and the other side, measured in the same run or by others."""

    what: str
    unit: str
    reach: float | None = None
    higher_is_better: bool = False
    #: The sample that is the other side of a ratio, for which the reach is.
    against: str | None = None
    elsewhere: str = "-"


_FIGURES = {
    "join": Figure("join TOKEN typed, to first instruction there", "s", 1.5, elsewhere="Ray 2-4 s, Dask 1-2 s *"),
    "join_known": Figure("… to the hub's listing it", "s"),
    "nats": Figure("two NATs: join typed, to first result", "s", 2.0, elsewhere="Dask: never *"),
    "recruit_first": Figure("manager asks, to first instruction fired", "ms", 150),
    "recruit_all": Figure("… on all of 8 joined executors", "ms"),
    "frozen": Figure("frozen member, relayed: its work fired elsewhere", "s", 2.0, elsewhere="Dask 5 min *"),
    "cut": Figure("cut member, relayed: its work fired elsewhere", "s", 2.0, elsewhere="Dask 5 min *"),
    "hub_killed_join": Figure(
        "one of three hubs killed: a machine has joined", "s", 3.0, elsewhere="JetStream R3 5.5 s *"
    ),
    "hub_killed_recruit": Figure("… a new program has its first result", "s", 3.0),
    "hub_cut_join": Figure(
        "one of three hubs cut off: a machine has joined", "s", 3.0, elsewhere="JetStream R3 5.5 s *"
    ),
    "hub_cut_recruit": Figure("… a new program has its first result", "s", 3.0),
    "expelled_direct": Figure("expel typed, to the end of its direct links", "s", 1.0),
    "expelled_relayed": Figure("expel typed, to the end of its relayed links", "s", 1.0),
    "key_to_end": Figure("owner presses a key, to the end of users' last process", "s", 1.0),
    "frames_beside": Figure("60 frames a second beside a full farm: lost", "%", 2.0),
    "frames_alone": Figure("… without the farm: lost", "%"),
    "nulls_nice": Figure("null tasks at niceness 19", "/s", 0.95, True, "nulls_plain", "niceness 0"),
    "private_relayed": Figure("private copy, relayed", "GB/s", 0.6, True, "private_direct"),
    "clear_relayed": Figure("clear copy, relayed", "GB/s", 0.6, True, "clear_direct"),
    "trip_relayed": Figure("null call, relayed", "µs", 2.0, False, "trip_direct"),
    "relay_cpu": Figure("the relay's processor", "s/GB", 0.3),
    "hub_cpu": Figure("hub with {members} members: processor", "%", 10),
    "hub_rss": Figure("… resident memory", "MB", 200),
    "hub_join": Figure("… joins, one after the other at 8 at a time", "/s", None, True),
    "watched_cpu": Figure("hub with {members} members and one page open: processor", "%", 5),
    "page_cpu": Figure("… the command that serves the page", "%", 5),
    "rest_rss": Figure("executor at rest: resident memory", "MB", 60),
    "rest_cpu": Figure("… processor", "%", 0.1),
    "rest_wire": Figure("… bytes to and from the hub", "KB/min", 1),
}
_ROWS: dict[str, Callable[[Settings, Samples], None]] = {
    "join": joining.join,
    "nats": joining.behind_nats,
    "recruit": joining.recruit,
    "lost": losing.lost,
    "expelled": losing.expelled,
    "hubs": losing.hubs,
    "returns": volunteering.returns,
    "frames": volunteering.frames,
    "nulls": volunteering.nulls,
    "relay": relaying.relay,
    "hub": resting.hub,
    "watch": resting.watch,
    "rest": resting.rest,
}


class Refused(Exception):
    """This machine cannot measure."""


def main() -> None:
    """Measure and print the tables."""
    parser = command.table_parser("a grid with a hub", _ROWS)
    parser.add_argument("--members", type=int, default=1000, help="members of the hub in the row hub [default: 1000]")
    options = parser.parse_args()
    if reason := obstacle():
        raise Refused(reason)
    settings = Settings(rounds=1 if options.quick else 5, quick=options.quick, members=options.members)
    samples, strangers = Samples(), Strangers()
    for name in options.only:
        command.say(f"{strangers.seconds:5.0f} s  {name}")
        _ROWS[name](settings, samples)
    facts = {"results": samples.values, "notes": samples.notes}
    report = _report(samples)
    command.conclude(report, strangers, rounds=settings.rounds, file=options.json, facts=facts)


def _report(samples: Samples) -> str:
    head = ("what", "phalanx [quartiles]", "the other side", "ratio", "reach", "verdict")
    lines = [
        _line(figure, samples.values[name], samples) for name, figure in _FIGURES.items() if name in samples.values
    ]
    notes = ["* as measured by others, and not in this run", *samples.notes]
    return "\n\n".join([grid(head, lines), "\n".join(notes)])


def _line(figure: Figure, values: list[float], samples: Samples) -> tuple[str, ...]:
    ours, theirs, other = median(values), None, figure.elsewhere
    if figure.against is not None:
        theirs = median(samples.values[figure.against])
        other = f"{'direct' if other == '-' else other}: {_spread(samples.values[figure.against], figure.unit)}"
    ratio = None if theirs is None else ours / theirs
    value = ours if ratio is None else ratio
    sign, unit = ("≥" if figure.higher_is_better else "≤"), "×" if figure.against else figure.unit
    return (
        figure.what.format(members=int(median(samples.values.get("hub_members", [0])))),
        _spread(values, figure.unit),
        other,
        shown(ratio, "×"),
        "-" if figure.reach is None else f"{sign} {figure.reach:g} {unit}",
        "-" if figure.reach is None else _judged(value, figure.reach, figure.higher_is_better),
    )


def _judged(value: float, reach: float, higher_is_better: bool) -> str:
    said = verdict(value, reach, higher_is_better)
    return said if said == "met" else f"we lose: {said}"


def _spread(values: list[float], unit: str) -> str:
    if len(values) < 2:
        return shown(values[0], unit)
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return f"{shown(middle, unit)} [{shown(low, '')}, {shown(high, '')}]"


if __name__ == "__main__":
    command.run(main, Refused, AssertionError)
