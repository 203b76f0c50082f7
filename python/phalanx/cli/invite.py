"""``phalanx invite``: a line with which others join a grid."""

from __future__ import annotations

import json

import click

from phalanx import _native
from phalanx._grids import dialler_of, one_joined
from phalanx.cli._examples import examples
from phalanx.cli._joined import JOINED, good_for
from phalanx.cli._numbers import Count, in_units
from phalanx.members import OWNER

#: The limits of a hub: `MOST_USES` and `LONGEST_INVITATION` in phalanx-core/src/hub.
_MOST_USES, _LONGEST = 100_000, 30 * 24 * 3600


@click.command(
    epilog=examples(
        "phalanx invite",
        "phalanx invite --role user --for 2d",
        "phalanx invite --uses 30 --for 1h --grid lab",
        "phalanx invite --role owner",
        "phalanx invite --role hub --uses 2",
    )
)
@click.option(
    "--role",
    type=click.Choice(["executor", "user", "owner", "hub"]),
    default="executor",
    show_default=True,
    help="What the new member is: a machine that computes for others, a person, a person who owns the grid too, or a "
    "further hub.",
)
@click.option(
    "--uses",
    type=Count(1, _MOST_USES),
    default=1,
    show_default=True,
    help=f"How many members may join with it, at most {_MOST_USES}.",
)
@good_for(_LONGEST, "1h")
@JOINED
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def invite(role: str, uses: int, seconds: int, name: str | None, as_json: bool) -> None:
    """Print a line with which others join the grid.

    Only owners of the grid invite. The line is a secret until it is used: who has it first is the new member.

    An owner invites, expels and lends as you do, and can expel you. A user of the grid who joins with a line for an
    owner becomes one.
    """
    if role == OWNER and uses > 1:
        raise click.UsageError("a line makes one person an owner: leave out --uses")
    joined = one_joined(name)
    token = _native.hub_invite(*dialler_of(joined), role, uses, seconds)
    if as_json:
        told = {"grid": joined.name, "role": role, "uses": uses, "seconds": seconds, "token": token}
        click.echo(json.dumps(told))
        return
    click.echo(f"phalanx up --join {token}" if role == "hub" else f"phalanx join {token}")
    for_whom = f"one {role}" if uses == 1 else f"{uses} {role}s"
    click.echo(f"good for {for_whom}, for {in_units(seconds)}", err=True)
