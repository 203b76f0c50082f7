"""``phalanx leave``: this account leaves a grid."""

from __future__ import annotations

import errno
import shutil
import time
from contextlib import suppress

import click

from phalanx import _native
from phalanx._grids import (
    HUB_IDENTITY,
    DamagedGridError,
    Joined,
    ask_members,
    dialler_of,
    folder_of,
    only_joined,
    read_joined,
)
from phalanx._identities import dialler, read_private
from phalanx.cli._examples import examples
from phalanx.cli._founding import authority_of, other_hubs, other_hubs_in
from phalanx.cli._joined import as_typed, name_in
from phalanx.cli._running import Process, watched
from phalanx.cli._streams import printable
from phalanx.deploying import services
from phalanx.errors import IdentityError, PhalanxError

#: Seconds that an executor may take to end after its hub has revoked its certificate. It looks twice a second.
_ENDING = 5.0
#: Seconds before a folder that was not empty is removed again.
_LOOK = 0.05


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

    A hub leaves while it runs. The other hubs go on without it. The hub revokes the certificates. The identity
    files and all else about the grid are removed here, also if no hub answers or the grid's file is damaged.
    Durable spaces and copied files stay.
    """
    name = only_joined() if name is None else name
    try:
        joined = read_joined(name)
    except DamagedGridError as damage:
        _leave_damaged(name, damage, with_hub=with_hub)
        return
    others = _other_hubs(joined) if joined.hub.is_dir() else []
    joined = joined._replace(hubs=(*dict.fromkeys([*joined.hubs, *others]),))  # one of these hubs leaves before the end
    if joined.hub.is_dir() and not with_hub and not others:
        raise IdentityError(
            f"this machine is the hub of the grid {joined.name}: without it, nobody joins, and certificates end. "
            f"To end the grid all the same: phalanx leave --with-hub {joined.name}"
        )
    with watched(joined) as process:
        _leave(joined, process, others)
    if with_hub:
        _name_root(joined)


def _leave_damaged(name: str, damage: DamagedGridError, *, with_hub: bool) -> None:
    """Removes the folder of a grid whose hubs are not known any more."""
    joined = Joined(name, folder_of(name), name, (), "")
    is_hub = joined.hub.is_dir()
    if is_hub and not with_hub:
        raise IdentityError(f"{damage}. To remove the hub all the same: phalanx leave --with-hub {name}")
    with watched(joined) as process:
        if is_hub:
            _check_ended(joined, process)
        click.echo(f"phalanx: {printable(str(damage)).partition('; ')[0]}", err=True)
        until = "the membership ends within a day, or when an owner expels its member: phalanx expel NAME"
        click.echo(f"phalanx: no hub was told: {until}", err=True)
        _remove(joined)
        _say_what_runs(joined, process)
    if with_hub:
        _name_root(joined)


def _name_root(joined: Joined) -> None:
    """Says where the key of the grid's root is, if this account has it."""
    if (root := authority_of(joined.name)).exists():
        click.echo(f"the root's key is still in {as_typed(root)}; remove it if the grid is to have no hub again")


def _other_hubs(joined: Joined) -> list[str]:
    """Where the grid's other hubs are: as a hub says now, or else as it was known last."""
    if joined.user.exists():
        try:
            return other_hubs_in(joined, ask_members(joined))
        except PhalanxError:  # the hub of this machine may have ended already
            pass
    return other_hubs(joined)


def _leave(joined: Joined, process: Process, others: list[str]) -> None:
    """`others`: where the grid's other hubs are, if this machine is one of several."""
    is_only_hub = joined.hub.is_dir() and not others
    if is_only_hub:
        _check_ended(joined, process)
    if others and joined.user.exists():
        _native.hub_leave(*dialler_of(joined, joined.user))  # refused to the only owner, who would lock out everyone
        joined.user.unlink()
    if others:
        _leave_as_hub(joined)
    if not is_only_hub and _tell_hub(joined):
        process.outlives(_ENDING)  # while it runs, it writes into the folder
    _remove(joined)
    _say_what_runs(joined, process)


def _check_ended(joined: Joined, process: Process) -> None:
    """Raises IdentityError if the grid's hub runs on this machine."""
    if runs := process.told():
        raise IdentityError(f"the hub of the grid {joined.name} runs ({runs}): end it first")


def _remove(joined: Joined) -> None:
    until = time.monotonic() + _ENDING
    while joined.folder.exists():
        try:
            shutil.rmtree(joined.folder)
        except OSError as error:
            # A process that still runs may have written a file into a folder that was emptied.
            if error.errno != errno.ENOTEMPTY or time.monotonic() > until:
                raise IdentityError(f"{joined.folder} cannot be removed: {error}") from None
            time.sleep(_LOOK)
    with suppress(OSError):  # there are others in it
        joined.folder.parent.rmdir()
    click.echo(f"left the grid {joined.name}; {as_typed(joined.folder)} is removed")


def _say_what_runs(joined: Joined, process: Process) -> None:
    """Names the grid's service, or else the process that still runs."""
    if any(service.grid == joined.name for service in services.installed()):
        click.echo(f"still to remove: its service, with phalanx service uninstall {joined.name}")
    elif runs := process.told():
        click.echo(f"still to end: {runs}")


def _leave_as_hub(joined: Joined) -> None:
    """Tells the hub that leads, which takes this one out. Raises PhalanxError if none leads: then the others would wait
    for this one."""
    file = joined.hub / HUB_IDENTITY
    _native.hub_leave(dialler(read_private(file, "identity", ""), file, {}), [*joined.hubs])


def _tell_hub(joined: Joined) -> bool:
    """Tells the hub for each identity of this account. If that fails, the certificates end by themselves. Returns
    whether the hub was told of all. Raises IdentityError if the account is the grid's only owner."""
    is_told = True
    for file in (joined.user, joined.executor):
        if not file.exists():
            continue
        try:
            _native.hub_leave(*dialler_of(joined, file))
        except PhalanxError as error:
            if file == joined.user and isinstance(error, IdentityError) and _is_only_owner(joined):
                raise  # nobody could invite or expel any more
            why = printable(str(error))
            click.echo(f"phalanx: the hub was not told about {file.name}, which ends within a day: {why}", err=True)
            is_told = False
    return is_told


def _is_only_owner(joined: Joined) -> bool:
    """Whether a hub says that this account's user is the grid's only owner."""
    try:
        owners = [member.name for member in ask_members(joined) if member.is_owner]
    except PhalanxError:  # it is no member any more, for example
        return False
    return owners == [name_in(read_private(joined.user, "identity", ""))]
