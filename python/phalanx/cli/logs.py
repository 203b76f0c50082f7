"""``phalanx logs``: the logs of a job's processes."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import BinaryIO

import click

from phalanx._grids import one_joined
from phalanx._jobs import JobsAt, here
from phalanx.cli._examples import examples
from phalanx.cli._joined import JOINED
from phalanx.cli._processes import PROCESS, Process
from phalanx.errors import RecruitError

#: Polling interval of a running process, in seconds.
_PAUSE = 0.3


@click.command(epilog=examples("phalanx logs 12", "phalanx logs -f 12.3", "phalanx logs --stderr 12"))
@click.argument("process", metavar="JOB[.INDEX]", type=PROCESS)
@click.option("-f", "--follow", is_flag=True, help="Go on until the process has ended.")
@click.option("--stderr", "only_error", is_flag=True, help="Standard error only, on standard output.")
@JOINED
def logs(process: Process, follow: bool, only_error: bool, name: str | None) -> None:
    """Print what a process of a job has written, also while it runs.

    Its standard output goes to standard output, and its standard error to standard error. Without an index, those of
    all processes of the job follow each other.
    """
    at = JobsAt(one_joined(name))
    job = at.job(process.job)
    indices = range(job["first"], job["last"] + 1) if process.which is None else [process.which]
    if follow and len(indices) > 1:
        raise click.UsageError(
            f"the job {process.job} has {len(indices)} processes: say which one, like {process.job}.{indices[0]}"
        )
    streams = [(True, sys.stdout.buffer)] if only_error else [(False, sys.stdout.buffer), (True, sys.stderr.buffer)]
    for index in indices:
        _print(at, process.job, index, job["user"], streams, follow)


def _print(at: JobsAt, job: int, index: int, user: str, streams: list[tuple[bool, BinaryIO]], follow: bool) -> None:
    shown = dict.fromkeys((is_error for is_error, _ in streams), 0)
    left = dict(streams)
    while left:
        for is_error, to in [*left.items()]:
            try:
                found, word = at.log(job, index, is_error, shown[is_error])
            except RecruitError:
                if not follow:
                    raise
                continue
            whole = _all_of(at, user, found) if isinstance(found, dict) else None
            bytes_ = found if isinstance(found, bytes) else (whole or b"")[shown[is_error] :]
            to.write(bytes_)
            to.flush()
            shown[is_error] += len(bytes_)
            has_more = word == "part" and bool(bytes_)
            is_over = word in ("all", "nothing") or (word == "not yet" and not follow and not has_more)
            if is_over or (not follow and not has_more):
                del left[is_error]
        if left and follow:
            time.sleep(_PAUSE)


def _all_of(at: JobsAt, user: str, content: dict[str, object]) -> bytes:
    small = here(content)
    if small is not None:
        return small
    with tempfile.TemporaryDirectory(prefix="phalanx-") as folder:
        path = Path(folder) / "log"
        at.fetch(user, content, path)
        return path.read_bytes()
