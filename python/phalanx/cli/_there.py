"""What commands have in common, above all those that are about files at executors."""

from __future__ import annotations

import functools
import math
import os
import re
import select
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click

from phalanx import _native
from phalanx.errors import TransferError
from phalanx.grid import Grid
from phalanx.security import read_policy
from phalanx.transfer._files import THERE, Entry, Files, Unknown, hint, place_of, there
from phalanx.words import AUTHENTICATED, KEPT, LEVELS, LINKS, Level

T = TypeVar("T")

#: What ``--policy`` is, where a grid is named.
POLICY_HELP = (
    "A policy, or a file of rules. With marked, what is not marked is only authenticated: an attacker on the wire can "
    "read and change it."
)

#: A pipe whose reader has gone, as a shell says it.
BROKEN_PIPE = 141

#: The options that name a grid: its machines, who the user is to them, and what links to them may be.
_GRID = (
    click.option(
        "--hosts",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A hosts file: machines by name, ports and trusted networks.",
    ),
    click.option(
        "--identity",
        type=click.Path(path_type=Path),
        help="Your certificate. [default: user.pem in $PHALANX_HOME or ~/.phalanx]",
    ),
    click.option(
        "--policy",
        default="links",
        show_default=True,
        metavar="links|marked|all|FILE",
        help=POLICY_HELP,
    ),
    click.option(
        "--trusted",
        multiple=True,
        metavar="NETWORK",
        help="Links to this network need no protection (may be repeated).",
    ),
)
_LEVEL = click.option(
    "--level", type=click.Choice(LEVELS), help=f"The link's level; {AUTHENTICATED} [default: by policy]"
)


def in_grid(command: Callable[..., T]) -> Callable[..., T]:
    """Adds the options that name a grid; the command has them as `grid`."""

    @functools.wraps(command)
    def taking(*, hosts: Path | None, identity: Path | None, policy: str, trusted: tuple[str, ...], **others: Any) -> T:
        grid = Grid(hosts, identity=identity, policy=read_policy(policy), trusted=trusted)
        return command(grid=grid, **others)

    for option in reversed(_GRID):
        taking = option(taking)
    return taking


def reaches(command: Callable[..., int]) -> Callable[..., int]:
    """Adds the options that say how an executor is reached; the command has them as `grid` and `level`."""
    return _LEVEL(in_grid(command))


