"""``phalanx expel``: takes a member out of a grid."""

from __future__ import annotations

import sys

import click

from phalanx import _native
from phalanx._grids import ask_members, dialler_of, one_joined
from phalanx.cli._examples import examples
from phalanx.cli._joined import JOINED
from phalanx.cli._streams import is_terminal


@click.command(
    epilog=examples(
        "phalanx expel labpc",
        "phalanx expel --yes --grid lab eve",
    )
)
@click.argument("member", metavar="NAME")
@click.option("--yes", is_flag=True, help="Do not ask.")
@JOINED
def expel(member: str, yes: bool, name: str | None) -> None:
    """Take the machine (or user) NAME out of the grid.

    Only owners of the grid expel. The hub revokes the certificates of all members of this name. Their links end within
    a second, and no member accepts their certificates again. Members that are away hear of it when they come back.

    The only hub of a grid stays. Of its machine, the executor is taken out.
    """
    joined = one_joined(name)
    if not yes and not is_terminal(sys.stdin):
        raise click.UsageError("there is no terminal to ask on: add --yes")
    is_only_hub = [it.name for it in ask_members(joined) if it.role == "hub"] == [member]
    if not yes:
        what = f"the executor {member}, whose machine stays the hub," if is_only_hub else member
        click.confirm(f"take {what} out of the grid {joined.name}?", abort=True)
    revoked = _native.hub_expel(*dialler_of(joined), member)
    certificates = "1 certificate is" if revoked == 1 else f"{revoked} certificates are"
    what = f"the executor {member}" if is_only_hub else member
    click.echo(f"{what} is no member of the grid {joined.name} any more; {certificates} revoked")
    if is_only_hub:
        click.echo("its machine stays the only hub of the grid, and starts so: phalanx up --hub-only")
