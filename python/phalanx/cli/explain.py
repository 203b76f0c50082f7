"""``phalanx explain``: which level every link would have, and which rule decides it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Literal, NamedTuple

import click
from rich.table import Table

from phalanx import _native
from phalanx._identities import known_members
from phalanx.cli._console import console
from phalanx.cli._examples import examples
from phalanx.cli._grid_options import IDENTITY, POLICY_HELP
from phalanx.errors import IdentityError
from phalanx.grid import Grid
from phalanx.security import read_policy
from phalanx.words import AUTHENTICATED, DELEGATES, LEVELS, Delegate


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


class Executor(NamedTuple):
    """What an executor says of itself; without a cage: why there is no answer.

    ``accounts``: whether the processes of each user have an account of their own there; ``lacks``: what is not kept
    apart.
    """

    machine: str
    interpreters: int | None = None
    python: str | None = None
    cage: str | None = None
    accounts: bool = False
    lacks: Sequence[str] = ()
    why: str | None = None


@click.command(
    epilog=examples(
        "phalanx explain hosts.txt",
        "phalanx explain hosts.txt --policy all --json",
        "phalanx explain hosts.txt --ask",
    )
)
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
@click.option(
    "--delegate",
    type=click.Choice((*DELEGATES, "none")),
    default="given",
    show_default=True,
    help="What the program delegates to interpreters and ranks, as px.Manager(delegate=...) and mpirun --delegate.",
)
@click.option("--ask", is_flag=True, help="Also ask each executor, as this user, how it keeps its users apart.")
@IDENTITY
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON array of links; with --ask an object of links and executors.",
)
def explain(
    hosts: Path,
    policy: str,
    takes: str,
    delegate: Delegate | Literal["none"],
    ask: bool,
    identity: Path | None,
    as_json: bool,
) -> None:
    """Show how the link of each pair of machines is protected.

    It also shows what interpreters on these machines may do in the user's name.

    HOSTS is the file that names the executors and the trusted networks. Without --ask the command connects to no
    machine. It assumes that executors accept the level --takes and stronger ones; executors state their levels when a
    program connects.
    """
    grid = Grid(hosts, identity=identity, policy=read_policy(policy))
    called = {address: name for name, address in grid.machines.items() if not address.startswith(f"{name}:")}
    found = [Row(*row) for row in _native.explain(grid.reach.words(), grid.reach.addresses, takes)]
    proven = _met() | grid.certificates

    def named(row: Row) -> Row:
        one, other = called.get(row.one, row.one), called.get(row.other, row.other)
        return row._replace(one=one, other=other, proves=proven.get(row.other))

    rows = [named(row) for row in found]
    executors = _ask(grid) if ask else []
    if as_json:
        links = [row._asdict() for row in rows]
        told = {"links": links, "executors": [executor._asdict() for executor in executors]} if ask else links
        click.echo(json.dumps(told, indent=2))
    else:
        _print(rows)
        _print_executors(executors)
        console(_WIDTH).print(_delegated(delegate), highlight=False)
    if any(row.level is None for row in rows) or any(executor.cage is None for executor in executors):
        raise click.exceptions.Exit(1)


def _ask(grid: Grid) -> list[Executor]:
    """What the executors of a grid say."""
    addresses = list(grid.machines.values())
    answers = _native.ask_executors(addresses, grid.reach.dialler())
    return [
        Executor(machine, why=answer) if isinstance(answer, str) else Executor(machine, *answer[1:6])
        for machine, answer in zip(grid.machines, answers, strict=True)
    ]


def _met() -> dict[str, str]:
    """The names of the members that answered the user before, by address."""
    try:
        return {address: name for name, _, address in _native.known_members(known_members(None))}
    except IdentityError:  # the command explains levels also to a user without a folder for identities
        return {}


def _delegated(delegate: Delegate | Literal["none"]) -> str:
    """What interpreters and ranks at the machines may do in the user's name, and until when."""
    if delegate == "none":
        return "In the user's name, interpreters and ranks may do nothing."
    minutes = _native.delegation_lasts() // 60
    ranks = "may do nothing, unless they are started with --delegate"
    if delegate != "given":
        ranks = f"that are started with --delegate {delegate} may use {_RANKS_SCOPES[delegate]}"
    return (
        f"In the user's name, interpreters may use {_SCOPES[delegate]}.\n"
        f"In the user's name, ranks {ranks}.\n"
        f"Each delegation is good for {minutes} minutes, and is renewed every {minutes // 3} until the manager is "
        "closed, or the ranks have ended."
    )


_GIVEN, _FILES = "the spaces that the program was given", "the files that executors export (px.copy, px.sync, px.Files)"
_SCOPES: dict[Delegate, str] = {
    "given": _GIVEN,
    "spaces": "all spaces",
    "copies": f"{_GIVEN}, and {_FILES}",
    "all": f"all spaces, and {_FILES}",
}
_RANKS_SCOPES: dict[Delegate, str] = {**_SCOPES, "copies": _FILES}


def _print(rows: list[Row]) -> None:
    to = console(_WIDTH)
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
    to.print(table, highlight=False)
    if any(row.proves is None for row in rows):
        to.print("Where no name is in brackets or in the file, the first member that answers will be remembered.")
    if any(row.level == "authenticated" for row in rows):
        to.print(AUTHENTICATED, highlight=False)
    to.print("Control links, which ask executors for interpreters, are always private.")


def _print_executors(executors: list[Executor]) -> None:
    if not executors:
        return
    table = Table("executor", "interpreters", "Python", "cage", "remarks")
    for machine, interpreters, python, cage, accounts, lacks, why in executors:
        if cage is None:
            table.add_row(machine, "", "", "no answer", why)
        else:
            shown = f"{cage} with accounts" if accounts else cage
            table.add_row(machine, str(interpreters), python, shown, "\n".join(lacks))
    console(_WIDTH).print(table, highlight=False)


#: Columns where there is no terminal.
_WIDTH = 140
_WHAT = {"none": "not marked", "data": "marked data", "code": "marked code"}
