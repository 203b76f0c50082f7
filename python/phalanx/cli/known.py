"""``phalanx known``: the members that answered first at addresses without a name."""

from __future__ import annotations

import json
from pathlib import Path

import click

from phalanx import _native
from phalanx._reach import known_members
from phalanx.errors import IdentityError

_FILE = click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file of known members. [default: known_members in $PHALANX_HOME or ~/.phalanx]",
)


@click.group()
def known() -> None:
    """Show or forget the members that answered first where you typed an address without a name.

    The first member that answers at HOST:PORT is remembered by the name in its certificate, and no other is accepted
    there. Machines that a hosts file names (ws7 = HOST:PORT) must prove that name instead, and are not listed. The file
    lies beside your certificate.
    """


@known.command("list")
@_FILE
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
def show(file: Path | None, as_json: bool) -> None:
    """Show each known member, its address, and the fingerprint of its grid."""
    rows = _native.known_members(file or known_members(None))
    if as_json:
        click.echo(json.dumps([{"name": name, "grid": grid, "address": at} for name, grid, at in rows], indent=2))
        return
    for name, grid, address in rows:
        click.echo(f"{address} {name} {grid}")


@known.command()
@click.argument("address")
@_FILE
def forget(address: str, file: Path | None) -> None:
    """Forget who answered at ADDRESS (HOST:PORT or unix:PATH): the next member that answers there is remembered."""
    place = file or known_members(None)
    gone = _native.forget_member(place, address)
    if not gone:
        raise IdentityError(f"nobody is known at {address}, says {place}; see: phalanx known list --file {place}")
    for name, _, at in gone:
        click.echo(f"forgotten: {name} at {at}")
