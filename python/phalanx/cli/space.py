"""``phalanx space``: servers of tuple spaces, and what is in them."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from phalanx import _native
from phalanx.cli._console import console
from phalanx.cli._examples import examples
from phalanx.cli._grid_options import in_grid
from phalanx.cli._numbers import Count, Seconds
from phalanx.cli._stopping import Stop
from phalanx.cli._suggestions import Suggesting
from phalanx.errors import PhalanxError, SpaceError
from phalanx.grid import Grid
from phalanx.security import Rules, policy_words
from phalanx.space import Replica, SpaceInfo, _moving, _open, _serve
from phalanx.words import ORDERS, Policy

_RULES = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(
    cls=Suggesting,
    epilog=examples(
        "phalanx space serve --address unix:spaces.socket",
        "phalanx space info lab:7400/jobs",
    ),
)
def space() -> None:
    """Serve tuple spaces, create them, and show them."""


@space.command(
    epilog=examples(
        "phalanx space serve --address unix:spaces.socket",
        "phalanx space serve --address 0.0.0.0:7401 --identity labpc.pem --access access.toml",
    )
)
@click.option(
    "--address",
    metavar="HOST:PORT",
    default="127.0.0.1:7400",
    show_default=True,
    help="Listen here, or at unix:PATH; port 0: any free port.",
)
@click.option(
    "--identity",
    type=click.Path(path_type=Path),
    help="The certificate. [default: executor.pem in $PHALANX_HOME or ~/.phalanx]",
)
@click.option("--accept", multiple=True, metavar="USER", help="Serve only this user (may be repeated).")
@click.option("--access", type=_RULES, help="A file of rules that say what users may do in spaces.")
@click.option(
    "--trusted", multiple=True, metavar="NETWORK", help="Links from this network need no protection (may be repeated)."
)
@click.option("--rules", type=_RULES, help="A file of rules for links.")
@click.option("--no-create", is_flag=True, help="Serve only the spaces named with --space.")
@click.option("--space", "names", multiple=True, metavar="NAME", help="Create this space now (may be repeated).")
@click.option("--spaces", type=Count(1), default=1000, show_default=True, help="The most spaces.")
@click.option("--clients", type=Count(1), default=4096, show_default=True, help="The most clients at a time.")
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    help="The folder of durable spaces. [default: spaces/PORT in $PHALANX_HOME or ~/.phalanx]",
)
@click.option(
    "--most-bytes",
    type=Count(1),
    metavar="BYTES",
    help="The most memory of one space. [default: half of the machine's]",
)
@click.option(
    "--most-memory",
    type=Count(1),
    metavar="BYTES",
    help="The most memory of all spaces; one user has at most 3 times what is left. [default: 2/3 of the machine's]",
)
@click.option(
    "--user-share",
    type=Count(1, 100),
    default=25,
    show_default=True,
    metavar="PERCENT",
    help="One user's share, 1 to 100, of clients, spaces, transactions and unfinished messages.",
)
@click.option(
    "--most-unfinished",
    type=Count(1),
    metavar="BYTES",
    help="The most bytes of unfinished messages. [default: a quarter of the machine's memory]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the address as JSON.")
def serve(
    address: str,
    identity: Path | None,
    accept: tuple[str, ...],
    access: Path | None,
    trusted: tuple[str, ...],
    rules: Path | None,
    no_create: bool,
    names: tuple[str, ...],
    spaces: int,
    clients: int,
    directory: Path | None,
    most_bytes: int | None,
    most_memory: int | None,
    user_share: int,
    most_unfinished: int | None,
    as_json: bool,
) -> None:
    """Serve tuple spaces until Ctrl-C, without interpreters.

    Without an identity the server serves only your own processes on this machine. With an identity it serves the users
    of its grid, over links that are private unless --trusted or --rules say otherwise. A space is created when it is
    first named; durable spaces are there again when the server starts.
    """
    policy: Policy | Rules = Rules(rules) if rules else "links"
    server = _serve.start(
        address,
        identity=identity,
        policy=policy,
        trusted=trusted,
        says=True,
        accept=accept,
        access=access,
        creates=not no_create,
        spaces=spaces,
        sessions=clients,
        directory=directory or _serve.directory_of(address),
        most_bytes=most_bytes,
        most_memory=most_memory,
        user_share=user_share,
        most_unfinished=most_unfinished,
    )
    made = [_native.LocalSpace({}, False) for _ in names]
    for name, one in zip(names, made, strict=True):
        server.add(name, one)
    weaker = [*(f"{network} is trusted" for network in trusted), *_native.weaker(policy_words(policy, trusted))]
    for line in weaker:
        click.echo(f"links may be weaker than by default: {line}", err=True)
    if server.name is None:
        click.echo("no identity: serving this user's processes on this machine only", err=True)
    stop = Stop()
    named = f" as {server.name}" if server.name else ""
    facts = {"address": server.address, "name": server.name}
    click.echo(json.dumps(facts) if as_json else f"listening on {server.address}{named}")
    while not stop.wait(0.5):  # a wait without an end would not hear signals on every system
        pass
    server.close()


def _reaching(command: Callable[..., None]) -> Callable[..., None]:
    """The options with which a space is reached; the command has them as `grid`."""
    as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
    return as_json(in_grid(command, _dials))


def _dials(address: str | None = None, members: tuple[str, ...] = (), **_: object) -> bool:
    """Whether one of the spaces that a command names is at a machine of a grid."""
    return any(map(_open.needs_grid, members if address is None else [address]))


@space.command(
    epilog=examples(
        "phalanx space create unix:spaces.socket/jobs --order fifo",
        "phalanx space create lab:7400/results --durable --most-bytes 1000000000",
        "phalanx space create hosts.txt/jobs --replicas 3",
    )
)
@click.argument("address")
@_reaching
@click.option(
    "--order",
    type=click.Choice(ORDERS),
    default="any",
    show_default=True,
    help="Which of several matching tuples is taken first; fifo: the oldest, lifo: the newest.",
)
@click.option("--lease", type=Seconds(0), metavar="SECONDS", help="The lease of tuples that are put without one.")
@click.option("--index", "indexes", multiple=True, metavar="0,1", help="Positions to index together (may be repeated).")
@click.option("--box", "boxes", multiple=True, metavar="1,2", help="Positions of numbers to index for range queries.")
@click.option("--secure", is_flag=True, help="Allow only private links over networks that are not trusted.")
@click.option(
    "--group",
    metavar="NAME",
    help="Only members of this group may open the space; the server's access rules list them.",
)
@click.option("--durable", is_flag=True, help="Keep tuples on the server's disk; out returns when its tuple is there.")
@click.option(
    "--replicas",
    type=Count(3, 9),
    help="The number of servers, 3 to 9: ADDRESS and each --member, or those that ADDRESS, HOSTS_FILE/NAME, names.",
)
@click.option(
    "--member",
    "members",
    multiple=True,
    metavar="HOST:PORT",
    help="A further server of a replicated space (may be repeated).",
)
@click.option("--most-tuples", type=Count(1), help="The most tuples; out is an error beyond that.")
@click.option("--most-bytes", type=Count(1), metavar="BYTES", help="The most memory; out is an error beyond that.")
def create(
    address: str,
    as_json: bool,
    grid: Grid,
    order: str,
    lease: float | None,
    indexes: tuple[str, ...],
    boxes: tuple[str, ...],
    secure: bool,
    group: str | None,
    durable: bool,
    replicas: int | None,
    members: tuple[str, ...],
    most_tuples: int | None,
    most_bytes: int | None,
) -> None:
    """Create the space ADDRESS with its own options.

    ADDRESS is HOST:PORT/NAME or unix:PATH/NAME. An existing space keeps its options, and is shown; the exit code is
    then 3.
    """
    asked: dict[str, Any] = {
        "order": order,
        "lease": lease,
        "indexes": [_positions(text) for text in indexes],
        "boxes": [_positions(text) for text in boxes],
        "secure": secure,
        "group": group,
        "durable": durable,
        "most_tuples": most_tuples,
        "most_bytes": most_bytes,
    }
    given = {name: value for name, value in asked.items() if value is not None}
    links = grid.links()
    place, kept = _place(grid, address), dict[str, Any]()
    if replicas:
        place, kept["members"] = _open.replicas_of(place, replicas, [grid.address(one) for one in members])
    elif members:
        raise PhalanxError("--member is for a replicated space: say how many there are with --replicas")
    was_there = bool(replicas) and _is_there(place, links)
    engine = _open.reach(place, False, **links, **kept, **given)
    created = not was_there if replicas else engine.created
    _show(address, engine, as_json)
    engine.close()
    if not created:
        click.echo(f"{address} was there already, with its own options", err=True)
        raise click.exceptions.Exit(3)


@space.command(
    epilog=examples(
        "phalanx space info lab:7400/jobs",
        "phalanx space info --json --rates 1 unix:spaces.socket/jobs",
    )
)
@click.argument("address")
@_reaching
@click.option(
    "--rates",
    type=Seconds(0.1, 3600),
    metavar="SECONDS",
    help="Also show operations per second, measured over SECONDS, 0.1 to 3600.",
)
def info(address: str, as_json: bool, grid: Grid, rates: float | None) -> None:
    """Show what is in the space ADDRESS, and what it does.

    The figures are tuples, waiting requests, indexes and rates, and the members of a replicated space.
    HOSTS_FILE/NAME names a replicated space that some of these machines keep.
    """
    engine = _open.reach_any(_place(grid, address), **grid.links())
    _show(address, engine, as_json, _rates(engine, rates) if rates else None)
    engine.close()


@space.command(
    epilog=examples(
        "phalanx space members hosts.txt/jobs",
        "phalanx space members hosts.txt/jobs --remove dead:7400 --add new:7400",
    )
)
@click.argument("address")
@_reaching
@click.option("--add", multiple=True, metavar="HOST:PORT", help="Add this server (may be repeated).")
@click.option("--remove", multiple=True, metavar="HOST:PORT", help="Remove this server (may be repeated).")
def members(
    address: str,
    as_json: bool,
    grid: Grid,
    add: tuple[str, ...],
    remove: tuple[str, ...],
) -> None:
    """Show or change the members of the replicated space ADDRESS.

    ADDRESS may be HOSTS_FILE/NAME. To replace a dead machine, use --remove and --add in one command. The space
    stays in use meanwhile. When the command ends, a new member has everything. All members that stay must be
    reachable, and the leader must stay.
    """
    engine = _open.reach_any(_place(grid, address), **grid.links())
    if not engine.members:
        raise PhalanxError(f"{address} is not replicated: it has no members")
    if add or remove:
        engine.change_members([grid.address(one) for one in add], [grid.address(one) for one in remove])
    told = SpaceInfo.of(engine.info())
    engine.close()
    if as_json:
        click.echo(json.dumps({"term": told.term, "members": [dataclasses.asdict(one) for one in told.replicas]}))
        return
    for one in told.replicas:
        click.echo(f"{one.address} {one.name} {_standing(one)}")


@space.command(
    epilog=examples(
        "phalanx space move --placement 'hash(0)' one:7400/jobs two:7400/jobs",
        "phalanx space move --placement local hosts.txt/jobs --gone dead:7400/jobs",
    )
)
@click.argument("members", nargs=-1, required=True, metavar="MEMBER...")
@_reaching
@click.option(
    "--placement", required=True, metavar="hash(0,1)|local|owner", help="Where the space's programs look for tuples."
)
@click.option(
    "--former",
    multiple=True,
    metavar="ADDRESS",
    help="A member that leaves and is on no member's card (may be repeated).",
)
@click.option(
    "--gone", multiple=True, metavar="ADDRESS", help="A member that is lost with its tuples (may be repeated)."
)
@click.option(
    "--wait",
    type=Seconds(0),
    default=_moving.WAITING,
    show_default=True,
    metavar="SECONDS",
    help="Wait so long for tuples in transactions or on their way.",
)
def move(
    members: tuple[str, ...],
    as_json: bool,
    grid: Grid,
    placement: str,
    former: tuple[str, ...],
    gone: tuple[str, ...],
    wait: float,
) -> None:
    """Move the tuples of a spread space to other members.

    Afterwards each MEMBER (HOST:PORT/NAME, or HOSTS_FILE/NAME for all) is a member, and no other server. The command
    moves tuples to the members at which programs that name these members look for them. Members that leave need not be
    named. Meanwhile no program can use the space. After Ctrl-C or a kill, run the command again: no tuple is lost or
    duplicated.
    """
    named, left, lost = ([_place(grid, one) for one in words] for words in (members, former, gone))
    listed = named[0] if len(named) == 1 else named
    moved = _moving.move_tuples(listed, placement=placement, former=left, gone=lost, timeout=wait, **grid.links())
    click.echo(json.dumps({"moved": moved}) if as_json else f"{moved} tuples moved")


def _standing(replica: Replica) -> str:
    if replica.leads:
        return "leads"
    return "not heard" if replica.behind is None else f"{replica.behind} behind"


def _place(grid: Grid, address: str) -> str:
    """The address of a space whose machine may be named; without a machine it is as it was written."""
    return grid.space_address(address) if grid.machines else address


def _is_there(address: str, links: dict[str, Any]) -> bool:
    try:
        _open.reach(address, False, create=False, **links).close()
    except SpaceError:
        return False
    return True


def _positions(text: str) -> list[int]:
    try:
        return [int(position) for position in text.split(",")]
    except ValueError:
        raise PhalanxError(f"{text!r} is no set of positions: write them like 0,1") from None


def _rates(engine: _native.RemoteSpace, seconds: float) -> dict[str, float]:
    """How often each thing is done in a second, measured over so many."""
    began, before = time.monotonic(), engine.info()
    time.sleep(seconds)
    after, took = engine.info(), time.monotonic() - began
    counted = ("outs", "reads", "takes", "expired", "looked_at")
    return {name: (after[name] - before[name]) / took for name in counted}


def _kept(options: dict[str, Any]) -> str:
    if options["replicas"]:
        return f"together by {', '.join(options['replicas'])}"
    return "on the server's disk" if options["durable"] else "in memory: it ends with its server"


def _lease(options: dict[str, Any]) -> str:
    return "none" if options["lease"] is None else f"{options['lease']:g} seconds, for tuples that are put without one"


def _show(address: str, engine: _native.RemoteSpace, as_json: bool, rates: dict[str, float] | None = None) -> None:
    told = SpaceInfo.of(engine.info())
    level, why, weaker = engine.level
    if as_json:
        shown = {"level": level, "why": why, "weaker": weaker, "peer": engine.peer}
        facts = {"address": address, **shown, **dataclasses.asdict(told)}
        if rates is not None:
            facts["rates"] = rates
        click.echo(json.dumps(facts, indent=2))
        return
    to = console(120)
    table = Table(title=address, title_justify="left", show_header=False)
    link = f"{level} ({why})" + (", weaker than by default" if weaker else "")
    together = [(f"member {it.address}", f"{it.name}, {_standing(it)}") for it in told.replicas]
    group = told.options["group"]
    for row in (
        ("link", link),
        ("server", engine.peer or "this user's, without certificate"),
        *([("open to", f"members of {group}")] if group else []),
        ("kept", _kept(told.options)),
        *together,
        ("order", told.options["order"]),
        ("lease", _lease(told.options)),
        ("tuples", f"{told.tuples} in {told.bytes / 1e6:.1f} MB, encoded {told.encoded_bytes / 1e6:.1f} MB"),
        ("waiting", f"{told.takers} to take, {told.readers} to read, {told.watches} watching"),
        ("on their way", f"{told.unacknowledged} tuples, {told.transactions} transactions"),
        ("so far", f"{told.outs} out, {told.reads} read, {told.takes} taken, {told.expired} expired"),
        ("looked at in vain", str(told.looked_at)),
    ):
        table.add_row(*row)
    if rates is not None:
        said = ("outs", "out"), ("reads", "read"), ("takes", "taken"), ("expired", "expired")
        table.add_row("in a second", ", ".join(f"{rates[name]:.1f} {word}" for name, word in said))
    to.print(table, highlight=False)
    kinds = Table("kinds of the fields", "tuples", "indexes", title="partitions", title_justify="left")
    for partition in told.partitions:
        indexes = "; ".join(", ".join(map(str, positions)) for positions in partition.indexes)
        kinds.add_row(partition.signature or "others", str(partition.tuples), indexes or "none")
    if told.partitions:
        to.print(kinds, highlight=False)
