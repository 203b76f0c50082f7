"""``phalanx cp``: files and folders between machines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from phalanx.cli._examples import examples
from phalanx.cli._habits import Habitual
from phalanx.cli._streams import is_terminal, printable
from phalanx.cli._there import carries, explain_at_end, reaches, tell_json
from phalanx.errors import PhalanxError, TransferError
from phalanx.grid import Grid
from phalanx.transfer._copy import CarryOptions, CopyReport, Progress, as_facts
from phalanx.words import Level

#: The reason of a failure that is told once for all, if there are more of them.
_LEADS_OUT = "the link leads out of what is copied"
_FEW = 3


@click.command(
    cls=Habitual,
    epilog=examples(
        "phalanx cp results lab:/scratch/",
        "phalanx cp 'lab:/scratch/*.csv' tables",
        "phalanx cp lab:/scratch/big.bin other:/scratch/big.bin",
        "tar -c data | phalanx cp - lab:/scratch/data.tar",
    ),
)
@click.argument("sources", metavar="SRC...", nargs=-1, required=True)
@click.argument("target", metavar="DST")
@reaches
@carries
@click.option("--anew", is_flag=True, help="Copy files anew that have the same size and time at the target.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON line for each source, with `error` if nothing of it was copied, and no progress.",
)
def cp(
    sources: tuple[str, ...],
    target: str,
    grid: Grid,
    level: Level | None,
    how: CarryOptions,
    anew: bool,
    as_json: bool,
) -> int:
    """Copy files and folders to or from executors.

    One side is HOST:/PATH or HOST:PORT:/PATH, in a folder that the executor exports. If both sides are, the bytes go
    directly from one executor to the other. A folder's copy is DST itself, or goes into DST if DST ends with a slash;
    several sources go into DST. The same command resumes an interrupted copy. The exit code is 1 if a file could not be
    copied.

    A path at an executor may be a glob pattern (* ? [ **); quote it for the shell. The matches go into DST. One side
    may be -, standard input or output.

    With --stripes several machines share the work. The machines of a source have the same files with the same times;
    those of a target share a file system. A lost machine is named, and the others copy its share.
    """
    if len(sources) > 1 and "-" in (target, *sources):
        raise click.UsageError("one of several cannot be -, standard input or output")
    if len(sources) > 1 and not target.endswith("/"):
        target += "/"

    def one(source: str) -> CopyReport:
        with shown(Path(source).name or source, as_json) as progress:
            return grid.copy(source, target, level=level, progress=progress, anew=anew, **how)

    quiet, code = target == "-", 0
    for source in sources:
        try:
            code = max(code, _tell(source, one(source), as_json, quiet))
        except PhalanxError as error:  # the other sources are copied all the same
            code = 1
            if as_json:
                tell_json({"source": source, "error": str(error)}, err=quiet)
            if len(sources) == 1:
                raise
            click.echo(f"not copied: {printable(source)}: {printable(str(error))}", err=True)
            explain_at_end(type(error))
    return code


@contextmanager
def shown(what: str, as_json: bool) -> Iterator[Callable[[Progress], object] | None]:
    """Shows how far a copy is, where standard error is a terminal; nothing else needs rich, which is slow to import."""
    if as_json or not is_terminal(sys.stderr):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda now: bar.update(task, completed=now.bytes, total=now.total)


def told(failures: list[tuple[str, str]]) -> Iterator[str]:
    """A line for each failure, and one for all links that lead out, of which a home folder has many."""
    out = [path for path, reason in failures if reason == _LEADS_OUT]
    for path, reason in failures:
        if reason != _LEADS_OUT or len(out) <= _FEW:
            yield f"{printable(path)}: {printable(reason)}"
    if len(out) > _FEW:
        like = f"{len(out)} links lead out of what is copied, like {printable(out[0])}"
        yield f"{like}: say --links keep to copy them as they are, follow to copy what they lead to, or skip"


def more(report: CopyReport) -> str:
    """What is counted of failures, and not told."""
    return f"not copied: {report.failed - len(report.failures)} more (what is in a folder that failed is not named)"


def _tell(source: str, report: CopyReport, as_json: bool, quiet: bool = False) -> int:
    """Says what came of a copy; the exit code. ``quiet``: standard output is for the copy itself."""
    code = int(report.failed > 0)
    if as_json:
        tell_json({"source": source, **as_facts(report)}, err=quiet)
        return code
    for line in told(report.failures):
        click.echo(f"not copied: {line}", err=True)
    if report.failed > len(report.failures):
        click.echo(more(report), err=True)
    if code:
        explain_at_end(TransferError)
    stripes = f"{report.stripes} stripes, " if report.stripes > 1 or report.lost_stripes else ""
    rate = report.bytes / max(report.seconds, 1e-9)
    kept = f", {report.kept} of them there already" if report.kept else ""
    click.echo(
        f"{report.files} files{kept}, {report.bytes / 1e6:,.1f} MB{of_older(report)} in {report.seconds:.2f} s "
        f"({rate / 1e6:,.0f} MB/s, {stripes}{report.streams} streams, {protection(report)})",
        err=quiet,
    )
    tell_losses(report)
    return code


def protection(report: CopyReport) -> str:
    """The level, who proved to be at the other ends, and why this level."""
    peers = f" with {' and '.join(map(printable, report.peers))}" if report.peers else ""
    return f"{report.level}{peers}: {report.why}"


def of_older(report: CopyReport) -> str:
    """What of the bytes did not cross."""
    crossed = f"{report.crossed / 1e6:,.1f} MB crossed"
    if report.reused:
        return f" ({report.reused / 1e6:,.1f} MB from older versions, {crossed})"
    is_told = report.stripes == 1 and not report.kept  # stripes count what their last copy brings
    return f" ({crossed})" if is_told and report.crossed < report.bytes * 0.95 else ""


def tell_losses(report: CopyReport) -> None:
    """What of the machines and connections did not last."""
    for machines, reason in report.lost_stripes:
        click.echo(f"lost, others did its share: {printable(machines)}: {printable(reason)}", err=True)
    if report.altered_streams:
        click.echo(f"{report.altered_streams} streams were cut off: somebody altered what was sent", err=True)
