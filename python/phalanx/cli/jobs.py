"""``phalanx jobs``: the states and results of jobs."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import Any

import click
from rich.table import Table

from phalanx._grids import one_joined
from phalanx._jobs import OVER, JobsAt
from phalanx.cli._console import console
from phalanx.cli._examples import examples
from phalanx.cli._joined import JOINED
from phalanx.cli._numbers import Count, in_bytes
from phalanx.cli._streams import printable
from phalanx.errors import RecruitError

#: Polling interval of ``--watch``, in seconds.
_INTERVAL = 1.0
#: Width of a table without a terminal, in columns.
_WIDTH = 120
#: Most jobs and processes in a table.
_MOST_SHOWN = 200


@click.command(
    epilog=examples("phalanx jobs", "phalanx jobs 12 --watch", "phalanx jobs --json", "phalanx jobs --forget 12")
)
@click.argument("number", metavar="[JOB]", type=Count(1), required=False)
@click.option("--all", "all_users", is_flag=True, help="The jobs of all users, for owners of the grid.")
@click.option("--watch", is_flag=True, help="Show again what has changed, until the job has ended or until Ctrl-C.")
@click.option("--forget", type=Count(1), metavar="JOB", help="Forget a job that has ended, with its outputs and logs.")
@JOINED
@click.option("--json", "as_json", is_flag=True, help="Print JSON: an array of jobs, or one object with the processes.")
def jobs(number: int | None, all_users: bool, watch: bool, forget: int | None, name: str | None, as_json: bool) -> None:
    """Show your jobs, or one job with its processes.

    States are those of the Task Execution Service: QUEUED, INITIALIZING (a machine fetches what the process needs),
    RUNNING, COMPLETE, EXECUTOR_ERROR (your command has failed), SYSTEM_ERROR (machines have failed) and CANCELED. A job
    is kept for 14 days after its end.
    """
    at = JobsAt(one_joined(name))
    if forget is not None:
        at.forget(forget)
        click.echo(f"the job {forget} is forgotten")
        return
    found = _ask(at, number, all_users)
    _show(found, as_json)
    while watch and not (isinstance(found, dict) and found["state"] in OVER):
        time.sleep(_INTERVAL)
        try:
            now = _ask(at, number, all_users)
        except RecruitError as error:
            click.echo(f"phalanx: {printable(str(error))}", err=True)
            continue
        if now != found:
            if not as_json:
                click.echo(f"{datetime.now():%H:%M:%S}")
            _show(now, as_json)
        found = now


def _ask(at: JobsAt, number: int | None, all_users: bool) -> list[dict[str, Any]] | dict[str, Any]:
    if number is None:
        return [*at.jobs(all_users)]
    return {**at.job(number), "processes": [*at.processes(number)]}


def _show(found: list[dict[str, Any]] | dict[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(found))
    elif isinstance(found, list):
        _show_jobs(found)
    else:
        _show_processes(found)


def _show_jobs(found: list[dict[str, Any]]) -> None:
    table = Table("job", "state", "complete", "running", "waiting", "failed", "user", "submitted", "command")
    for job in found[:_MOST_SHOWN]:
        counts, all_processes = job["counts"], job["last"] - job["first"] + 1
        table.add_row(
            str(job["id"]),
            job["state"],
            f"{counts['complete']}/{all_processes}",
            str(counts["running"] or ""),
            str(counts["queued"] or ""),
            str(counts["failed"] + counts["lost"] + counts["canceled"] or ""),
            printable(job["user"]),
            _time(job["submitted"]),
            printable(job["name"] or " ".join(job["command"])),
        )
    console(_WIDTH).print(table, highlight=False, markup=False)
    if len(found) > _MOST_SHOWN:
        click.echo(f"and {len(found) - _MOST_SHOWN} older ones: phalanx jobs --json")


def _show_processes(job: dict[str, Any]) -> None:
    click.echo(printable(f"job {job['id']}: {job['state']} {job['why']}".rstrip()))
    table = Table("index", "state", "machine", "starts", "exit", "seconds", "CPU", "memory", "why")
    for process in job["processes"][:_MOST_SHOWN]:
        outcome = process["outcome"]
        table.add_row(
            str(process["index"]),
            process["state"],
            printable(process["executor"] or ""),
            str(process["attempts"] or ""),
            _exit(outcome["exit"]) if outcome else "",
            f"{(outcome['ended'] - outcome['began']) / 1000:.1f}" if outcome else "",
            f"{outcome['cpu'] / 1e6:.1f}" if outcome else "",
            in_bytes(outcome["memory"]) if outcome else "",
            printable(process["why"]),
        )
    console(_WIDTH).print(table, highlight=False, markup=False)
    if len(job["processes"]) > _MOST_SHOWN:
        click.echo(f"and {len(job['processes']) - _MOST_SHOWN} more: phalanx jobs {job['id']} --json")


def _exit(ended: Any) -> str:
    """The end of a run, in a word."""
    if isinstance(ended, str):
        return ended.lower()
    ((kind, value),) = ended.items()
    return str(value) if kind == "Code" else f"signal {value}" if kind == "Signal" else ""


def _time(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000):%Y-%m-%d %H:%M:%S}"
