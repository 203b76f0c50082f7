"""``phalanx status``: what the machines of a grid run, for whom, and which links its hub relays."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import click
from rich.table import Table

from phalanx._grids import Joined, one_joined, read_status
from phalanx.cli._console import console
from phalanx.cli._examples import examples
from phalanx.cli._numbers import in_bytes
from phalanx.cli._streams import printable
from phalanx.errors import RecruitError

#: Seconds between two questions of ``--watch``. Executors tell changes once a second at most.
_INTERVAL = 1.0
#: Columns where there is no terminal.
_WIDTH = 120
#: Most relayed links that are shown in a table.
_MOST_SHOWN = 10
#: One of several.
_ONE = {"interpreters": "interpreter", "ranks": "rank", "copies": "copy", "spaces": "link to spaces"}
_SEVERAL = {"spaces": "links to spaces"}


@click.command(
    epilog=examples(
        "phalanx status",
        "phalanx status lab --watch",
        "phalanx status --json",
    )
)
@click.argument("name", metavar="[GRID]", required=False)
@click.option("--watch", is_flag=True, help="Go on until Ctrl-C, and show again what has changed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; with --watch, one at each change.")
def status(name: str | None, watch: bool, as_json: bool) -> None:
    """Show what the machines of a grid run, and for whom.

    Executors tell their hub what they run when it changes, at most once a second: the places in use, the programs of
    each user, the levels of their links, whether these are relayed, and interpreters and ranks that were lost. One
    that is closed works for nobody now, for the reason that is shown. The hub tells which links it relays. Only members
    of the grid can ask.

    GRID is the only grid that you have joined, unless you name one.
    """
    joined = one_joined(name)
    found = ask_status(joined)
    _show(found, as_json, watch)
    while watch:
        time.sleep(_INTERVAL)
        try:
            now = ask_status(joined)
        except RecruitError as error:
            click.echo(f"phalanx: {printable(str(error))}", err=True)
            continue
        if _without_times(now) != _without_times(found):
            if not as_json:
                click.echo(f"{datetime.now():%H:%M:%S}")
            _show(now, as_json, watch)
        found = now


def ask_status(joined: Joined) -> dict[str, Any]:
    """What the executors of a grid run and its hub relays, as ``--json`` prints it. Raises RecruitError if no hub
    answers."""
    return read_status(joined).to_json()


def _without_times(found: dict[str, Any]) -> dict[str, Any]:
    """What differs when something happens: links get older by themselves."""
    largest = [{**link, "seconds": 0} for link in found["relayed"]["largest"]]
    return {**found, "relayed": {**found["relayed"], "largest": largest}}


def _show(found: dict[str, Any], as_json: bool, watch: bool) -> None:
    if as_json:
        click.echo(json.dumps(found, indent=None if watch else 2))
        return
    table = Table("executor", "here", "since", "in use", "runs", "lost")
    for it in found["executors"]:
        since = datetime.fromisoformat(it["since"]).astimezone()
        table.add_row(
            printable(it["name"]),
            "yes" if it["is_here"] else "no",
            f"{since:%Y-%m-%d %H:%M}",
            "" if it["used"] is None else _places(it),
            "\n".join(_lines(it)),
            printable(f"{it['lost']}: {it['last_loss']}") if it["lost"] else "0" if it["is_here"] else "",
        )
    out = console(_WIDTH)
    out.print(table, highlight=False, markup=False)
    relayed = found["relayed"]
    links = "1 link" if relayed["links"] == 1 else f"{relayed['links']} links"
    out.print(f"relayed by the hub: {links} now, {in_bytes(relayed['bytes'])} since it started")
    for link in relayed["largest"][:_MOST_SHOWN]:
        ends = printable(f"{link['from']} to {link['to']}")
        out.print(f"  {ends}: {in_bytes(link['bytes'])} in {link['seconds']} s", highlight=False, markup=False)


def _places(it: dict[str, Any]) -> str:
    places = f"{it['used']} of {it['interpreters']}"
    return printable(f"{places}, closed: {it['closed']}") if it["closed"] else places


def _lines(it: dict[str, Any]) -> Iterable[str]:
    for row in it["running"]:
        yield printable(_words(row))
    if it["more"]:
        yield f"and {it['more']} more"


def _words(row: dict[str, Any]) -> str:
    """What a user has at an executor, as ``ada: 2 interpreters (private, relayed)``."""
    what, count = row["what"], row["count"]
    named = _ONE.get(what, what) if count == 1 else _SEVERAL.get(what, what)
    links = [*filter(None, (row["level"], "relayed" if row["is_relayed"] else "", _rate(row["rate"])))]
    return f"{row['user']}: {count} {named}" + (f" ({', '.join(links)})" if links else "")


def _rate(rate: int) -> str:
    return f"{in_bytes(rate)}/s" if rate else ""
