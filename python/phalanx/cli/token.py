"""``phalanx token``: a token for clients that speak HTTP to the hub."""

from __future__ import annotations

import json

import click

from phalanx import _native
from phalanx._grids import dialler_of, one_joined, root_file
from phalanx.cli._examples import examples
from phalanx.cli._joined import JOINED, good_for
from phalanx.cli._numbers import in_units

#: The limit of a hub: `LONGEST_BEARER` in phalanx-net/src/identity/bearer.rs.
_LONGEST = 30 * 24 * 3600


@click.command(
    epilog=examples(
        "phalanx token",
        "phalanx token --for 1h --grid lab --json",
        "phalanx token --authority",
    )
)
@good_for(_LONGEST, "7d")
@click.option(
    "--authority",
    is_flag=True,
    help="Print instead the file with the certificate by which clients know the hub. It is no secret.",
)
@JOINED
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def token(seconds: int, authority: bool, name: str | None, as_json: bool) -> None:
    """Print a token for workflow engines and other programs.

    They use tasks, jobs, files and tuple spaces with it in your name, over HTTPS. A hub serves them if it was started
    with phalanx up --tes. The token is a secret: who has it is you, to that service and over no link of the grid, until
    its time is over or you are no user of the grid any more. No hub is asked.
    """
    joined = one_joined(name)
    if authority:
        file = root_file(joined)
        click.echo(json.dumps({"grid": joined.name, "authority": f"{file}"}) if as_json else file)
        return
    made = _native.user_token(dialler_of(joined)[0], seconds)
    if as_json:
        click.echo(json.dumps({"grid": joined.name, "seconds": seconds, "token": made}))
        return
    click.echo(made)
    click.echo(f"good for {in_units(seconds)}", err=True)
