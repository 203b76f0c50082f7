"""``phalanx join``: this machine, or its user, becomes a member of a grid."""

from __future__ import annotations

from contextlib import closing

import click

from phalanx import _native
from phalanx._grids import (
    Joined,
    folder_of,
    good_identity,
    make_folder,
    read_joined,
    replace,
    room_in,
    write_joined,
)
from phalanx._identities import EXECUTOR, USER, is_joined, read_private
from phalanx.cli import _lending, _voluntary
from phalanx.cli._donating import Donating, Ending, announce, as_before, donates, remember, start_executor
from phalanx.cli._examples import examples
from phalanx.cli._founding import owner_name
from phalanx.cli._joined import announce_at_hub, host_name, machine_facts, name_in, typed_token
from phalanx.cli._listening import ADVERTISE, LABELS, LISTEN, addresses_told, keep, listening
from phalanx.cli._running import running
from phalanx.cli._streams import printable
from phalanx.errors import IdentityError
from phalanx.members import OWNER, is_address, is_name

#: The identity file that a token makes. An owner is a user whom the hub knows as an owner.
_FILES = {"executor": EXECUTOR, "user": USER, OWNER: USER}


@click.command(
    epilog=examples(
        "phalanx join phalanx1-A2xhYghleGVjdXRvcg",
        "phalanx join --interpreters 4 --export /scratch:rw phalanx1-A2xhYghleGVjdXRvcg",
        "phalanx join lab",
    )
)
@click.argument("token", metavar="TOKEN|GRID")
@click.option(
    "--name",
    metavar="NAME",
    help="The name of the new member. [default: the host name of the machine, or the user's login name]",
)
@click.option("--as", "local", metavar="NAME", help="Call the grid so on this machine. [default: as its hub calls it]")
@click.option("--no-start", is_flag=True, help="Join only. phalanx join GRID starts the executor later.")
@LISTEN
@ADVERTISE
@LABELS
@_lending.MAY_LEND
@donates
def join(
    token: str,
    name: str | None,
    local: str | None,
    no_start: bool,
    listen: str | None,
    advertised: tuple[str, ...],
    labels: tuple[str, ...],
    may_lend: int | None,
    donating: Donating,
) -> None:
    """Join a grid with a token, and donate this machine.

    The token is in the line that phalanx up or phalanx invite has printed at the hub. It tells where the hub is and
    which grid it is of, and is good for a limited time. The private key is made here, and stays here. A token for an
    executor donates this machine: the executor starts, with the options of phalanx executor. A token for a user makes
    you one, and a token for an owner makes you a user who invites and expels others, also if you are a user already.

    Other accounts of this machine see the words of a command while it runs. With - in place of a token, it is read from
    standard input.

    With the name of a grid in place of a token, the executor of a grid that this machine has joined starts again.
    """
    token = typed_token(token, "phalanx join ")
    if is_name(token) and is_joined(token):
        if name or local:
            raise click.UsageError("--name and --as are for joining with a token; this grid has been joined")
        return _start(read_joined(token), (listen, advertised, labels), donating, may_lend)
    if not no_start:
        listening(None, listen, advertised, labels)  # before the token is used
    joined, role, member = _join(token, name, local)
    click.echo(f"joined the grid {joined.name} as {member}{', an owner' if role == OWNER else ''}")
    if _FILES[role] == USER:
        click.echo(f"its members: phalanx members --grid {joined.name}; in Python: px.Manager({joined.name!r})")
    elif no_start:
        click.echo(f"to donate this machine: phalanx join {joined.name}")
    else:
        _start(joined, (listen, advertised, labels), donating, may_lend)
    return None


