"""`phalanx demo`: paper 000's sample program on real scans, here or on other machines."""

from __future__ import annotations

from pathlib import Path

import click

from phalanx.cli import show
from phalanx.cli._examples import examples
from phalanx.cli._numbers import Count
from phalanx.security import read_policy


@click.command(
    epilog=examples(
        "phalanx demo",
        "phalanx demo --executors hosts.txt --journal journal.jsonl",
        "phalanx demo scans --out pictures --json",
    )
)
@click.argument("folder", required=False, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("demo-output"),
    show_default=True,
    metavar="DIR",
    help="The folder for the pictures and contact-sheet.png.",
)
@click.option(
    "--executors",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A hosts file of machines to compute on, one `machine port` per line. Default: this machine.",
)
@click.option("--interpreters", type=Count(1), help="The number of interpreters to recruit.")
@click.option(
    "--policy",
    default="links",
    show_default=True,
    metavar="links|marked|all|FILE",
    help="Protect links that leave this machine, marked data and code, every link, or follow a file of rules.",
)
@click.option(
    "--journal",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write every fact to this file, as one line of JSON.",
)
@click.option("--tasks", type=Count(1), help="The number of pictures to make.")
@click.option("--no-sequential", is_flag=True, help="Do not repeat the work sequentially for comparison.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
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

    FOLDER contains the scans; without it, the scans that pydicom ships are used.
    """
    try:
        with show.busy("loading numpy, scipy and pydicom"):
            from phalanx.demo.run import Job, run
    except ModuleNotFoundError as missing:
        raise click.ClickException(f"the demo needs {missing.name}: pip install 'phalanx-grid[demo]'") from missing
    job = Job(folder, out, tasks, executors, interpreters, read_policy(policy), journal, not no_sequential)
    report = run(job, show.watch)
    if as_json:
        click.echo(show.as_json(report))
    else:
        show.tables(report)
    if (report.difference or 0) > 1:
        raise click.ClickException("the parallel results differ from the sequential ones: please report this")
