"""``phalanx known``: the members that answered first at addresses without a name."""

from __future__ import annotations

import json
from pathlib import Path

import click

from phalanx import _native
from phalanx._identities import known_members
from phalanx.cli._examples import examples
from phalanx.cli._suggestions import Suggesting
from phalanx.errors import IdentityError

_FILE = click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file of known members. [default: known_members in $PHALANX_HOME or ~/.phalanx]",
)


@click.group(
    cls=Suggesting,
    epilog=examples(
        "phalanx known list",
        "phalanx known forget labpc:7400",
    ),
)
def known() -> None:
    """Show or forget the members that answered first at addresses.

    This is about addresses that you typed without a name.

    The first member that answers at HOST:PORT is remembered by the name in its certificate, and no other is accepted
    there. Machines that a hosts file names (ws7 = HOST:PORT) must prove that name instead, and are not listed. The file
    lies beside your certificate.
    """


@known.command(
    "list",
    epilog=examples(
        "phalanx known list",
        "phalanx known list --json",
    ),
)
@_FILE
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
def show(file: Path | None, as_json: bool) -> None:
    """Show known members, with address and fingerprint of the grid."""
    rows = _native.known_members(file or known_members(None))
    if as_json:
        click.echo(json.dumps([{"name": name, "grid": grid, "address": at} for name, grid, at in rows], indent=2))
        return
    for name, grid, address in rows:
        click.echo(f"{address} {name} {grid}")


@known.command(
    epilog=examples(
        "phalanx known forget labpc:7400",
        "phalanx known forget unix:spaces.socket",
    )
)
@click.argument("address")
@_FILE
def forget(address: str, file: Path | None) -> None:
    """Forget the member that answered first at ADDRESS.

    ADDRESS is HOST:PORT or unix:PATH. The next member that answers there is remembered.
    """
    place = file or known_members(None)
    gone = _native.forget_member(place, address)
    if not gone:
        raise IdentityError(f"nobody is known at {address}, says {place}; see: phalanx known list --file {place}")
    for name, _, at in gone:
        click.echo(f"forgotten: {name} at {at}")
