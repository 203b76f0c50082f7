"""``phalanx get``: fetch the outputs and logs of a job."""

from __future__ import annotations

from pathlib import Path

import click

from phalanx import _jobs
from phalanx._grids import one_joined
from phalanx.cli._examples import examples
from phalanx.cli._joined import JOINED
from phalanx.cli._paths import SomePath
from phalanx.cli._processes import JOB


@click.command(epilog=examples("phalanx get 12", "phalanx get 12 results/"))
@click.argument("job", metavar="JOB", type=JOB)
@click.argument("folder", required=False, type=SomePath(path_type=Path, file_okay=False))
@JOINED
def get(job: int, folder: Path | None, name: str | None) -> None:
    """Bring back the outputs and logs of a job.

    They go into FOLDER, which is job-JOB unless it is named.

    Each process of an array gets a folder that is called as its index. What a process has written to standard output is
    in stdout.log, and to standard error in stderr.log. Processes that have not ended are passed over. Files that are
    there already are replaced.
    """
    at = _jobs.JobsAt(one_joined(name))
    into = folder or Path(f"job-{job}")
    count = _jobs.get(at, job, into)
    click.echo(f"{count} files in {into}" if count else f"the job {job} has left nothing yet: phalanx jobs {job}")
