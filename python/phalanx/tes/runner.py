"""Runs the executors of a TES task on a machine of the grid, one after the other: ``python -m phalanx.tes.runner``.

It is the program of a job. It reads ``task.json`` in its folder, and writes ``log.json`` with the end of each executor.
The paths of the task exist already, because the job shows private folders at them. Its exit status is that of the task.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any
from urllib.request import urlopen

#: The files of the task and of the log, in the folder of the job.
TASK, LOG = "task.json", "log.json"
#: Bytes of the tail of each stream in the log.
TAIL = 16_384
#: Longest log, in bytes. A longer log leaves out the streams.
MOST_LOG = 16 << 20
#: Timeout of an input that sends no bytes, in seconds.
PATIENCE = 60
#: The exit status for a command that cannot run, as in a shell.
NOT_RUN = 127
#: The offset of a signal's number in the exit status, as in a shell.
BY_SIGNAL = 128
#: Seconds for which the streams of an ended executor are read, because what it has started may keep them open.
AFTER = 1.0
#: Bytes that are read at once.
AT_ONCE = 1 << 16


def main() -> int:
    """Runs the executors. Stops at the first that fails, unless it has ``ignore_error``.

    Returns
    -------
    int
        The exit status of the failed executor. 0: none has failed.
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
    """Fetches an input from the network, with the rights of the task only."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with urlopen(url, timeout=PATIENCE) as answer, path.open("wb") as file:
        shutil.copyfileobj(answer, file)


def _run(executor: dict[str, Any], folder: Path, number: int) -> dict[str, Any]:
    streams = {name: folder / f"{name}.{number}" for name in ("stdout", "stderr")}
    shown = {name: Path(executor.get(name) or file) for name, file in streams.items()}
    began = _now()
    try:
        with ExitStack() as opened:
            stdin = opened.enter_context(Path(executor.get("stdin") or os.devnull).open("rb"))
            named = {name: opened.enter_context(_created(shown[name])) for name in streams if executor.get(name)}
            process = subprocess.Popen(
                executor["command"],
                cwd=executor.get("workdir") or folder,
                env={**os.environ, **executor.get("env", {})},
                stdin=stdin,
                stdout=named.get("stdout", subprocess.PIPE),
                stderr=named.get("stderr", subprocess.PIPE),
            )
            copies = [_copying(getattr(process, name), name, streams[name]) for name in streams if name not in named]
            exit_code = process.wait()
            until = time.monotonic() + AFTER
            for copy in copies:
                copy.join(max(0.0, until - time.monotonic()))
    except OSError as error:
        exit_code, shown = NOT_RUN, streams
        streams["stderr"].write_text(f"{error}\n")
        print(error, file=sys.stderr, flush=True)
    exit_code = exit_code if exit_code >= 0 else BY_SIGNAL - exit_code
    log = {"start_time": began, "end_time": _now(), "exit_code": exit_code}
    for name, file in streams.items():
        log[name] = _tail(shown[name])
        file.unlink(missing_ok=True)
    return log


def _created(path: Path) -> IO[bytes]:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("wb")


def _copying(pipe: IO[bytes], name: str, file: Path) -> threading.Thread:
    """Copies a stream of an executor to a file, for its log, and to the job's own stream, which ``phalanx logs``
    shows."""
    to = getattr(sys, name).buffer

    def copy() -> None:
        with suppress(OSError), file.open("wb") as written:
            while piece := pipe.read1(AT_ONCE):  # type: ignore[attr-defined]
                written.write(piece)
                written.flush()
                to.write(piece)
                to.flush()

    thread = threading.Thread(target=copy, name=f"phalanx-{name}", daemon=True)
    thread.start()
    return thread


def _tail(file: Path) -> str:
    """The tail of a stream. It is empty if the file is not readable any more."""
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
