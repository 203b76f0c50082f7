"""``phalanx here``: the work of this machine for others, for its owner."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import click

from phalanx._voluntary import books, pausing
from phalanx._voluntary.rules import from_json
from phalanx.cli._examples import examples
from phalanx.cli._numbers import in_bytes
from phalanx.cli._streams import printable

#: Timeout for the answers of executors, in seconds. They poll at least twice a second.
_PATIENCE = 3.0
#: Polling interval of ``--watch``, in seconds.
_INTERVAL = 1.0
#: The singular of each kind of work.
_ONE = {"interpreters": "interpreter", "ranks": "rank"}


@click.command(
    epilog=examples(
        "phalanx here",
        "phalanx here --watch",
        "phalanx here --json",
    )
)
@click.option("--watch", is_flag=True, help="Go on until Ctrl-C, and show again what has changed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; with --watch, one at each change.")
def here(watch: bool, as_json: bool) -> None:
    """Show what this machine does for others, and why or why not.

    It asks every executor of this account on this machine: whether it is open or closed and why, what runs for which
    user and for how long, what that uses, and what users have used today. It asks no hub. Processor time of a user
    lacks what a process used between the last look at it, at most a minute ago, and its end by itself; that of all
    users together lacks nothing. Nothing counts what users' processes send over the network.
    """
    found = ask_here()
    _show(found, as_json, watch)
    while watch:
        time.sleep(_INTERVAL)
        now = ask_here()
        if _state(now) != _state(found):
            if not as_json:
                click.echo(f"{datetime.now():%H:%M:%S}")
            _show(now, as_json, watch)
        found = now


def ask_here() -> dict[str, Any]:
    """The reports of this account's executors, in the form of ``--json``."""
    executors = [_executor(told) for told in books.asked(_PATIENCE)]
    pause = pausing.paused()
    told = {"since": _moment(pause.since), "until": pause.until and _moment(pause.until)} if pause else None
    return {"executors": executors, "paused": told, "today": books.days().get(date.today().isoformat(), {})}


def _executor(told: dict[str, Any]) -> dict[str, Any]:
    taken = ("name", "grid", "address", "pid", "closed", "users", "processor", "rules")
    times = {"since": _moment(told["since"]), "written": _moment(told["written"])}
    return {**{name: told.get(name) for name in taken}, **times, "is_new": told["is_new"]}


def _state(found: dict[str, Any]) -> Any:
    """The part of a report that changes with events. It leaves out times and sums, because these always grow."""
    kinds = [
        [(user["user"], [(it["what"], it["count"]) for it in user["running"]]) for user in executor["users"]]
        for executor in found["executors"]
    ]
    return kinds, [(it["pid"], it["closed"], it["is_new"]) for it in found["executors"]], found["paused"]


def _show(found: dict[str, Any], as_json: bool, watch: bool) -> None:
    if as_json:
        click.echo(json.dumps(found, indent=None if watch else 2))
        return
    for line in _lines(found):
        click.echo(printable(line))


def _lines(found: dict[str, Any]) -> Iterator[str]:
    if not found["executors"]:
        yield "no executor of this account runs on this machine"
    for executor in found["executors"]:
        yield from _executor_lines(executor)
    if (pause := found["paused"]) is not None:
        until = f"until {_clock(pause['until'])}" if pause["until"] else "until: phalanx resume"
        yield f"paused since {_clock(pause['since'])}, {until}"
    today = sorted(found["today"].items(), key=lambda row: -row[1]["places"])
    for user, sums in today:
        yield (
            f"today for {user}: {_time(sums['places'])} of interpreters and ranks, "
            f"{_time(sums['processor'])} of processor time, {sums['started']:.0f} started"
        )
    if not today:
        yield "today for nobody"


def _executor_lines(it: dict[str, Any]) -> Iterator[str]:
    grid = f" in {it['grid']}" if it["grid"] else ""
    state = "open" if it["closed"] is None else f"closed: {it['closed']}"
    yield f"{it['name']}{grid}, {it['address']}: {state} (since {_clock(it['since'])})"
    if not it["is_new"]:
        yield f"  it does not answer; this was so at {_clock(it['written'])}"
    if words := from_json(it["rules"]).words():
        yield f"  works {', '.join(words)}"
    is_busy = False
    for user in it["users"]:
        for row in user["running"]:
            is_busy = True
            what = _ONE.get(row["what"], row["what"]) if row["count"] == 1 else row["what"]
            yield (
                f"  {user['user']}: {row['count']} {what} for {_time(row['seconds'])}, "
                f"{in_bytes(user['memory'])}, {_time(user['processor'])} of processor time since it started"
            )
    if not is_busy:
        yield "  runs nothing for users"


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).astimezone().isoformat()


def _clock(moment: str) -> str:
    return f"{datetime.fromisoformat(moment):%Y-%m-%d %H:%M:%S}"


def _time(seconds: float) -> str:
    """A duration in words for people."""
    return (
        f"{seconds:.1f} s"
        if seconds < 60
        else f"{seconds / 60:.1f} min"
        if seconds < 3600
        else f"{seconds / 3600:.1f} h"
    )
