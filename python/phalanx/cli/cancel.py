"""``phalanx cancel``: end jobs before their time."""

from __future__ import annotations

import click

from phalanx._grids import one_joined
from phalanx._jobs import JobsAt
from phalanx.cli._examples import examples
from phalanx.cli._joined import JOINED
from phalanx.cli._processes import PROCESS, Process


@click.command(epilog=examples("phalanx cancel 12", "phalanx cancel 12.3"))
@click.argument("process", metavar="JOB[.INDEX]", type=PROCESS)
@JOINED
def cancel(process: Process, name: str | None) -> None:
    """Cancel a job, or one process of it.

    Processes that run are ended with all that they have started. Those that have ended keep their results. You cancel
    your own jobs, and an owner of the grid cancels any.
    """
    count = JobsAt(one_joined(name)).cancel(process.job, process.which)
    click.echo(f"canceled {count} process{'' if count == 1 else 'es'}")
