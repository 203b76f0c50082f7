"""``phalanx sync``: makes a folder like another one, here or at an executor."""

from __future__ import annotations

from pathlib import Path

import click

from phalanx.cli._examples import examples
from phalanx.cli._habits import Habitual
from phalanx.cli._streams import printable
from phalanx.cli._there import carries, explain_at_end, reaches, tell_json
from phalanx.cli.cp import more, of_older, protection, shown, tell_losses, told
from phalanx.errors import TransferError
from phalanx.grid import Grid
from phalanx.transfer._copy import CarryOptions
from phalanx.transfer._sync import SyncReport, as_json
from phalanx.words import Level


@click.command(
    cls=Habitual,
    epilog=examples(
        "phalanx sync --dry-run --delete results lab:/scratch/results",
        "phalanx sync results lab:/scratch/results",
        "phalanx sync --exclude '*.tmp' lab:/scratch/results results",
    ),
)
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@click.option("--checksum", is_flag=True, help="Compare the contents of files, not only size and time.")
@click.option("--delete", is_flag=True, help="Remove files from DST that SRC does not have.")
@click.option("-n", "--dry-run", is_flag=True, help="Change nothing, and print what would be done.")
@reaches
@carries
@click.option("--json", "json_wanted", is_flag=True, help="Print one JSON object, and no progress.")
def sync(
    source: str,
    target: str,
    checksum: bool,
    delete: bool,
    dry_run: bool,
    grid: Grid,
    level: Level | None,
    how: CarryOptions,
    json_wanted: bool,
) -> int:
    """Make the folder DST like SRC, by copying what differs.

    One of them, or each, is HOST:/PATH or HOST:PORT:/PATH. The command copies only files that differ in size or
    time, and sets permissions that differ. Between two executors, the bytes go directly from one to the other. DST
    is the copy itself; if it ends with a slash, SRC goes into it under its own name. --delete removes files that
    SRC does not have. It never removes excluded files, never follows a link, and removes nothing if SRC could not
    be listed completely. One folder cannot be inside the other. The exit code is 1 if an operation failed.
    """
    with shown(Path(source).name or source, json_wanted) as progress:
        report = grid.sync(
            source,
            target,
            level=level,
            checksum=checksum,
            delete=delete,
            dry_run=dry_run,
            progress=progress,
            **how,
        )
    if json_wanted:
        tell_json(as_json(report))
    else:
        _tell(report, delete, dry_run)
    code = int(bool(report.failures) or bool(report.copied and report.copied.failed))
    if code:
        explain_at_end(TransferError)
    return code


def _tell(report: SyncReport, delete: bool, dry_run: bool) -> None:
    for change in report.changes if dry_run else ():
        click.echo(f"{change.what:<8}{printable(change.path)}")
    for line in told(report.failures):
        click.echo(f"not done: {line}", err=True)
    if delete and not report.listed:
        click.echo("nothing was removed, since not all of the source could be looked at", err=True)
    if report.copied is None:
        return
    copied = report.copied
    if copied.failed > len(copied.failures):
        click.echo(more(copied), err=True)
    fresh, gone = copied.files - copied.kept, f", {report.deleted} removed" if delete else ""
    click.echo(
        f"{fresh} of {copied.files} files copied{of_older(copied)}{gone}, {copied.seconds:.2f} s "
        f"({copied.streams} streams, {protection(copied)})"
    )
    tell_losses(copied)
