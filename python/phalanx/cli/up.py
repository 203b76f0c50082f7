"""``phalanx up``: this machine becomes the hub of a grid."""

from __future__ import annotations

import platform
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import click

from phalanx import _native
from phalanx._grids import (
    HUB_IDENTITY,
    MOST_ADDRESSES,
    Joined,
    Listening,
    folder_of,
    make_folder,
    read_joined,
    read_listening,
    room_in,
    write_joined,
)
from phalanx._identities import is_joined, joined_names, read_private
from phalanx.cli import _founding, _lending, _voluntary
from phalanx.cli._donating import Donating, Ending, announce, as_before, donates, remember, start_executor
from phalanx.cli._examples import examples
from phalanx.cli._joined import announce_at_hub, as_typed, host_name, machine_facts, name_in, typed_token
from phalanx.cli._listening import ADVERTISE, LABELS, LISTEN, addresses_of, here, keep, listening
from phalanx.cli._numbers import Count
from phalanx.cli._running import running
from phalanx.cli._streams import printable
from phalanx.errors import ContractError, IdentityError, RecruitError
from phalanx.members import is_address, is_name
from phalanx.words import CAGES, Cage

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from phalanx.tes.at_hub import AtHub
    from phalanx.tes.files import Folders

#: The first invitation, which the command prints: for one executor, within an hour.
_FIRST = "executor", 1, 3600


@click.command(
    epilog=examples(
        "phalanx up",
        "phalanx up --grid lab --interpreters 4 --export /scratch:rw",
        "phalanx up --grid lab --least-cage files",
        "phalanx up --join phalanx1-A2xhYgNodWICCjEwLjAuMC4x",
        "phalanx up --grid lab --hub-only --listen 0.0.0.0:7500 --advertise lab.example.org",
    )
)
@click.option(
    "--grid",
    "name",
    metavar="NAME",
    help="The grid to begin, or to start again. [default: the one whose hub this machine is, else its host name]",
)
@click.option(
    "--join",
    "token",
    metavar="TOKEN",
    help="Become a further hub of a grid that has one. With - the token is read from standard input.",
)
@click.option("--name", "hub_name", metavar="NAME", help="The name of the further hub. [default: the host name]")
@click.option("--hub-only", is_flag=True, help="Start the hub without an executor.")
@click.option(
    "--least-cage",
    type=click.Choice(CAGES),
    help="Take only executors whose cage keeps at least so much apart. [default: as before; at first any]",
)
@click.option(
    "--tes",
    type=Count(0, 65535),
    metavar="PORT",
    help="Take tasks of workflow engines over HTTPS at this port, by the interface TES 1.1, and serve programs in any "
    "language there; 0: any free port, at most 65535. It needs pip install 'phalanx-grid[tes]'.",
)
@click.option(
    "--tes-folder",
    "tes_folders",
    multiple=True,
    metavar="FOLDER:ro|rw",
    help="With --tes, a folder of this machine whose files tasks and programs of all users read (ro), or read and "
    "write (rw), as this account does (may be repeated). [default: none]",
)
@LISTEN
@ADVERTISE
@LABELS
@_lending.MAY_LEND
@donates
def up(
    name: str | None,
    token: str | None,
    hub_name: str | None,
    hub_only: bool,
    least_cage: Cage | None,
    tes: int | None,
    tes_folders: tuple[str, ...],
    listen: str | None,
    advertised: tuple[str, ...],
    labels: tuple[str, ...],
    may_lend: int | None,
    donating: Donating,
) -> None:
    """Make this machine the hub of a grid.

    It also donates the machine to the users of the grid, unless --hub-only is given.

    The first time it begins a grid: it makes the grid's root, a hub, your identity as the grid's owner, and an executor
    of this machine. It prints the line with which one more machine joins. The next time it starts the same hub again.

    With the token of phalanx invite --role hub, this machine becomes a further hub of a grid. Hubs keep the
    members, the invitations and the names together. With three hubs, any one may be lost. Two are no safer than
    one, because both are needed.

    The hub admits members, knows which of them run, and renews their certificates. Programs that run go on while it is
    away. The root's key is in $PHALANX_HOME/authorities, or ~/.phalanx/authorities. No service reads it: keep a copy in
    a safe place, and take it off this machine if you like.
    """
    if tes is None and tes_folders:
        raise click.UsageError("--tes-folder is for the tasks of workflow engines: --tes PORT")
    if hub_name is not None and token is None:
        raise click.UsageError("--name is for a further hub: --join TOKEN")
    if token is not None:
        listening(None, listen, advertised, labels)  # before the token is used
        name = join_as_hub(token, name, hub_name or host_name())
    name = name or name_of_hub()
    before = _started_before(name) if is_joined(name) else None
    chosen = listening(before, listen, advertised, labels)
    with ExitStack() as undoing:
        joined = before or _founded(name, chosen)
        if before is None:
            undoing.callback(_undo, joined)
        joined = _at(joined, addresses_of(chosen))
        is_further = (joined.hub / _founding.JOINED).exists()
        is_first = read_listening(joined) is None and not is_further
        owners = [] if is_further else [name_in(read_private(joined.user, "identity", ""))]
        for owner in owners:
            _founding.make_member(joined, "user", owner)
        if not hub_only and not (is_further and joined.executor.exists()):
            _founding.make_member(joined, "executor", _executor_name(joined))
        with running(joined, "phalanx up"), ExitStack() as ending:
            hub = _native.Hub(
                joined.folder,
                grid=joined.grid,
                owners=owners,
                addresses=addresses_of(chosen),
                least_cage=least_cage,
                log_level=donating.log_level,
            )
            ending.callback(hub.close)
            signals = Ending()  # before it is said that the hub listens: from then on, somebody may end it
            executor = _start(joined, chosen, hub, hub_only, (donating, may_lend), ending)
            if tes is not None:
                _serve_tes(joined, chosen, hub, (tes, tes_folders), ending)
            undoing.pop_all()  # from now on, the grid may have members
            if is_first:
                click.echo(f"phalanx join {hub.invite(owners[0], *_FIRST)}")
                click.echo("this line is good for one machine, within an hour; for more, and for users: phalanx invite")
            keep(joined, chosen)
            _wait(signals, executor, hub)


