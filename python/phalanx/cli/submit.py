"""``phalanx submit``: run a command on machines of a grid."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import click

from phalanx._grids import one_joined
from phalanx._jobs import OVER, JobsAt, program_and_files
from phalanx.cli._examples import examples
from phalanx.cli._grid_options import NEEDS
from phalanx.cli._joined import JOINED
from phalanx.cli._numbers import Count, Duration
from phalanx.cli._paths import SomePath
from phalanx.cli._processes import JOB
from phalanx.cli._streams import is_terminal, printable
from phalanx.requirements import Needs

#: The limits of a hub: phalanx-core/src/jobs/check.rs.
_MOST_COUNT, _MOST_PLACES, _MOST_RETRIES, _HIGHEST = 100_000, 4096, 100, 1000
_YEAR = 365 * 24 * 3600


@click.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog=examples(
        "phalanx submit -- ./simulate --steps 1000",
        "phalanx submit -n 8 --files data/ --output 'out-*.csv' -- python fit.py data/",
        "phalanx submit --places 4 -- phalanx mpirun -n 4 ./solver",
        "phalanx submit --after 12 --retries 2 --time-limit 1h --wait -- sh -c 'sort -o all.txt part-*'",
    ),
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True)
@click.option(
    "-n",
    "count",
    type=Count(1, _MOST_COUNT),
    help=f"Run so many processes, at most {_MOST_COUNT}, with indices from 0 on.",
)
@click.option("--array", metavar="FIRST-LAST", help="Run a process for each of these indices, like 3-17.")
@click.option(
    "--places",
    type=Count(1, _MOST_PLACES),
    default=1,
    show_default=True,
    help=f"How many places of one machine each process takes, at most {_MOST_PLACES}: for programs of several threads "
    "or processes.",
)
@click.option("--name", "title", default="", metavar="TITLE", help="What the job is called in lists.")
@click.option(
    "--files",
    "paths",
    multiple=True,
    type=SomePath(path_type=Path),
    metavar="PATH",
    help="A file or a folder that each process finds in its folder under the same relative name (may be repeated). "
    "Symbolic links in a folder are refused.",
)
@click.option(
    "--output",
    "outputs",
    multiple=True,
    metavar="PATTERN",
    help="Bring back the files that this pattern finds, and folders with all that is in them (may be repeated).",
)
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="Set a variable (may be repeated).")
@click.option("--stdin", "stdin", metavar="NAME", help="The file in the process's folder that is its standard input.")
@NEEDS
@click.option("--after", multiple=True, type=JOB, metavar="JOB", help="Begin when this job is complete.")
@click.option(
    "--retries",
    type=Count(0, _MOST_RETRIES),
    default=0,
    help=f"Run a failed process again so often, at most {_MOST_RETRIES} times.",
)
@click.option("--time-limit", type=Duration(1, _YEAR), metavar="TIME", help="End a process that takes longer: 90s, 2h.")
@click.option("--deadline", type=Duration(1, _YEAR), metavar="TIME", help="Cancel what has not ended so long from now.")
@click.option(
    "--priority",
    type=Count(-_HIGHEST, _HIGHEST),
    default=0,
    show_default=True,
    help=f"Jobs with a higher number, from -{_HIGHEST} to {_HIGHEST}, come first. Only owners of the grid say more "
    "than 0: before the jobs of all users.",
)
@click.option(
    "--wait", "waits", is_flag=True, help="Wait until the job has ended. The exit status says whether it is complete."
)
@JOINED
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def submit(
    command: tuple[str, ...],
    count: int | None,
    array: str | None,
    places: int,
    title: str,
    paths: tuple[Path, ...],
    outputs: tuple[str, ...],
    variables: tuple[str, ...],
    stdin: str | None,
    needs: Needs | None,
    after: tuple[int, ...],
    retries: int,
    time_limit: int | None,
    deadline: int | None,
    priority: int,
    waits: bool,
    name: str | None,
    as_json: bool,
) -> None:
    """Run a command on machines of the grid.

    No shared file system is needed. The hub keeps the job, and what it needs and leaves. You may log out at once.
    Each process runs in a folder of its own on a donated machine, with copies of the files. The program goes along if
    it is named with a relative path like ./simulate, and so do the script after python, sh and the like, and the files
    that are named after phalanx mpirun and phalanx bsprun. Other programs must be there. The words python and phalanx
    stand for the machine's own.

    Each process has PHALANX_JOB, PHALANX_INDEX, PHALANX_FIRST, PHALANX_LAST, PHALANX_COUNT and PHALANX_PLACES in its
    environment. What it writes to standard output and standard error is kept: phalanx logs, phalanx get.

    A process whose machine is lost runs again elsewhere. So it may run more than once, and its result counts once.
    """
    first, last = _indices(count, array)
    environment, needed = _pairs(variables), _needs(needs)
    words, files = program_and_files([*command], paths)
    at = JobsAt(one_joined(name))
    spec = {
        "name": title,
        "commands": [{"words": words, "environment": environment, "folder": None, "stdin": stdin}],
        "first": first,
        "last": last,
        "places": places,
        "outputs": [output.rstrip("/") for output in outputs],
        "needs": needed,
        "after": [*after],
        "retries": retries,
        "priority": priority,
        "time_limit": time_limit,
        "deadline": None if deadline is None else int((time.time() + deadline) * 1000),
    }
    job = at.submit(spec, files)
    if not as_json or waits:
        click.echo(f"job {job}", err=as_json)
    if not waits:
        if as_json:
            click.echo(json.dumps({"job": job}))
        return
    ended = _wait(at, job)
    if as_json:
        click.echo(json.dumps(ended))
    elif ended["state"] != "COMPLETE":
        click.echo(printable(f"the job {job} has ended: {ended['state']} {ended['why']}".rstrip()), err=True)
    if ended["state"] != "COMPLETE":
        sys.exit(1)


def _wait(at: JobsAt, job: int) -> dict[str, Any]:
    """Waits for the end of a job. Says on a terminal for what."""
    said = ""

    def tell(now: dict[str, Any]) -> None:
        nonlocal said
        words = printable(f"{now['state']} {now['why']}".rstrip())
        if words != said and now["state"] not in OVER and is_terminal(sys.stderr):
            click.echo(f"job {job}: {words}", err=True)
        said = words

    try:
        return at.wait(job, tell)
    except KeyboardInterrupt:
        click.echo(f"the job {job} goes on: phalanx jobs {job}; to end it: phalanx cancel {job}", err=True)
        raise


def _indices(count: int | None, array: str | None) -> tuple[int, int]:
    if count is not None and array is not None:
        raise click.UsageError("say -n or --array, not both")
    if array is None:
        return 0, (count or 1) - 1
    found = re.fullmatch(r"([0-9]{1,9})-([0-9]{1,9})", array)
    if found is None or int(found[2]) < int(found[1]) or int(found[2]) - int(found[1]) >= _MOST_COUNT:
        raise click.UsageError(
            f"--array {array}: write the first and the last index, like 3-17, for at most {_MOST_COUNT}"
        )
    return int(found[1]), int(found[2])


def _pairs(variables: tuple[str, ...]) -> list[tuple[str, str]]:
    pairs = []
    for word in variables:
        variable, equals, value = word.partition("=")
        if not equals or not variable:
            raise click.UsageError(f"--env {printable(word)}: write NAME=VALUE")
        if variable.startswith("PHALANX_"):
            raise click.UsageError(
                f"--env {printable(variable)}: the machine sets variables PHALANX_… itself: choose another name"
            )
        pairs.append((variable, value))
    return pairs


def _needs(needs: Needs | None) -> dict[str, Any]:
    if needs is None:
        return {}
    if needs.wait:
        raise click.UsageError("--needs wait=: a job waits for machines without it; --deadline says for how long")
    cores, memory, gpus, software, labels, cage = needs.native()
    named = {"cores": cores, "memory": memory, "gpus": gpus, "software": software, "labels": labels}
    return {**named, "cage": cage.capitalize()}
