"""``phalanx grids``: the grids that this account has joined."""

from __future__ import annotations

import json
from typing import NamedTuple

import click
from rich.table import Table

from phalanx._grids import Joined, read_joined
from phalanx._identities import joined_names, read_private
from phalanx.cli._console import console
from phalanx.cli._examples import examples
from phalanx.cli._joined import name_in, parts_of
from phalanx.cli._running import what_runs
from phalanx.errors import IdentityError

#: Columns where there is no terminal.
_WIDTH = 120


class Row(NamedTuple):
    """A grid, and what this account is there. ``problem``: why its folder cannot be read; else empty."""

    grid: str
    user: str | None = None
    executor: str | None = None
    is_hub: bool = False
    runs: str | None = None
    hubs: tuple[str, ...] = ()
    problem: str = ""


@click.command(
    epilog=examples(
        "phalanx grids",
        "phalanx grids --json",
    )
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
def grids(as_json: bool) -> int:
    """Show the grids that this account has joined.

    It asks no hub. The exit code is 1 if the folder of a grid is damaged.
    """
    rows = [_row(name) for name in joined_names()]
    if as_json:
        click.echo(json.dumps([row._asdict() for row in rows], indent=2))
    elif not rows:
        click.echo("none; join one with phalanx join TOKEN, or begin one with phalanx up", err=True)
    else:
        table = Table("grid", "you", "this machine", "runs", "hubs")
        for row in rows:
            machine = ", ".join(filter(None, (row.executor, "the hub" if row.is_hub else "")))
            table.add_row(row.grid, row.user or "", machine, row.runs or "", ", ".join(row.hubs) or row.problem)
        console(_WIDTH).print(table, highlight=False, markup=False)
    return int(any(row.problem for row in rows))


def _row(name: str) -> Row:
    try:
        joined = read_joined(name)
        user, executor = _name(joined, "user"), _name(joined, "executor")
        return Row(name, user, executor, "hub" in parts_of(joined), what_runs(joined), joined.hubs)
    except IdentityError as error:
        return Row(name, problem=str(error))


def _name(joined: Joined, role: str) -> str | None:
    """The name of this account in a role; None if it is none."""
    if role not in parts_of(joined):
        return None
    return name_in(read_private(joined.folder / f"{role}.pem", "identity", ""))
