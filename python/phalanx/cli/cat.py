"""``phalanx cat``: files at executors to standard output."""

from __future__ import annotations

import click

from phalanx.cli._examples import examples
from phalanx.cli._there import Reached, complain, reaches, split
from phalanx.errors import TransferError
from phalanx.grid import Grid
from phalanx.transfer._copy import standard_output
from phalanx.transfer._files import Files, expand
from phalanx.words import Level


@click.command(
    epilog=examples(
        "phalanx cat lab:/scratch/results.csv",
        "phalanx cat 'lab:/scratch/*.log' | grep ERROR",
    )
)
@click.argument("places", metavar="HOST:/PATH...", nargs=-1, required=True)
@reaches
def cat(
    places: tuple[str, ...],
    grid: Grid,
    level: Level | None,
) -> int:
    """Write files to standard output, one after the other.

    A path may be a glob pattern (* ? [ **); quote it for the shell. The exit code is 1 if a file could not be read, or
    was changed meanwhile: do not trust the output then.
    """
    code = 0
    with Reached(grid, level) as reached:
        for place in places:
            host, pattern = split(place)
            try:
                files = reached.at(host)
                found, unknown = expand(files, pattern)
            except TransferError as error:
                complain(place, error)
                code = 1
                continue
            for one in unknown:
                complain(f"{host}:{one.path}", one)
                code = 1
            for path in found:
                code |= _write(files, host, path)
    return code


def _write(files: Files, host: str, path: str) -> int:
    """Writes one file; returns whether something went wrong."""
    out = standard_output()
    try:
        file = files.open(path)
        while (piece := file.next()) is not None:
            out.write(piece)
        out.flush()
    except TransferError as error:
        complain(f"{host}:{path}", error)
        return 1
    return 0
