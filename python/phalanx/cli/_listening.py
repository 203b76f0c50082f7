"""Where a hub or an executor of a joined grid listens, and by which addresses others reach it."""

from __future__ import annotations

import re
import socket

import click

from phalanx._addresses import free_port, machine_hosts
from phalanx._grids import Joined, Listening, read_listening, write_listening
from phalanx.errors import ContractError, RecruitError
from phalanx.hosts import PORT
from phalanx.members import is_address
from phalanx.requirements import read_labels

#: Hosts that stand for all addresses of a machine, and the loopback address of each.
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}
_PORT = re.compile(r":[0-9]+$")
#: Most addresses that a hub tells: `MOST_ADDRESSES` in phalanx-core/src/wire/hub.rs.
_MOST = 8

LISTEN = click.option(
    "--listen",
    metavar="HOST:PORT",
    help="Listen here; port 0: any free port. [default: as before; at first port 7400 of all hosts, or any free one]",
)
ADVERTISE = click.option(
    "--advertise",
    "advertised",
    multiple=True,
    metavar="HOST[:PORT]",
    help="Others reach this machine so (may be repeated). [default: as before; at first by its addresses]",
)

LABELS = click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="LABEL",
    help="Programs can ask for machines with this label (may be repeated); '' for none. [default: as before]",
)


def listening(
    joined: Joined | None, asked: str | None, advertised: tuple[str, ...] = (), labels: tuple[str, ...] = ()
) -> Listening:
    """Where something of a grid listens: where the user asks, or as before, or at a free port. The labels are those
    that the user gives, or as before. ``joined`` is None before the first start, when the address must be free.

    Raises
    ------
    click.UsageError
        What the user asks for is no address, or what is given is no label.
    IdentityError
        The file that has the last one is damaged.
    RecruitError
        Nothing can listen at the address that the user asks for.
    """
    for host in advertised:
        if not is_address(_with_port(host, PORT)):
            raise click.UsageError(f"--advertise {host!r} is no host: write one by which others reach this machine")
    if asked is not None and not is_address(re.sub(":0$", ":1", asked)):
        raise click.UsageError(f"--listen {asked!r} is no HOST:PORT")
    try:
        given = read_labels(filter(None, labels))
    except ContractError as error:
        raise click.UsageError(str(error)) from error
    before = None if joined is None else read_listening(joined)
    if asked is not None:
        host, _, port = asked.rpartition(":")
        if joined is None:
            _check_free(host.strip("[]"), int(port), asked)
        address = asked if int(port) else f"{host}:{free_port(host, 0)}"
    else:
        address = before.address if before else f"0.0.0.0:{free_port('0.0.0.0')}"
    kept = before or Listening(address)
    return Listening(address, advertised or kept.advertised, given if labels else kept.labels)


def keep(joined: Joined, chosen: Listening) -> None:
    """Keeps the address, so that the next start has the same one."""
    if read_listening(joined) != chosen:
        write_listening(joined, chosen)


def addresses_told(chosen: Listening) -> list[str]:
    """The addresses that the user has said by which others reach what listens there; none: all of the machine."""
    host, _, port = chosen.address.rpartition(":")
    if chosen.advertised:
        return [_with_port(one, int(port)) for one in chosen.advertised][:_MOST]
    return [] if host in _EVERYWHERE else [chosen.address]


def addresses_of(chosen: Listening) -> list[str]:
    """The addresses at which others reach what listens there, the most likely one first."""
    port = chosen.address.rpartition(":")[2]
    return addresses_told(chosen) or [f"{one}:{port}" for one in machine_hosts()][:_MOST]


def here(address: str) -> str:
    """The address at which this machine reaches what listens there."""
    host, _, port = address.rpartition(":")
    return f"{_EVERYWHERE.get(host, host)}:{port}"


def _check_free(host: str, port: int, asked: str) -> None:
    """Raises RecruitError if nothing can listen there, before a command makes or uses up what it needs once."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except (OSError, ValueError, OverflowError) as error:  # the last two: of a name, and of a port above 65535
        why = getattr(error, "strerror", None) or error
        raise RecruitError(f"cannot listen at {asked}: {why}; choose another address with --listen") from None


def _with_port(host: str, port: int) -> str:
    """An address from a host that may have a port of its own, as behind a router that forwards one."""
    return host if _PORT.search(host) else f"{host}:{port}"
