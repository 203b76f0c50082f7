"""``phalanx rm``: takes files at executors away."""

from __future__ import annotations

import errno
import json
import posixpath
import sys

import click

from phalanx.cli._examples import examples
from phalanx.cli._streams import BROKEN_PIPE, drop_output
from phalanx.cli._there import Reached, complain, reaches, split
from phalanx.errors import TransferError
from phalanx.grid import Grid
from phalanx.transfer._files import Files, Unknown, expand, outermost
from phalanx.words import Level


@click.command(
    epilog=examples(
        "phalanx rm lab:/scratch/results.csv",
        "phalanx rm -r lab:/scratch/old",
        "phalanx rm -f 'lab:/scratch/*.tmp'",
    )
)
@click.argument("places", metavar="HOST:/PATH...", nargs=-1, required=True)
@click.option("-r", "-R", "--recursive", is_flag=True, help="Remove folders too, with their contents.")
@click.option("-f", "--force", is_flag=True, help="Ignore paths that do not exist.")
@reaches
@click.option("--json", "as_json", is_flag=True, help="Print one JSON line for each path.")
def rm(
    places: tuple[str, ...],
    recursive: bool,
    force: bool,
    grid: Grid,
    level: Level | None,
    as_json: bool,
) -> int:
    """Remove files in folders that an executor exports for writing.

    A path may be a glob pattern (* ? [ **); quote it for the shell. A link itself is removed, never the file that it
    leads to. The exported folder itself stays. The exit code is 1 if a file could not be removed.
    """
    code, is_heard = 0, True
    with Reached(grid, level) as reached:
        for place in places:
            removed, failures = _remove(reached, place, recursive, force)
            for failure in failures:
                complain(failure.path, failure)
            code |= bool(failures)
            if as_json:
                told = [{"path": failure.path, "reason": failure.reason} for failure in failures]
                try:
                    click.echo(json.dumps({"place": place, "removed": removed, "failures": told}))
                except BrokenPipeError:  # what is to go goes all the same
                    drop_output(sys.stdout)
                    is_heard = False
    return code if is_heard else BROKEN_PIPE


def _remove(reached: Reached, place: str, recursive: bool, force: bool) -> tuple[int, list[Unknown]]:
    """How many files and folders are gone, and what could not be removed."""
    host, pattern = split(place)
    try:
        files = reached.at(host)
        found, unknown = expand(files, pattern)
    except TransferError as error:
        return 0, [Unknown(place, str(error))]
    removed, failures = 0, [Unknown(f"{host}:{one.path}", one.reason, one.error) for one in unknown]
    for path in outermost(found) if recursive else found:
        try:
            done, failed = _remove_one(files, path.rstrip("/"), recursive, force)
        except TransferError as error:
            done, failed = 0, [Unknown(path, str(error).removeprefix(f"{path}: "))]
        removed += done
        failures += [Unknown(f"{host}:{one.path}", one.reason, one.error) for one in failed]
    return removed, failures


def _remove_one(files: Files, path: str, recursive: bool, force: bool) -> tuple[int, list[Unknown]]:
    folder, name = posixpath.split(path)
    if not name:
        raise TransferError("this is an exported folder itself, or above one")
    entry = files.look(path, follow=False)
    if entry is None:
        return 0, [] if force else [Unknown(path, "no such file or folder")]
    if entry.kind == "folder" and not recursive:
        return 0, [Unknown(path, "it is a folder: --recursive removes it with all in it")]
    try:
        done, failed = files.remove(folder or "/", [name], recursive=recursive)
    except TransferError as error:
        if error.errno == errno.EACCES and _is_exported_itself(files, folder):
            raise TransferError("this is the exported folder itself, which stays: name what is in it") from error
        raise
    return done, [Unknown(f"{folder}/{one.path}", one.reason, one.error) for one in failed]


def _is_exported_itself(files: Files, above: str) -> bool:
    """Whether something that may be looked at is an exported folder: what it lies in may not be looked at."""
    try:
        files.look(above or "/")
    except TransferError as error:
        return error.errno == errno.EACCES
    return False
