"""``phalanx jobs``: the states and results of jobs."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import Any

import click

from phalanx._grids import one_joined
from phalanx._jobs import OVER, JobsAt
from phalanx.cli._console import print_narrow
from phalanx.cli._examples import examples
from phalanx.cli._joined import JOINED
from phalanx.cli._numbers import in_bytes
from phalanx.cli._processes import JOB
from phalanx.cli._streams import printable
from phalanx.errors import RecruitError

#: Polling interval of ``--watch``, in seconds.
_INTERVAL = 1.0
#: Width of a table without a terminal, in columns.
_WIDTH = 120
#: Most jobs and processes in a table.
_MOST_SHOWN = 200
#: The columns of a table of jobs; those that are left out if they are empty; those that are never cut.
_HEADERS = ("job", "state", "complete", "running", "waiting", "failed", "user", "submitted", "command")
_OPTIONAL = ("running", "waiting", "failed")
_WHOLE = _HEADERS[:-1]
#: The columns of a table of processes.
_PROCESS = ("index", "state", "machine", "starts", "exit", "seconds", "CPU", "memory", "why")


@click.command(
    epilog=examples("phalanx jobs", "phalanx jobs 12 --watch", "phalanx jobs --json", "phalanx jobs --forget 12")
)
@click.argument("number", metavar="[JOB]", type=JOB, required=False)
@click.option("--all", "all_users", is_flag=True, help="The jobs of all users, for owners of the grid.")
@click.option("--watch", is_flag=True, help="Show again what has changed, until the job has ended or until Ctrl-C.")
@click.option("--forget", type=JOB, metavar="JOB", help="Forget a job that has ended, with its outputs and logs.")
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
    _show(found, as_json, all_users)
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
            _show(now, as_json, all_users)
        found = now


def _ask(at: JobsAt, number: int | None, all_users: bool) -> list[dict[str, Any]] | dict[str, Any]:
    if number is None:
        return [*at.jobs(all_users)]
    return {**at.job(number), "processes": [*at.processes(number)]}


def _show(found: list[dict[str, Any]] | dict[str, Any], as_json: bool, all_users: bool) -> None:
    if as_json:
        click.echo(json.dumps(found))
    elif isinstance(found, list):
        _show_jobs(found, all_users)
    else:
        _show_processes(found)


def _show_jobs(found: list[dict[str, Any]], all_users: bool) -> None:
    shown = found[:_MOST_SHOWN]
    rows = [_row(job) for job in shown]
    headers = [header for header in _HEADERS if header not in _OPTIONAL or any(row[header] for row in rows)]
    if not all_users:
        headers.remove("user")
    print_narrow(headers, rows, _WIDTH, whole=_WHOLE, cut="command")
    if len(found) > _MOST_SHOWN:
        click.echo(f"and {len(found) - _MOST_SHOWN} older ones: phalanx jobs --json")


def _row(job: dict[str, Any]) -> dict[str, str]:
    """The cells of a job, by their headers."""
    counts, all_processes = job["counts"], job["last"] - job["first"] + 1
    return {
        "job": str(job["id"]),
        "state": job["state"],
        "complete": f"{counts['complete']}/{all_processes}",
        "running": str(counts["running"] or ""),
        "waiting": str(counts["queued"] or ""),
        "failed": str(counts["failed"] + counts["lost"] + counts["canceled"] or ""),
        "user": printable(job["user"]),
        "submitted": _time(job["submitted"]),
        "command": printable(job["name"] or " ".join(job["command"])),
    }


def _show_processes(job: dict[str, Any]) -> None:
    click.echo(printable(f"job {job['id']}: {job['state']} {job['why']}".rstrip()))
    rows = [_process_row(process) for process in job["processes"][:_MOST_SHOWN]]
    print_narrow(_PROCESS, rows, _WIDTH, whole=_PROCESS[:6], spare=("memory", "CPU"))
    if len(job["processes"]) > _MOST_SHOWN:
        click.echo(f"and {len(job['processes']) - _MOST_SHOWN} more: phalanx jobs {job['id']} --json")


def _process_row(process: dict[str, Any]) -> dict[str, str]:
    """The cells of a process, by their headers."""
    outcome = process["outcome"]
    cells = (
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
    return dict(zip(_PROCESS, cells, strict=True))


def _exit(ended: Any) -> str:
    """The end of a run, in a word."""
    if isinstance(ended, str):
        return ended.lower()
    ((kind, value),) = ended.items()
    return str(value) if kind == "Code" else f"signal {value}" if kind == "Signal" else ""


def _time(milliseconds: int) -> str:
    """A time as short as it is clear: of another year without the hour."""
    time = datetime.fromtimestamp(milliseconds / 1000)
    return f"{time:%m-%d %H:%M}" if time.year == datetime.now().year else f"{time:%Y-%m-%d}"
