"""``phalanx leave``: this account leaves a grid."""

from __future__ import annotations

import shutil

import click

from phalanx import _native
from phalanx._grids import Joined, dialler_of
from phalanx.cli._examples import examples
from phalanx.cli._founding import authority_of
from phalanx.cli._joined import as_typed, one_joined
from phalanx.cli._running import what_runs
from phalanx.cli._streams import printable
from phalanx.deploying import services
from phalanx.errors import IdentityError, PhalanxError


@click.command(
    epilog=examples(
        "phalanx leave",
        "phalanx leave lab",
        "phalanx leave --with-hub lab",
    )
)
@click.argument("name", metavar="[GRID]", required=False)
@click.option("--with-hub", is_flag=True, help="Leave a grid whose hub this machine is. The grid then has none.")
def leave(name: str | None, with_hub: bool) -> None:
    """Leave a grid: remove what makes this account a member.

    The hub revokes the certificates. The identity files and all else about the grid are removed here, also if no hub
    answers. Durable spaces and copied files stay.
    """
    joined = one_joined(name)
    if joined.hub.is_dir() and not with_hub:
        raise IdentityError(
            f"this machine is the hub of the grid {joined.name}: without it, nobody joins, and certificates end. "
            f"To end the grid all the same: phalanx leave --with-hub {joined.name}"
        )
    runs = what_runs(joined)
    if runs and joined.hub.is_dir():
        raise IdentityError(f"the hub of the grid {joined.name} runs ({runs}): end it first")
    if not joined.hub.is_dir():
        _tell_hub(joined)
    try:
        shutil.rmtree(joined.folder)
    except OSError as error:
        raise IdentityError(f"{joined.folder} cannot be removed: {error}") from None
    click.echo(f"left the grid {joined.name}; {as_typed(joined.folder)} is removed")
    if any(service.grid == joined.name for service in services.installed()):
        click.echo(f"still to remove: its service, with phalanx service uninstall {joined.name}")
    elif runs:
        click.echo(f"still to end: {runs}")
    if with_hub and (root := authority_of(joined.name)).exists():
        click.echo(f"the root's key is still in {as_typed(root)}; remove it if the grid is to have no hub again")


def _tell_hub(joined: Joined) -> None:
    """Tells the hub for each identity of this account. If that fails, the certificates end by themselves."""
    for file in (joined.executor, joined.user):
        if not file.exists():
            continue
        try:
            _native.hub_leave(*dialler_of(joined, file))
        except PhalanxError as error:
            why = printable(str(error))
            click.echo(f"phalanx: the hub was not told about {file.name}, which ends within a day: {why}", err=True)
