"""Commands that answer as those of PBS Pro and LSF do, and run each submitted script as a process of this machine.

``python batch_commands.py NAME ARGUMENT…`` is the command NAME. Its jobs are files in the folder ``BATCH_JOBS``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

JOBS = Path(os.environ["BATCH_JOBS"])


def submit(script: str, variable: str, suffix: str) -> str:
    """Runs a script in a session of its own, and keeps a copy of it."""
    name = f"{len([*JOBS.glob('*.pid')]) + 1}{suffix}"
    (JOBS / f"{name}.script").write_text(Path(script).read_text())
    quiet = subprocess.DEVNULL
    words = ["/bin/bash", str(JOBS / f"{name}.script")]
    environment = {**os.environ, variable: name}
    process = subprocess.Popen(words, stdin=quiet, stdout=quiet, stderr=quiet, env=environment, start_new_session=True)
    (JOBS / f"{name}.pid").write_text(str(process.pid))
    return name


def runs(name: str) -> bool:
    try:
        state = Path("/proc", (JOBS / f"{name}.pid").read_text(), "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def end(name: str) -> None:
    with suppress(ProcessLookupError):
        os.killpg(int((JOBS / f"{name}.pid").read_text()), signal.SIGTERM)


def main(command: str, words: list[str]) -> None:
    if command == "qsub":
        print(submit(words[0], "PBS_JOBID", ".pbs"))
    elif command == "bsub":
        print(f"Job <{submit(words[0], 'LSB_JOBID', '')}> is submitted to queue <work>.")
    elif command == "qdel":
        end(words[0])
    elif command == "bkill":
        end(words[0])
        print(f"Job <{words[0]}> is being terminated")
    elif command == "qstat":
        names = words[words.index("-x") + 1 :]
        jobs = {
            it: {"job_state": "R"} if runs(it) else {"job_state": "F", "Exit_status": 0, "comment": "Job finished"}
            for it in names
        }
        print(json.dumps({"timestamp": 1, "pbs_version": "23.06.06", "pbs_server": "here", "Jobs": jobs}))
    elif command == "bjobs":
        names = words[words.index("-a") + 1 :]
        reasons = {"EXIT_REASON": "", "KILL_REASON": "", "SUSPEND_REASON": ""}
        records = [{"JOBID": it, "STAT": "RUN" if runs(it) else "DONE", **reasons} for it in names]
        print(json.dumps({"COMMAND": "bjobs", "JOBS": len(records), "RECORDS": records}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
