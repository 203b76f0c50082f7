"""``phalanx explain``: which level every link would have, and which rule decides it."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import Console
from rich.table import Table

from phalanx import _native
from phalanx._reach import known_members
from phalanx.cli._grid_options import POLICY_HELP
from phalanx.errors import IdentityError
from phalanx.grid import Grid
from phalanx.security import read_policy
from phalanx.words import AUTHENTICATED, LEVELS


class Row(NamedTuple):
    """The level of what has a mark between two machines; none where they cannot talk.

    ``proves``: the name that the other one must prove with its certificate; none where the first member that answers
    will be remembered.
    """

    one: str
    other: str
    mark: str
    level: str | None
    why: str
    weaker: bool
    proves: str | None = None


@click.command()
@click.argument("hosts", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--policy",
    default="links",
    show_default=True,
    metavar="links|marked|all|FILE",
    help=POLICY_HELP,
)
@click.option(
    "--takes",
    type=click.Choice(LEVELS),
    default="safe",
    show_default=True,
    help=f"The weakest level that executors accept; clear: they trust the network too; {AUTHENTICATED}",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
def explain(hosts: Path, policy: str, takes: str, as_json: bool) -> None:
    """Show how each pair of machines would be protected, and why.

    HOSTS is the file that names the executors and the trusted networks. The command connects to no machine. It assumes
    that executors accept the level --takes and stronger ones; executors state their levels when a program connects.
    """
    grid = Grid(hosts, policy=read_policy(policy))
    called = {address: name for name, address in grid.machines.items() if not address.startswith(f"{name}:")}
    found = [Row(*row) for row in _native.explain(grid.reach.words(), grid.reach.addresses, takes)]
    proven = _met() | grid.certificates

    def named(row: Row) -> Row:
        one, other = called.get(row.one, row.one), called.get(row.other, row.other)
        return row._replace(one=one, other=other, proves=proven.get(row.other))

    rows = [named(row) for row in found]
    if as_json:
        click.echo(json.dumps([row._asdict() for row in rows], indent=2))
    else:
        _print(rows)
    if any(row.level is None for row in rows):
        raise click.exceptions.Exit(1)


def _met() -> dict[str, str]:
    """The names of the members that answered the user before, by address."""
    try:
        return {address: name for name, _, address in _native.known_members(known_members(None))}
    except IdentityError:  # the command explains levels also to a user without a folder for identities
        return {}


def _print(rows: list[Row]) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=140)
    table = Table("from", "to", "what", "level", "because")
    for (one, other), pair in groupby(rows, lambda row: row[:2]):
        for (level, why), alike in groupby(pair, lambda row: (row.level, row.why)):
            of_these = list(alike)
            marks = [row.mark for row in of_these]
            what = "everything" if len(marks) == 3 else ", ".join(_WHAT[mark] for mark in marks)
            shown = f"{level} (weaker than by default)" if of_these[0].weaker else level or "none"
            proves = of_these[0].proves or other
            named = other if not other or proves.lower() == other.lower() else f"{other} ({proves})"
            table.add_row(one, named, what, shown, why)
            one = other = ""
    console.print(table, highlight=False)
    if any(row.proves is None for row in rows):
        console.print("Where no name is in brackets or in the file, the first member that answers will be remembered.")
    if any(row.level == "authenticated" for row in rows):
        console.print(AUTHENTICATED, highlight=False)
    console.print("Control links, which ask executors for interpreters, are always private.")


_WHAT = {"none": "not marked", "data": "marked data", "code": "marked code"}
