"""``phalanx ls``: what is in an executor's folders."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain, islice

import click

from phalanx.cli._examples import examples
from phalanx.cli._streams import printable
from phalanx.cli._there import Reached, complain, facts, reaches, split
from phalanx.errors import TransferError
from phalanx.grid import Grid
from phalanx.transfer._files import ALL, Entry, Files, Unknown, expand
from phalanx.words import Level

#: Entries that are sorted; of a larger folder they come as they are found.
_MOST_SORTED = 10_000
_KINDS = {"file": stat.S_IFREG, "folder": stat.S_IFDIR, "link": stat.S_IFLNK, "other": 0}


@click.command(
    epilog=examples(
        "phalanx ls lab:/scratch",
        "phalanx ls -l 'lab:/scratch/**/*.csv'",
    )
)
@click.argument("places", metavar="HOST:/PATH...", nargs=-1, required=True)
@click.option("-l", "--long", is_flag=True, help="Print the mode, size and time of each entry too.")
@click.option("-R", "--recursive", is_flag=True, help="List the contents of folders too, by path.")
@reaches
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line for each entry.")
def ls(
    places: tuple[str, ...],
    long: bool,
    recursive: bool,
    grid: Grid,
    level: Level | None,
    as_json: bool,
) -> int:
    """List the contents of folders that an executor exports.

    A path may be a glob pattern (* ? [ **); quote it for the shell. Links are shown and not followed. Folders of up to
    10 000 entries are sorted; the entries of larger folders are printed as they come. The exit code is 1 if an entry
    could not be listed.
    """
    code = 0
    with Reached(grid, level) as reached:
        for place in places:
            code |= _list(reached, place, ALL if recursive else 0, long, as_json)
    return code


def _list(reached: Reached, place: str, depth: int, long: bool, as_json: bool) -> int:
    """Prints what is at a place; whether something could not be looked at."""
    host, pattern = split(place)
    code = 0
    try:
        files = reached.at(host)
        paths, unknown = expand(files, pattern)
    except TransferError as error:
        complain(place, error)
        return 1
    for one in unknown:
        complain(f"{host}:{one.path}", one)
        code = 1
    for path in paths:
        try:
            for found in _sorted(_within(files, path, depth, follow=path == pattern)):
                if isinstance(found, Unknown):
                    complain(f"{host}:{path.rstrip('/')}/{found.path}", found)
                    code = 1
                elif as_json:
                    click.echo(json.dumps({"host": host, "folder": path, **facts(found)}))
                else:
                    click.echo(_line(found, long))
        except TransferError as error:
            complain(f"{host}:{path}", error)
            code = 1
    return code


def _within(files: Files, path: str, depth: int, follow: bool) -> Iterator[Entry | Unknown]:
    """What is in a folder; a file is itself, and so is a link, but for one that was named and leads somewhere."""
    entry = (files.look(path) if follow else None) or files.look(path, follow=False)
    if entry is None:
        raise TransferError("no such file or folder")
    return files.entries(path, depth=depth) if entry.kind == "folder" else iter([entry])


def _sorted(found: Iterator[Entry | Unknown]) -> Iterable[Entry | Unknown]:
    first = list(islice(found, _MOST_SORTED + 1))
    return chain(first, found) if len(first) > _MOST_SORTED else sorted(first, key=lambda one: one.path)


def _line(entry: Entry, long: bool) -> str:
    name = printable(entry.path) + ("/" if entry.kind == "folder" else "")
    if not long:
        return name
    mode = stat.filemode(_KINDS[entry.kind] | (entry.mode or 0))
    leads = f" -> {printable(entry.target)}" if entry.target is not None else ""
    return f"{mode} {entry.size:>14} {_time(entry.modified)} {name}{leads}"


def _time(nanoseconds: int) -> str:
    try:
        return datetime.fromtimestamp(nanoseconds / 1e9).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return f"{'?':>19}"