def _join(token: str, name: str | None, local: str | None) -> tuple[Joined, str, str]:
    """Makes this machine or its user a member. Returns the grid, the role and the member's name. Everything that can be
    wrong here is looked at before the token is used."""
    if is_name(token) and not token.startswith("phalanx1-"):
        raise IdentityError(
            f"this account has joined no grid called {token}, and it is no token: paste the whole line that phalanx up "
            "or phalanx invite has printed at the hub"
        )
    grid, role, hubs, root = _native.token_parts(token)
    if role == "hub":
        raise IdentityError("the token is for a further hub of the grid: phalanx up --join TOKEN")
    if role not in _FILES:
        raise IdentityError(
            f"the token is for the role {printable(role)}; phalanx join takes those for executors, users and owners"
        )
    if local is None and not is_name(grid):
        raise IdentityError(f"the grid calls itself {printable(grid)!r}, which is no name: say --as NAME")
    joined = Joined(local or grid, folder_of(local or grid), grid if is_name(grid) else local or "", (*hubs,), root)
    _check_free(joined, role)
    file = joined.folder / _FILES[role]
    known = read_private(file, "identity", "") if file.exists() else None  # of a user who becomes an owner
    member = name or (host_name() if role == "executor" else owner_name())
    if known is not None:
        if name not in (None, name_in(known)):
            raise IdentityError(f"this account is {name_in(known)} in the grid {joined.name} already: leave out --name")
        member = name_in(known)
    if not is_name(member):
        raise IdentityError(f"{member!r} is no name of a member: it has small letters, digits and hyphens, 63 at most")
    make_folder(joined.folder)
    try:
        with room_in(joined.folder):
            new = _native.join_grid(token, member) if known is None else _native.become_owner(token, known)
            identity, _, hubs, root, _ = new
    except BaseException:
        _remove_if_empty(joined)
        raise
    replace(file, identity)
    joined = joined._replace(hubs=(*filter(is_address, hubs),) or joined.hubs, root=root)
    write_joined(joined)
    return joined, role, member


def _check_free(joined: Joined, role: str) -> None:
    """Raises IdentityError if another grid has the name here, or this account has the role already. A user may become
    an owner."""
    if not is_joined(joined.name):
        return
    before = read_joined(joined.name)
    if before.root != joined.root:
        raise IdentityError(
            f"this account has joined another grid called {joined.name}: choose a name for this one with --as NAME"
        )
    file = before.folder / _FILES[role]
    if file.exists() and role != OWNER:
        again = f"start it with: phalanx join {joined.name}" if role == "executor" else "nothing is to be done"
        name = name_in(read_private(file, "identity", ""))
        raise IdentityError(
            f"this account is {name} in the grid {joined.name} already; {again}. To join anew, leave first: phalanx "
            f"leave {joined.name}"
        )


def _remove_if_empty(joined: Joined) -> None:
    """Removes the folder of a grid that was not joined after all."""
    if not is_joined(joined.name):
        for file in joined.folder.iterdir():
            if file.name.startswith("."):  # the lock
                file.unlink()
        try:
            joined.folder.rmdir()
        except OSError:  # something of the user is in it
            return


def _start(
    joined: Joined,
    asked: tuple[str | None, tuple[str, ...], tuple[str, ...]],
    donating: Donating,
    may_lend: int | None,
) -> None:
    """Runs the executor of a grid that was joined, until it is ended."""
    if joined.hub.is_dir():
        raise IdentityError(f"this machine is the hub of the grid {joined.name}: start it with phalanx up")
    if not joined.executor.exists():
        raise IdentityError(
            f"this account is a user of the grid {joined.name}, and has no executor to start; to donate the machine, "
            "ask an owner for a token: phalanx invite"
        )
    chosen = listening(joined, *asked)
    rules, donating = _voluntary.rules_of(joined, donating.voluntary), as_before(joined, donating)
    with running(joined, f"phalanx join {joined.name}"):
        good_identity(joined, joined.executor)
        stays = (
            [*joined.hubs],
            addresses_told(chosen),
            machine_facts(donating, chosen.labels, rules) | _lending.facts(may_lend),
        )
        lent = _lending.lending(joined, donating, may_lend)
        more = {**lent, **_voluntary.native(rules, donating.voluntary)}
        with closing(start_executor(chosen.address, joined.executor, donating, grid=stays, **more)) as service:
            ending = Ending()
            keep(joined, chosen)
            _voluntary.remember(joined, rules)
            remember(joined, donating)
            with _voluntary.watching(service, rules, joined.name):
                announce(service)
                announce_at_hub(service, joined)
                ending.wait(service)
