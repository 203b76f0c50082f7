"""``phalanx lend``: machines of a grid become members of another one."""

from __future__ import annotations

import json
import time
from typing import Any

import click
from rich.table import Table

from phalanx import _native
from phalanx._grids import Joined, dialler_of, one_joined
from phalanx.cli._console import console
from phalanx.cli._examples import examples
from phalanx.cli._joined import JOINED, typed_token
from phalanx.cli._lending import MOST_PLACES
from phalanx.cli._numbers import Count
from phalanx.cli._streams import printable
from phalanx.errors import ContractError, IdentityError
from phalanx.members import is_name, moment
from phalanx.requirements import read_labels

#: The most executors of a loan: `MOST_LENT` in phalanx-core/src/hub/lending.rs.
_MOST_LENT = 100
#: Seconds to wait until machines are in the other grid, and between two questions.
_PATIENCE, _PAUSE = 10.0, 0.25
#: A loan, as the native core tells it; its guests and the last refusal follow.
_WORDS = ("grid", "by", "since", "members", "labels", "accept", "places")
_GUEST = ("name", "there", "is_in", "why")
#: Columns where there is no terminal.
_WIDTH = 120


@click.command(
    epilog=examples(
        "phalanx lend --members 2 --accept bob phalanx1-BmNhbXB1cwhleGVjdXRvcg",
        "phalanx lend --list",
        "phalanx lend --end campus",
    )
)
@click.argument("token", required=False)
@click.option(
    "--members",
    type=Count(1, _MOST_LENT),
    default=1,
    show_default=True,
    help=f"How many machines are lent, at most {_MOST_LENT}.",
)
@click.option("--label", "labels", multiple=True, metavar="LABEL", help="Lend only machines with this label.")
@click.option(
    "--accept", multiple=True, metavar="USER", help="Lend them only to this user of the other grid (may be repeated)."
)
@click.option(
    "--places",
    type=Count(1, MOST_PLACES),
    help=f"The most places of each machine, at most {MOST_PLACES}. [default: as many as its owner allows]",
)
@click.option("--list", "lists", is_flag=True, help="Show what is lent.")
@click.option("--end", "ends", metavar="GRID", help="End what is lent to this grid.")
@JOINED
@click.option("--json", "as_json", is_flag=True, help="With --list, print one JSON array.")
def lend(
    token: str | None,
    members: int,
    labels: tuple[str, ...],
    accept: tuple[str, ...],
    places: int | None,
    lists: bool,
    ends: str | None,
    name: str | None,
    as_json: bool,
) -> None:
    """Lend machines of your grid to another grid.

    TOKEN is of the other grid. One of its owners prints it, with as many uses as machines may come: phalanx invite
    --uses 4. The hub of your grid chooses machines whose owners allow it, with phalanx join --may-lend. Each joins the
    other grid as one more member, like ws7-lab, with a key of its own. It goes on serving your grid. If a machine is
    lost, another one takes its place. The same command again, with a token of the same grid, changes the terms.

    Users of the other grid get places for interpreters and ranks, and neither spaces nor files of the machines. They
    use their own certificates, and share the machines fairly with the users of your grid. A machine that is lent is not
    lent further. Only owners of the grid lend.

    Other accounts of this machine see the words of a command while it runs. With - in place of the token, it is read
    from standard input.
    """
    if sum((token is not None, lists, ends is not None)) != 1:
        raise click.UsageError("say one of: a token, --list, --end GRID")
    joined = one_joined(name)
    if lists:
        return _list(joined, as_json)
    if ends is not None:
        _native.hub_end_loan(*dialler_of(joined), ends)
        click.echo(f"nothing is lent to the grid {printable(ends)} any more")
        return None
    token = typed_token(token or "", "phalanx join ")
    try:
        words = [*read_labels(labels)]
    except ContractError as error:
        raise click.UsageError(str(error)) from None
    accepted = [user.lower() for user in accept]
    if wrong := [user for user in accepted if not is_name(user)]:
        raise IdentityError(f"{wrong[0]!r} is no name of a user: it has small letters, digits and hyphens, 63 at most")
    grid = _native.hub_lend(
        *dialler_of(joined),
        token,
        members=members,
        labels=words,
        accepted=accepted,
        places=places or MOST_PLACES,
    )
    loan = _await_guests(joined, grid, members)
    there = [guest for guest in loan["guests"] if guest["is_in"]]
    for guest in there:
        click.echo(printable(f"{guest['name']} is lent to the grid {grid} as {guest['there']}"))
    if len(there) < members:
        why = printable(f"; {loan['refused']}") if loan["refused"] else ""
        click.echo(
            f"{len(there)} of {members} machines are there{why}. Others follow when they "
            "run and their owners allow it: phalanx lend --list",
            err=True,
        )
    return None


def _await_guests(joined: Joined, grid: str, members: int) -> dict[str, Any]:
    """Waits a moment until so many machines are in the other grid, or one was refused there. Returns the loan."""
    until = time.monotonic() + _PATIENCE
    while True:
        loan = next((loan for loan in ask_loans(joined) if loan["grid"] == grid), None)
        if loan is None:  # another owner has just ended it
            raise IdentityError(f"nothing is lent to the grid {printable(grid)} any more")
        is_there = sum(guest["is_in"] for guest in loan["guests"]) >= members
        if is_there or loan["refused"] or time.monotonic() >= until:
            return loan
        time.sleep(_PAUSE)


def ask_loans(joined: Joined) -> list[dict[str, Any]]:
    """What the grid lends, as ``--json`` prints it. Raises RecruitError if no hub answers."""
    loans: list[dict[str, Any]] = []
    for *row, guests, refused in _native.hub_loans(*dialler_of(joined)):
        loan: dict[str, Any] = dict(zip(_WORDS, row, strict=True))
        loan["since"] = moment(loan["since"]).isoformat()
        loan["guests"] = [dict(zip(_GUEST, guest, strict=True)) for guest in guests]
        loans.append({**loan, "refused": refused})
    return loans


def _list(joined: Joined, as_json: bool) -> None:
    loans = ask_loans(joined)
    if as_json:
        click.echo(json.dumps(loans, indent=2))
        return
    table = Table("to the grid", "machines", "users", "places of each", "as members", "last refusal")
    for loan in loans:
        table.add_row(
            loan["grid"],
            f"{sum(guest['is_in'] for guest in loan['guests'])} of {loan['members']}",
            ", ".join(loan["accept"]) or "all",
            "as owners allow" if loan["places"] == MOST_PLACES else str(loan["places"]),
            "\n".join(printable(_guest(guest)) for guest in loan["guests"]),
            printable(loan["refused"]),
        )
    console(_WIDTH).print(table, highlight=False, markup=False)


def _guest(guest: dict[str, Any]) -> str:
    state = "" if guest["is_in"] else f" ({guest['why'] or 'not yet'})"
    return f"{guest['name']} as {guest['there']}{state}"