def _wait(signals: Ending, executor: _native.Executor | None, hub: _native.Hub) -> None:
    """Waits for the end. The hub goes on without an executor that is no member any more."""
    try:
        signals.wait(executor, hub)
    except IdentityError as error:
        if hub.expelled is not None:
            raise
        click.echo(f"{error}; the hub goes on", err=True)
        signals.wait(None, hub)


def _undo(joined: Joined) -> None:
    """Removes a grid whose first start has failed. It has no member but this account."""
    _founding.remove(joined)
    click.echo(f"the grid {joined.name} was not begun: its files are removed", err=True)


def _serve_tes(
    joined: Joined, chosen: Listening, hub: _native.Hub, asked: tuple[int, tuple[str, ...]], ending: ExitStack
) -> None:
    """Serves workflow engines, and says where. The end closes it."""
    try:
        from phalanx.api.application import PREFIX, Interface
        from phalanx.tes.serving import Serving
    except ImportError as error:
        raise ContractError(f"--tes needs libraries: pip install 'phalanx-grid[tes]' ({error})") from None
    port, folders = asked
    host = chosen.address.rpartition(":")[0].strip("[]")
    others = [address.rpartition(":")[0].strip("[]") for address in addresses_of(chosen)]
    names = [*dict.fromkeys([*others, platform.node() or "localhost", "localhost", "127.0.0.1"])]

    def beside(jobs: AtHub, served: Folders) -> dict[str, ASGIApp]:
        interface = ending.enter_context(closing(Interface(joined, jobs, served)))
        return {PREFIX: interface.application}

    try:
        serving = Serving(hub, joined.hub, joined.grid, (host, port), names, folders, beside)
    except (OSError, ValueError) as error:
        raise ContractError(f"--tes {port}: {error}") from error
    ending.enter_context(closing(serving))
    click.echo(f"tasks of workflow engines are taken at {serving.url}; their token: phalanx token")
    click.echo(f"programs in any language find jobs, files and spaces at {serving.url}{PREFIX}/openapi.json")


def name_of_hub() -> str:
    """The grid whose hub this machine is; the name of the machine if it is none. Raises IdentityError for several."""
    hubs = [name for name in joined_names() if (folder_of(name) / "hub").is_dir()]
    if len(hubs) > 1:
        raise IdentityError(f"this machine has hubs of several grids: say which, --grid {' or --grid '.join(hubs)}")
    return hubs[0] if hubs else host_name()


def _founded(name: str, chosen: Listening) -> Joined:
    joined = _founding.found(name, addresses_of(chosen))
    click.echo(f"the grid {name} begins; its root's key is in {as_typed(_founding.authority_of(name))}")
    return joined


