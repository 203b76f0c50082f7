"""``phalanx members``: who is in a grid, and which of its machines run."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from datetime import datetime

import click

from phalanx._grids import Joined, ask_members, find_members, one_joined
from phalanx.cli._console import print_narrow
from phalanx.cli._examples import examples
from phalanx.cli._joined import JOINED
from phalanx.cli._streams import printable
from phalanx.errors import RecruitError
from phalanx.members import CLOSED, LEADS, OWNER, Member, to_json

#: Seconds between two questions of ``--watch``.
_INTERVAL = 1.0
#: Columns where there is no terminal.
_WIDTH = 120
_HEADERS = ("name", "role", "here", "since", "address", "certificate until", "machine")


@click.command(
    epilog=examples(
        "phalanx members",
        "phalanx members --watch",
        "phalanx members --json --grid lab",
    )
)
@JOINED
@click.option("--watch", is_flag=True, help="Go on until Ctrl-C, and print a line for each change.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array; with --watch, one at each change.")
def members(name: str | None, watch: bool, as_json: bool) -> None:
    """Show the members of a grid, as its hub knows them.

    A machine is here while its executor runs. One that is closed works for nobody now, for the reason that is shown.
    If no hub answers, the command shows the last answer, with a warning.
    """
    joined = one_joined(name)
    found = find_members(joined)
    _show(found, as_json, watch)
    if sum(it.role == "hub" for it in found) == 2:
        click.echo(
            "the grid has two hubs, which are no safer than one: both are needed. With a third, any one may be lost: "
            "phalanx invite --role hub",
            err=True,
        )
    if watch:
        _watch(joined, found, as_json)


def _watch(joined: Joined, before: list[Member], as_json: bool) -> None:
    """Prints what changes, until Ctrl-C."""
    is_away = False
    while True:
        time.sleep(_INTERVAL)
        try:
            now = ask_members(joined)
        except RecruitError as error:
            if not is_away:
                click.echo(f"phalanx: {printable(str(error))}", err=True)
            is_away = True
            continue
        if is_away:
            click.echo("phalanx: a hub answers again", err=True)
        is_away = False
        changes = [*_changes(before, now)]
        if as_json and changes:
            _show(now, as_json=True, watch=True)
        for change in changes if not as_json else ():
            click.echo(f"{datetime.now():%H:%M:%S} {change}")
        before = now


def _changes(before: list[Member], now: list[Member]) -> Iterator[str]:
    """What differs between two answers, a line for each member. Certificates are renewed all the time."""
    earlier = {(it.role, it.name): it for it in before}
    for member in now:
        known = earlier.pop((member.role, member.name), None)
        if known is None:
            yield f"{member.role} {member.name} has joined"
        if known is None and not member.is_here:
            continue
        if known is not None and known.is_owner != member.is_owner:
            yield f"{member.role} {member.name} {'is an owner now' if member.is_owner else 'is no owner any more'}"
        if known is None or (known.is_here, known.address) != (member.is_here, member.address):
            yield f"{member.role} {member.name} {_state(member)}"
        closed, was_closed = member.facts.get(CLOSED), known and known.facts.get(CLOSED)
        if closed != was_closed and member.is_here:
            state = "is open" if closed is None else f"is closed: {printable(closed)}"
            yield f"{member.role} {member.name} {state}"
    for role, name in earlier:
        yield f"{role} {name} is no member any more"


def _state(member: Member) -> str:
    return f"is here, at {member.address}" if member.is_here else "has gone"


def _show(found: list[Member], as_json: bool, watch: bool) -> None:
    if as_json:
        click.echo(json.dumps([to_json(member) for member in found], indent=None if watch else 2))
        return
    rows = [dict(zip(_HEADERS, _cells(member), strict=True)) for member in found]
    print_narrow(
        _HEADERS, rows, _WIDTH, whole=("name", "role", "address"), spare=("certificate until", "since", "machine")
    )


def _cells(member: Member) -> tuple[str, ...]:
    here = "" if member.role == "user" else "yes" if member.is_here else "no"
    if member.facts.get(LEADS) == "yes" and member.role == "hub":
        here = "leads"
    if closed := member.facts.get(CLOSED):
        here = printable(f"closed: {closed}")
    role = OWNER if member.is_owner else member.role
    since, until = (f"{time.astimezone():%Y-%m-%d %H:%M}" for time in (member.since, member.until))
    return member.name, role, here, since, member.address or "", until, _machine(member)


def _machine(member: Member) -> str:
    """What a machine has, in a few words. The machine has chosen them."""
    facts = member.facts
    cores = f"{facts['cores']} cores" if "cores" in facts else ""
    memory = f"{int(facts['memory']) / 1e9:.1f} GB" if re.fullmatch("[0-9]{1,18}", facts.get("memory", "")) else ""
    gpus = f"{facts['gpus']} GPUs" if "gpus" in facts else ""
    python = f"Python {facts['python']}" if "python" in facts else ""
    labels = f"labels {facts['labels']}" if "labels" in facts else ""
    lent = [f"{word} {facts[word]}" for word in ("lent to", "lent by") if word in facts]
    cage = f"cage {facts['cage']}" if "cage" in facts else ""
    return printable(", ".join(filter(None, (*lent, cores, memory, gpus, python, labels, cage))))
