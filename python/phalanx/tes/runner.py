"""Runs the executors of a TES task on a machine of the grid, one after the other: ``python -m phalanx.tes.runner``.

It is the program of a job. It finds ``task.json`` in its folder, and writes ``log.json``, which says how each executor
has ended. Paths of the task are there already: the job shows folders of its own at them. Its exit status is that of the
task.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any
from urllib.request import urlopen

#: Where the task is, and the log, in the folder of the job.
TASK, LOG = "task.json", "log.json"
#: Most bytes of the end of a stream in the log.
TAIL = 16_384
#: Most bytes of the log. Without that, streams are left out.
MOST_LOG = 16 << 20
#: Seconds without a byte after which an input is given up.
PATIENCE = 60
#: The exit status of a command that cannot be run, as a shell has it.
NOT_RUN = 127
#: The exit status of a command that a signal has ended is its number and this.
BY_SIGNAL = 128


def main() -> int:
    """Runs the executors. Stops at the first that fails, unless it says that its errors are to be ignored.

    Returns
    -------
    int
        The exit status of the executor that has failed; 0: none has.
    """
    folder = Path.cwd()
    task = json.loads((folder / TASK).read_bytes())
    for path in task["folders"]:
        Path(path).mkdir(parents=True, exist_ok=True)
    for entry in task["fetched"]:
        _fetch(entry["url"], Path(entry["path"]))
    logs: list[dict[str, Any]] = []
    failed = 0
    for number, executor in enumerate(task["executors"]):
        logs.append(_run(executor, folder, number))
        _write(folder / LOG, logs)
        if logs[-1]["exit_code"] and not executor.get("ignore_error"):
            failed = logs[-1]["exit_code"]
            break
    return failed


def _fetch(url: str, path: Path) -> None:
    """Reads an input from the network, with no more rights than the task has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with urlopen(url, timeout=PATIENCE) as answer, path.open("wb") as file:
        shutil.copyfileobj(answer, file)


def _run(executor: dict[str, Any], folder: Path, number: int) -> dict[str, Any]:
    streams = {name: folder / f"{name}.{number}" for name in ("stdout", "stderr")}
    began = _now()
    try:
        with ExitStack() as opened:
            stdin = opened.enter_context(Path(executor.get("stdin") or os.devnull).open("rb"))
            out, error = (opened.enter_context(_created(executor, name, streams[name])) for name in streams)
            exit_code = subprocess.run(
                executor["command"],
                cwd=executor.get("workdir") or folder,
                env={**os.environ, **executor.get("env", {})},
                stdin=stdin,
                stdout=out,
                stderr=error,
                check=False,
            ).returncode
    except OSError as error:
        exit_code, words = NOT_RUN, f"{error}\n"
        streams["stderr"].write_text(words)
    exit_code = exit_code if exit_code >= 0 else BY_SIGNAL - exit_code
    log = {"start_time": began, "end_time": _now(), "exit_code": exit_code}
    for name, file in streams.items():
        log[name] = _tail(Path(executor.get(name) or file) if exit_code != NOT_RUN else file)
        file.unlink(missing_ok=True)
    return log


def _created(executor: dict[str, Any], name: str, file: Path) -> IO[bytes]:
    path = Path(executor[name]) if executor.get(name) else file
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("wb")


def _tail(file: Path) -> str:
    """The end of what a command has written; nothing, if it is no plain file any more."""
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, file.stat().st_size - TAIL))
            return opened.read(TAIL).decode("utf-8", errors="replace")
    except OSError:
        return ""


def _write(file: Path, logs: list[dict[str, Any]]) -> None:
    written = file.with_suffix(".new")
    text = json.dumps(logs)
    if len(text) > MOST_LOG:
        text = json.dumps([{name: log[name] for name in log if name not in ("stdout", "stderr")} for log in logs])
    written.write_text(text)
    written.replace(file)


def _now() -> str:
    return datetime.now(timezone.utc).isoformat()


if __name__ == "__main__":
    sys.exit(main())