def _executor_name(joined: Joined) -> str:
    """The name of this machine's executor in the grid: that of its hub, unless it was made already."""
    file = joined.executor if joined.executor.exists() else joined.hub / HUB_IDENTITY
    return name_in(read_private(file, "identity", ""))


def _started_before(name: str) -> Joined:
    """The grid of a name. Raises IdentityError if its hub is on another machine."""
    joined = read_joined(name)
    if not joined.hub.is_dir():
        advice = f"start what this account is there: phalanx join {name}; or begin another grid: phalanx up --grid NAME"
        raise IdentityError(f"the hub of the grid {name} is on another machine; {advice}")
    return joined


def _at(joined: Joined, hubs: list[str]) -> Joined:
    """The grid with the addresses that its hub has now, and behind them those of the other hubs."""
    known = {*_founding.other_hubs(joined)}
    hubs = [*hubs, *(hub for hub in joined.hubs if hub not in hubs and hub in known)][:MOST_ADDRESSES]
    if [*joined.hubs] != hubs:
        joined = joined._replace(hubs=(*hubs,))
        write_joined(joined)
    return joined


def join_as_hub(token: str, local: str | None, hub_name: str) -> str:
    """Makes this machine a further hub of the grid of a token. Returns what this account calls the grid."""
    token = typed_token(token, "phalanx up --join ")
    grid, role, hubs, root = _native.token_parts(token)
    if role != "hub":
        raise IdentityError(f"the token is for the role {printable(role)}: phalanx join TOKEN")
    name = local or grid
    if not is_name(name):
        raise IdentityError(f"the grid calls itself {printable(name)!r}, which is no name: say --grid NAME")
    if not is_name(hub_name):
        raise IdentityError(f"{hub_name!r} is no name of a hub: it has small letters, digits and hyphens, 63 at most")
    joined = Joined(name, folder_of(name), grid if is_name(grid) else name, (*hubs,), root)
    if is_joined(name):
        joined = read_joined(name)
        if joined.root != root:
            raise IdentityError(f"this account has joined another grid called {name}: say --grid NAME")
        if joined.hub.exists():
            raise IdentityError(
                f"this account has a hub of the grid {name} already; start it with: phalanx up --grid {name}"
            )
    make_folder(joined.folder)
    with room_in(joined.folder):
        issuer, identity, _, others, _ = _native.join_hub(token, hub_name)
    _founding.write_further(joined, issuer, identity, [*filter(is_address, others)])
    known = [hub for hub in [*joined.hubs, *others] if is_address(hub)]
    write_joined(joined._replace(hubs=(*dict.fromkeys(known),)[:MOST_ADDRESSES]))
    click.echo(f"joined the grid {name} as its hub {hub_name}")
    return name


def _start(
    joined: Joined,
    chosen: Listening,
    hub: _native.Hub,
    hub_only: bool,
    donated: tuple[Donating, int | None],
    ending: ExitStack,
) -> _native.Executor | None:
    """Starts the hub, alone or behind the door of an executor, and says so. Returns the executor. The end closes it."""
    address, (donating, may_lend) = chosen.address, donated
    if hub_only:
        server = ending.enter_context(closing(_native.HubServer(address, hub, donating.log_level)))
        click.echo(f"listening on {server.address} as the hub of {joined.name}")
        return None
    rules, donating = _voluntary.rules_of(joined, donating.voluntary), as_before(joined, donating)
    facts = machine_facts(donating, chosen.labels, rules) | _lending.facts(may_lend)
    others = [hub for hub in joined.hubs if hub not in addresses_of(chosen)]
    stays = [here(address), *others][:MOST_ADDRESSES], addresses_of(chosen), facts
    more = {**_lending.lending(joined, donating, may_lend), **_voluntary.native(rules, donating.voluntary)}
    try:
        service = start_executor(address, joined.executor, donating, hub=hub, grid=stays, **more)
    except RecruitError as error:
        if "was revoked" in str(error):
            raise RecruitError(
                f"{error}; the hub starts without an executor: phalanx up --hub-only; to donate this machine again, "
                f"remove its identity and start again: rm {as_typed(joined.executor)}"
            ) from None
        raise
    ending.enter_context(closing(service))
    _voluntary.remember(joined, rules)
    remember(joined, donating)
    ending.enter_context(_voluntary.watching(service, rules, joined.name))
    announce(service)
    announce_at_hub(service, joined)
    return service