class Seconds(click.FloatRange):
    """NaN is in every range of click's."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds: float = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value} is no number of seconds", param, ctx)
        return seconds


#: A rate of rsync: K, M, G, T and KiB count in powers of 1024, KB in powers of 1000.
_BWLIMIT = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[kmgt]?)(?P<base>b|ib)?", re.IGNORECASE)


def read_bwlimit(context: click.Context, option: click.Parameter, word: str | None) -> int | None:
    """The bytes a second that ``--bwlimit`` stands for; None for ``0``, which is no limit."""
    if word is None:
        return None
    match = _BWLIMIT.fullmatch(word)
    if match is None or (match["base"] and not match["unit"]):
        raise click.BadParameter(f"{word!r}: write KiB a second, or a number with K, M or G", context, option)
    base = 1000 if (match["base"] or "").lower() == "b" else 1024
    power = "kmgt".index(match["unit"].lower()) + 1 if match["unit"] else 1
    number = float(match["number"])
    return max(1, int(number * base**power)) if number else None


#: As :func:`phalanx.copy` and :func:`phalanx.sync` take them.
_HOW = (
    click.option(
        "--streams", type=click.IntRange(1, 64), help="Connections. [default: raised while that increases the rate]"
    ),
    click.option("--threads", type=click.IntRange(1, 64), help="Threads at each end. [default: one more than cores]"),
    click.option("--include", multiple=True, metavar="PATTERN", help="Copy only files that match (may be repeated)."),
    click.option(
        "--exclude",
        multiple=True,
        metavar="PATTERN",
        help="Leave out what matches, and all contents of folders (may be repeated).",
    ),
    click.option(
        "--links",
        type=click.Choice(LINKS),
        help="Copy links, the files that they lead to, or neither. [default: copy links that stay within the copy]",
    ),
    click.option("-o", "--owner", is_flag=True, help="Keep owners, by name; only root can change owners."),
    click.option("-g", "--group", is_flag=True, help="Keep groups, by name; groups that are not yours need root."),
    click.option("--numeric-ids", is_flag=True, help="Keep owners and groups by number instead of by name."),
    click.option("-X", "--xattrs", is_flag=True, help="Keep extended attributes (user.*)."),
    click.option("-A", "--acls", is_flag=True, help="Keep access control lists."),
    click.option("-H", "--hard-links", is_flag=True, help="Keep hard links: several names of one file."),
    click.option("--no-check", is_flag=True, help="No checksums at levels without tags."),
    click.option(
        "--whole-file/--no-whole-file",
        default=None,
        help="Send whole files, or only differences from older versions. [default: whole files within a machine]",
    ),
    click.option(
        "-z/ ",
        "--compress/--no-compress",
        default=None,
        help="Compress on every line, or on none. [default: on lines below 1 Gbit/s, if it saves time]",
    ),
    click.option(
        "--patience",
        "--timeout",
        "patience",
        type=Seconds(0),
        default=60.0,
        show_default=True,
        help="Seconds to retry after the connection is lost; 0: give up at once, unlike rsync.",
    ),
    click.option("--limit", metavar="RATE", help="The most bytes per second, like 100MB/s."),
    click.option(
        "--bwlimit",
        callback=read_bwlimit,
        metavar="RATE",
        help="The same in the units of rsync: KiB per second, or like 1.5M.",
    ),
    click.option(
        "--stripes",
        metavar="HOSTS",
        help="Further machines at the executor's end, like b,c:7401, or at both ends: b,c/y,z.",
    ),
)


def carries(command: Callable[..., int]) -> Callable[..., int]:
    """Adds the options that say how a copy is made; the command has them as `how`, which goes on as it is."""

    @functools.wraps(command)
    def carrying(**all_of: Any) -> int:
        how = {
            name: all_of.pop(name)
            for name in ("streams", "threads", "whole_file", "include", "exclude", "links", "patience", "limit")
        }
        bwlimit = all_of.pop("bwlimit")
        if bwlimit is not None and how["limit"] is not None:
            raise click.UsageError("--limit and --bwlimit say the same: leave one out")
        how["limit"] = how["limit"] if bwlimit is None else bwlimit
        kept = [name for name in KEPT if all_of.pop(name.replace("-", "_"))]
        how["compress"] = all_of.pop("compress")
        how |= {"keep": (*kept,), "stripes": all_of.pop("stripes"), "check": not all_of.pop("no_check")}
        return command(how=how, **all_of)

    for option in reversed(_HOW):
        carrying = option(carrying)
    return carrying


def split(place: str) -> tuple[str, str]:
    """The host and the path of HOST:/PATH."""
    match = there(place)
    if match is None or match["path"].startswith("memory"):
        raise click.UsageError(f"{place!r} is not at an executor: write HOST:/PATH or HOST:PORT:/PATH{hint(place)}")
    return place_of(match), match["path"]


class Reached:
    """Links to executors, each made when it is first needed."""

    def __init__(self, grid: Grid, level: Level | None) -> None:
        self._grid = grid
        self._level: Level | None = level
        self._links: dict[str, Files] = {}

    def at(self, host: str) -> Files:
        """The link to one."""
        if host not in self._links:
            self._links[host] = self._grid.files(host, level=self._level)
        return self._links[host]

    def __enter__(self) -> Reached:
        return self

    def __exit__(self, *_: object) -> None:
        for link in self._links.values():
            link.close()


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person sees what is printed there; None: it is closed."""
    return stream is not None and stream.isatty()


def drop_output(stream: TextIO) -> None:
    """Nobody reads what is printed there any more: it goes nowhere from now on."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def drop_unread() -> bool:
    """The same for standard output and standard error where their reader has gone; whether one has."""
    broken = [stream for stream in (sys.stdout, sys.stderr) if stream is not None and _is_unread(stream)]
    for stream in broken:
        drop_output(stream)
    return bool(broken)


def _is_unread(stream: TextIO) -> bool:
    if not hasattr(select, "poll"):
        return True  # this system does not tell
    try:
        poll = select.poll()
        poll.register(stream.fileno(), 0)
    except (OSError, ValueError):
        return False  # it is closed, or none of the system's
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def printable(text: str) -> str:
    """A name or a reason without what a terminal would take for a command: the other end may have chosen it."""
    try:
        encoded = text.encode("utf-8", "surrogateescape")  # as names of files come from the system
    except UnicodeEncodeError:
        encoded = text.encode("utf-8", "backslashreplace")
    return _native.escape(encoded, one=True).decode()


def complain(place: str, error: TransferError | Unknown) -> None:
    """Says what went wrong with one place; the others go on."""
    match = THERE.fullmatch(place)
    path = match["path"] if match else place
    reason = (error.reason if isinstance(error, Unknown) else str(error)).removeprefix(f"{path}: ")
    try:
        click.echo(f"phalanx: {printable(place)}: {printable(reason)}", err=True)
    except BrokenPipeError:
        drop_output(sys.stderr)


def facts(entry: Entry) -> dict[str, object]:
    """An entry for JSON."""
    return dict(vars(entry))
