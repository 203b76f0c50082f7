"""`phalanx demo`: paper 000's sample program on real scans, here or on other machines."""

from __future__ import annotations

from pathlib import Path

import click

from phalanx.cli import show
from phalanx.security import read_policy


@click.command()
@click.argument("folder", required=False, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo-output"),
    show_default=True,
    metavar="DIR",
    help="Where the pictures and contact-sheet.png go.",
)
@click.option(
    "--executors",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Compute on these machines, one `machine port` a line. Default: this machine.",
)
@click.option("--interpreters", type=click.IntRange(min=1), metavar="N", help="How many to recruit.")
@click.option(
    "--policy",
    default="links",
    show_default=True,
    metavar="links|marked|all|FILE",
    help="Protect what leaves this machine, what is marked, every link, or as a file of rules says.",
)
@click.option(
    "--journal",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Log every fact there, one JSON line each.",
)
@click.option("--tasks", type=click.IntRange(min=1), metavar="N", help="How many pictures to make.")
@click.option("--no-sequential", is_flag=True, help="Do not do the work a second time to compare.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary for a program.")
def demo(
    folder: Path | None,
    out: Path,
    executors: Path | None,
    interpreters: int | None,
    policy: str,
    journal: Path | None,
    tasks: int | None,
    no_sequential: bool,
    as_json: bool,
) -> None:
    """Denoise and render DICOM scans in parallel.

    FOLDER has the scans; without it, those that pydicom ships are used.
    """
    try:
        from phalanx.demo.run import Job, run
    except ModuleNotFoundError as missing:
        raise click.ClickException(f"the demo needs {missing.name}: pip install 'phalanx[demo]'") from missing
    job = Job(folder, out, tasks, executors, interpreters, read_policy(policy), journal, not no_sequential)
    report = run(job, show.watch)
    if as_json:
        click.echo(show.as_json(report))
    else:
        show.tables(report)
    if (report.difference or 0) > 1:
        raise click.ClickException("the parallel results differ from the sequential ones: please report this")
