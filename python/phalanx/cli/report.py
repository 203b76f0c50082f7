"""``phalanx report``: the history of a grid, by user, machine, day and kind of work."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta, timezone
from typing import Any, NamedTuple

import click
from rich.table import Table

from phalanx import _native
from phalanx._grids import dialler_of, one_joined
from phalanx.cli._console import console
from phalanx.cli._examples import examples
from phalanx.cli._joined import JOINED
from phalanx.cli._numbers import Count
from phalanx.cli._streams import printable

#: Most days of a report: ten years.
_MOST = 3660
_EPOCH = date(1970, 1, 1)
_DAYS = 30
#: Width of a table without a terminal, in columns.
_WIDTH = 120


class Use(NamedTuple):
    """A user's usage of a machine on a day, by one kind of work.

    Attributes
    ----------
    day : date or None
        The day (UTC). None: all days that the hub no longer keeps one by one.
    machine, user, what : str
        The machine, the user, and the kind of work: interpreters, ranks or jobs.
    places, processor : float
        Place time and processor time, in seconds.
    energy : float
        Joules. 0: the machine does not measure energy.
    started : int
        The number of started processes.
    """

    day: date | None
    machine: str
    user: str
    what: str
    places: float
    processor: float
    energy: float
    started: int


@click.command(
    epilog=examples(
        "phalanx report",
        "phalanx report --days 365 --by machine",
        "phalanx report --grid lab --json",
    )
)
@click.option(
    "--days",
    type=Count(1, _MOST),
    default=_DAYS,
    show_default=True,
    help=f"The last so many days, with today, at most {_MOST}.",
)
@click.option("--all", "everything", is_flag=True, help="All days that the hub knows.")
@click.option(
    "--by",
    type=click.Choice(["user", "machine", "day", "what"]),
    default=None,
    help="A line for each of these. [default: a table of users, and one of machines]",
)
@JOINED
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with rows for each day.")
def report(days: int, everything: bool, by: str | None, name: str | None, as_json: bool) -> None:
    """Show who computed what for whom in a grid.

    The hub adds up what executors tell: the hours of places that machines have offered, and those that users have used
    with interpreters, ranks and jobs; processor time; and energy where a machine's system tells it. It keeps each day
    of each machine. Days are those of UTC. What a machine has done while no hub knew it counts on the day on which a
    hub hears of it. What is not half a minute old may be missing.
    """
    joined = one_joined(name)
    today = datetime.now(timezone.utc).date()
    since = None if everything else today - timedelta(days=days - 1)
    first = 0 if since is None else (since - _EPOCH).days
    rows = _native.hub_history(*dialler_of(joined), first)
    uses = [Use(_day(day), machine, *_in_units(it)) for day, machine, _, all_of in rows for it in all_of]
    offered = [(_day(day), machine, milliseconds / 1000) for day, machine, milliseconds, _ in rows]
    if as_json:
        click.echo(json.dumps({"grid": joined.name, "since": since and str(since), **_for_json(uses, offered)}))
        return
    hours = sum(seconds for _, _, seconds in offered) / 3600
    machines = {machine for _, machine, _ in offered}
    used = sum(use.places for use in uses) / 3600
    span = f"since {since}" if since else "ever"
    click.echo(f"{printable(joined.name)}, {span}: {len(machines)} machines offered {hours:.1f} h of places", nl=False)
    click.echo(f", of which users used {used:.1f} h" + (f" ({used / hours:.0%})" if hours else ""))
    for key in [by] if by else ["user", "machine"]:
        _print(key, uses, offered)


def _day(number: int) -> date | None:
    return _EPOCH + timedelta(days=number) if number else None


def _in_units(row: tuple[str, str, int, int, int, int]) -> tuple[str, str, float, float, float, int]:
    user, what, places, processor, energy, started = row
    return user, what, places / 1000, processor / 1000, energy / 1000, started


def _for_json(uses: Iterable[Use], offered: Iterable[tuple[date | None, str, float]]) -> dict[str, Any]:
    return {
        "uses": [{**use._asdict(), "day": use.day and str(use.day)} for use in uses],
        "offered": [
            {"day": day and str(day), "machine": machine, "places": seconds} for day, machine, seconds in offered
        ],
    }


def _print(key: str, uses: list[Use], offered: list[tuple[date | None, str, float]]) -> None:
    """Prints a table with a line for each user, machine, day or kind of work. Days are in order; other lines are sorted
    by used hours, the most first."""
    of: Callable[[Use], str] = lambda use: str(getattr(use, key) or "before")  # noqa: E731
    names = {of(use) for use in uses}
    given: dict[str, float] = {}
    if key in ("machine", "day"):
        for day, machine, seconds in offered:
            name = machine if key == "machine" else str(day or "before")
            given[name] = given.get(name, 0.0) + seconds
    table = Table(key)
    heads = [*(["offered h"] if given else []), "used h", "processor h", "started"]
    has_energy = any(use.energy for use in uses)
    for head in [*heads, *(["kWh"] if has_energy else [])]:
        table.add_column(head, justify="right")
    for name in sorted(names | given.keys(), key=lambda name: _order(key, name, uses, of)):
        rows = [use for use in uses if of(use) == name]
        sums = [sum(use.places for use in rows) / 3600, sum(use.processor for use in rows) / 3600]
        cells = [f"{given.get(name, 0.0) / 3600:.1f}"] if given else []
        cells += [*(f"{hours:.2f}" for hours in sums), f"{sum(use.started for use in rows)}"]
        energy = [f"{sum(use.energy for use in rows) / 3.6e6:.3f}"] if has_energy else []
        table.add_row(printable(name), *cells, *energy)
    console(_WIDTH).print(table, highlight=False, markup=False)


def _order(key: str, name: str, uses: list[Use], of: Callable[[Use], str]) -> tuple[float, str]:
    most = 0.0 if key == "day" else -sum(use.places for use in uses if of(use) == name)
    return most, name
