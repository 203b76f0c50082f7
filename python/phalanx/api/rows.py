"""Jobs and their processes as clients see them."""

from __future__ import annotations

from typing import Any

from phalanx._jobs import STATES
from phalanx.tes.at_hub import bytes_of

#: The highest index of a process, and the highest number of a job.
MOST_INDEX, MOST_JOB = (1 << 31) - 1, (1 << 63) - 1


def job_of(row: dict[str, Any]) -> dict[str, Any]:
    """A job as clients see it.

    Parameters
    ----------
    row
        The job as the wire has it.

    Returns
    -------
    dict
    """
    names = ("id", "user", "name", "command", "first", "priority", "why", "counts")
    told = {name: row[name] for name in names}
    ended = row["ended"]
    times = {"submitted": row["submitted"] / 1000, "ended": None if ended is None else ended / 1000}
    return {**told, **times, "count": row["last"] - row["first"] + 1, "state": STATES[row["state"]]}


def process_of(row: dict[str, Any]) -> dict[str, Any]:
    """A process as clients see it.

    Parameters
    ----------
    row
        The process as the wire has it.

    Returns
    -------
    dict
    """
    told = {name: row[name] for name in ("index", "attempts", "losses", "why")}
    told |= {"state": STATES[row["state"]], "machine": row["executor"], "result": None}
    outcome = row["outcome"]
    if outcome is not None:
        told["result"] = {
            "exit": exit_of(outcome["exit"]),
            "began": outcome["began"] / 1000,
            "ended": outcome["ended"] / 1000,
            "processor_seconds": outcome["cpu"] / 1e6,
            "memory": outcome["memory"],
            "dropped": outcome["dropped"],
            "stdout": bytes_of(outcome["stdout"]),
            "stderr": bytes_of(outcome["stderr"]),
            "outputs": [
                {"name": it["name"], "bytes": bytes_of(it["content"]), "executable": it["executable"]}
                for it in outcome["outputs"]
            ],
        }
    return told


def exit_of(exit_: Any) -> dict[str, Any]:
    """How a process has ended: its exit status, or a signal, or why it has none.

    Parameters
    ----------
    exit_
        `Exit` of phalanx-core/src/wire/jobs.rs.

    Returns
    -------
    dict
        One of ``code``, ``signal`` and ``why``.
    """
    if exit_ == "Late":
        return {"why": "it took longer than its time limit"}
    ((kind, told),) = exit_.items()
    return {{"Code": "code", "Signal": "signal"}.get(kind, "why"): told}
