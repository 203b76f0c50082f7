"""What commands about files at executors have in common."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import click

from phalanx.cli._grid_options import in_grid
from phalanx.cli._numbers import Count, Seconds, read_bwlimit
from phalanx.cli._streams import drop_output, printable
from phalanx.errors import PhalanxError, TransferError, help_for
from phalanx.grid import Grid
from phalanx.transfer._files import THERE, Entry, Files, Unknown, hint, place_of, there
from phalanx.words import AUTHENTICATED, KEPT, LEVELS, LINKS, Level

#: The key in a command's context of the error that its last line refers to.
_EXPLAINED = "phalanx.explained"
_LEVEL = click.option(
    "--level", type=click.Choice(LEVELS), help=f"The link's level; {AUTHENTICATED} [default: by policy]"
)


def reaches(command: Callable[..., int]) -> Callable[..., int]:
    """Adds the options that say how an executor is reached; the command has them as `grid` and `level`."""
    return _LEVEL(in_grid(command))


#: As :func:`phalanx.copy` and :func:`phalanx.sync` take them.
_HOW = (
    click.option(
        "--streams", type=Count(1, 64), help="Connections, at most 64. [default: raised while that increases the rate]"
    ),
    click.option(
        "--threads", type=Count(1, 64), help="Threads at each end, at most 64. [default: one more than cores]"
    ),
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


def tell_json(facts: dict[str, Any], *, err: bool = False) -> None:
    """Prints one JSON object on a line of its own."""
    import json  # most commands start without it

    click.echo(json.dumps(facts), err=err)


def complain(place: str, error: TransferError | Unknown) -> None:
    """Says what went wrong with one place; the others go on."""
    match = THERE.fullmatch(place)
    path = match["path"] if match else place
    reason = (error.reason if isinstance(error, Unknown) else str(error)).removeprefix(f"{path}: ")
    try:
        click.echo(f"phalanx: {printable(place)}: {printable(reason)}", err=True)
    except BrokenPipeError:
        drop_output(sys.stderr)
    explain_at_end(TransferError)


def explain_at_end(error: type[PhalanxError]) -> None:
    """Makes the line that says which command explains an error the last one of this command. Only the first error of
    a command has one."""
    root = click.get_current_context().find_root()
    if _EXPLAINED not in root.meta:
        root.meta[_EXPLAINED] = error
        root.call_on_close(functools.partial(_explain, error))


def _explain(error: type[PhalanxError]) -> None:
    try:
        click.echo(f"phalanx: {help_for(error)}", err=True)
    except BrokenPipeError:
        drop_output(sys.stderr)


def facts(entry: Entry) -> dict[str, object]:
    """An entry for JSON."""
    return dict(vars(entry))
