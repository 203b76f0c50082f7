"""The options of commands that name a grid."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from phalanx._grids import default_grid, machines_of
from phalanx.errors import ContractError
from phalanx.grid import Grid
from phalanx.hosts import Lan, Machines
from phalanx.requirements import Needs, read_needs
from phalanx.security import read_policy

T = TypeVar("T")

#: What ``--policy`` is, where a grid is named.
POLICY_HELP = (
    "A policy, or a file of rules. With marked, what is not marked is only authenticated: an attacker on the wire can "
    "read and change it."
)

#: Options that `phalanx mpirun` takes too; its `--hosts` is another one.
IDENTITY = click.option(
    "--identity",
    type=click.Path(path_type=Path),
    help="Your certificate. [default: user.pem in $PHALANX_HOME or ~/.phalanx]",
)
POLICY = click.option("--policy", default="links", show_default=True, metavar="links|marked|all|FILE", help=POLICY_HELP)
TRUSTED = click.option(
    "--trusted",
    multiple=True,
    metavar="NETWORK",
    help="Links to this network need no protection (may be repeated).",
)


def _read_needs(context: click.Context, option: click.Parameter, word: str | None) -> Needs | None:
    try:
        return None if word is None else read_needs(word)
    except ContractError as error:
        raise click.BadParameter(str(error), context, option) from error


NEEDS = click.option(
    "--needs",
    metavar="NEED=VALUE,...",
    callback=_read_needs,
    help="Use only machines of the grid that have this: cores=2, memory=4GB, gpu=1, software=ffmpeg, label=lab-b, with "
    "commas between them. Several of software and label are allowed. wait=600 waits so many seconds for one.",
)

GRID = click.option("--grid", "joined", metavar="NAME", help="A grid that you have joined, in place of --hosts.")

LAN = click.option(
    "--lan",
    is_flag=True,
    help="The executors of your grid that announce themselves on the local network, in place of --hosts. With --grid, "
    "those of that grid, without its hub.",
)

#: The options that name a grid: its machines, who the user is to them, and what links to them may be.
_GRID = (
    click.option(
        "--hosts",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A hosts file: machines by name, ports and trusted networks.",
    ),
    click.option(
        "--grid",
        "joined",
        metavar="NAME",
        help="A grid that you have joined, in place of --hosts. [default: the only one, if you have no user.pem]",
    ),
    LAN,
    IDENTITY,
    POLICY,
    TRUSTED,
)


def named_machines(hosts: Machines | None, joined: str | None, lan: bool, identity: Path | None) -> Machines | None:
    """The machines that ``--hosts``, ``--grid`` or ``--lan`` names. ``--hosts`` with another one is a usage error."""
    if hosts is not None and (lan or joined is not None):
        option = "--lan" if lan else "--grid"
        raise click.UsageError(f"--hosts and {option} name the machines: leave one out")
    if lan:
        return Lan(joined)
    return hosts if joined is None else machines_of(joined, identity)


def in_grid(command: Callable[..., T], dials: Callable[..., bool] = lambda **_: True) -> Callable[..., T]:
    """Adds the options that name a grid; the command has them as `grid`.

    ``dials`` gets the other arguments. It says whether the command needs an identity, and then the only grid that the
    account has joined is meant where the options name none.
    """

    @functools.wraps(command)
    def taking(
        *,
        hosts: Path | None,
        joined: str | None,
        lan: bool,
        identity: Path | None,
        policy: str,
        trusted: tuple[str, ...],
        **others: Any,
    ) -> T:
        if (hosts, joined, identity) == (None, None, None) and dials(**others):
            joined = default_grid()
        machines = named_machines(hosts, joined, lan, identity)
        grid = Grid(machines, identity=identity, policy=read_policy(policy), trusted=trusted)
        return command(grid=grid, **others)

    for option in reversed(_GRID):
        taking = option(taking)
    return taking
