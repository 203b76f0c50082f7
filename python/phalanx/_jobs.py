"""Jobs at the hub of a joined grid, for the command line and :class:`phalanx.Grid`."""

from __future__ import annotations

import json
import os
import posixpath
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from phalanx import _native
from phalanx._grids import Joined, dialler_of
from phalanx.errors import ContractError, RecruitError, TransferError

#: States on the wire, and their words in TES.
STATES = {
    "Queued": "QUEUED",
    "Initializing": "INITIALIZING",
    "Running": "RUNNING",
    "Complete": "COMPLETE",
    "ExecutorError": "EXECUTOR_ERROR",
    "SystemError": "SYSTEM_ERROR",
    "Canceled": "CANCELED",
}
#: The final states.
OVER = ("COMPLETE", "EXECUTOR_ERROR", "SYSTEM_ERROR", "CANCELED")
#: Most files of a job: `MOST_FILES` in phalanx-core/src/wire/jobs.rs.
MOST_FILES = 1000
#: Backoff of polling a job: the first and the longest pause, in seconds.
_PAUSES = (0.05, 1.0)
#: Commands of phalanx that launch programs of several processes.
_LAUNCHERS = ("mpirun", "bsprun")
#: Interpreters, whose first argument is a script.
_RUNNERS = ("python", "python3", "sh", "bash", "perl", "ruby", "Rscript", "julia", "node")

Files = list[tuple[str | os.PathLike[str], str, bool]]


class JobsAt:
    """Requests about jobs to the hub of a grid.

    Parameters
    ----------
    joined : Joined
        The grid.
    """

    def __init__(self, joined: Joined) -> None:
        self._native = _native.JobsAtHub(*dialler_of(joined))

    def submit(self, spec: dict[str, Any], files: Files) -> int:
        """Submits a job with files: for each, its local path, its name in the job, and whether it is executable.
        Returns the number of the job."""
        return self._native.submit(
            _as_json(spec), [(path, _utf8(name), executable) for path, name, executable in files]
        )

    def jobs(self, all_users: bool = False) -> Iterator[dict[str, Any]]:
        """The jobs, the newest first."""
        before, goes_on = None, True
        while goes_on:
            answer = self._ask("List", before=before, all=all_users)
            yield from map(_job, answer["rows"])
            goes_on = answer["goes_on"] and bool(answer["rows"])
            before = answer["rows"][-1]["id"] if answer["rows"] else None

    def job(self, number: int) -> dict[str, Any]:
        """One job, with its specification as ``spec``."""
        answer = self._ask("Show", job=number)
        return {**_job(answer["row"]), "spec": answer["spec"]}

    def processes(self, number: int) -> Iterator[dict[str, Any]]:
        """The processes of a job, in the order of their indices."""
        after, goes_on = None, True
        while goes_on:
            answer = self._ask("Processes", job=number, after=after)
            yield from map(_process, answer["rows"])
            goes_on = answer["goes_on"] and bool(answer["rows"])
            after = answer["rows"][-1]["index"] if answer["rows"] else None

    def cancel(self, number: int, index: int | None = None) -> int:
        """Cancels a job, or one process of it. Returns the number of canceled processes."""
        return int(self._ask("Cancel", job=number, index=index)["processes"])

    def forget(self, number: int) -> None:
        """Forgets an ended job, with its outputs."""
        self._ask("Forget", job=number)

    def wait(self, number: int, tell: Callable[[dict[str, Any]], None] = lambda _: None) -> dict[str, Any]:
        """Waits until a job has ended. Returns the job. Retries while the hub is away. ``tell`` gets the job whenever
        the hub answers."""
        pause = _PAUSES[0]
        while True:
            try:
                job = self.job(number)
            except RecruitError:
                job = None
            if job is not None:
                tell(job)
            if job is not None and job["state"] in OVER:
                return job
            time.sleep(pause)
            pause = min(pause * 1.5, _PAUSES[1])

    def log(self, number: int, index: int, is_error: bool, start: int) -> tuple[bytes | dict[str, Any], str]:
        """The log of a process from the byte ``start`` on, and a word: ``part``, ``not yet``, ``nothing``; or ``all``
        with a content."""
        found, word = self._native.log(number, index, is_error, start)
        return (json.loads(found) if word == "all" else found), word

    def fetch(self, user: str, content: dict[str, Any], path: Path, executable: bool = False) -> None:
        """Fetches a content of a user's job into a file."""
        self._native.fetch(user, json.dumps(content), path, executable)

    def _ask(self, what: str, **request: Any) -> Any:
        answer = json.loads(self._native.ask(_as_json({what: request})))
        return answer if isinstance(answer, str) else next(iter(answer.values()))


def get(at: JobsAt, number: int, folder: Path) -> int:
    """Writes the outputs and logs of a job into a folder. Each process of an array gets a subfolder, named by its
    index.

    Returns
    -------
    int
        The number of written files.

    Raises
    ------
    TransferError
        The name of an output, or a symbolic link in the folder, leads out of the folder.
    """
    job = at.job(number)
    written = 0
    for process in at.processes(number):
        if process["outcome"] is None:
            continue
        own = folder if job["first"] == job["last"] else folder / str(process["index"])
        outcome = process["outcome"]
        names = {output["name"] for output in outcome["outputs"]}
        logs = [
            {"name": name, "content": outcome[stream], "executable": False}
            for stream, name in (("stdout", "stdout.log"), ("stderr", "stderr.log"))
            if name not in names
        ]
        for output in [*outcome["outputs"], *logs]:
            path = own / _inside(output["name"])
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.parent.resolve().is_relative_to(folder.resolve()):
                raise TransferError(f"{path.parent} leads out of {folder}: a symbolic link is in the way")
            at.fetch(job["user"], output["content"], path, output["executable"])
            written += 1
    return written


def _inside(name: str) -> str:
    """Checks the name of an output, which comes from another machine."""
    parts = name.split("/")
    if name.startswith("/") or any(part in ("", ".", "..") for part in parts) or "\0" in name:
        raise TransferError(f"the machine tells an output {name!r:.80}, which leads out of the folder: it is not taken")
    return name


def program_and_files(words: list[str], paths: tuple[Path, ...]) -> tuple[list[str], Files]:
    """The words of a command as the machine runs them, and the files to send. These are the program, if it has a
    relative path; the script of an interpreter like python; files with relative paths after ``phalanx mpirun`` and
    ``bsprun``; and the paths of ``--files``.

    Raises
    ------
    ContractError
        A file does not exist, two have one name, there are too many, or a folder has none or a symbolic link.
    """
    files: dict[str, tuple[Path, bool]] = {}
    for path in paths:
        _add(files, path)
    first = words[0]
    if "/" in first and not first.startswith("/"):
        program = Path(first)
        if not program.is_file():
            raise ContractError(f"the program {first} is not found here")
        _put(files, _name(program), program, executable=True)
        words = [f"./{_name(program)}", *words[1:]]
    elif first in _RUNNERS and len(words) > 1 and not words[1].startswith(("-", "/")) and Path(words[1]).is_file():
        script = Path(words[1])
        _put(files, _name(script), script)
        words = [first, _name(script), *words[2:]]
    elif first == "phalanx" and words[1:2] and words[1] in _LAUNCHERS:
        words = [*words[:2], *(_along(files, word) for word in words[2:])]
    if len(files) > MOST_FILES:
        raise ContractError(f"a job has at most {MOST_FILES} files: put them into an archive")
    return words, [(path, name, executable) for name, (path, executable) in files.items()]


def _along(files: dict[str, tuple[Path, bool]], word: str) -> str:
    """A word of a launcher as the machine runs it. A file with a relative path is added: a program, a script, or data.
    The position of the program depends on the options before it, so that every named file is added."""
    path = Path(word)
    if word.startswith(("-", "/")) or not path.is_file():
        return word
    _add(files, path)
    return f"./{_name(path)}" if "/" in word else word


def _add(files: dict[str, tuple[Path, bool]], path: Path) -> None:
    """Adds a file, or all files of a folder. A symbolic link is followed only if the user has named it itself: inside
    of a folder, it may lead to files that the user does not mean to send."""
    if path.is_file():
        _put(files, _name(path), path)
        return
    if not path.is_dir():
        raise ContractError(f"{path} is no file and no folder")
    inside = [*_inside_of(path)]
    if not inside:
        raise ContractError(f"the folder {path} has no files, and empty folders are not sent: let the command make it")
    for file in inside:
        _put(files, posixpath.normpath(f"{_name(path)}/{file.relative_to(path).as_posix()}"), file)


def _inside_of(top: Path) -> Iterator[Path]:
    """The files of a folder, in the order of their names."""
    count = 0
    for folder, folders, names in os.walk(top):
        folders.sort()
        for path in sorted(Path(folder, name) for name in [*folders, *names]):
            if path.is_symlink():
                raise ContractError(
                    f"{path} is a symbolic link, and none is followed inside of a folder: put a copy of the file in "
                    "its place, or leave it out"
                )
            if path.is_dir():
                continue
            if not path.is_file():
                raise ContractError(f"{path} is no file and no folder")
            count += 1
            if count > MOST_FILES:
                raise ContractError(f"{top} has more than {MOST_FILES} files: put them into an archive")
            yield path


def _put(files: dict[str, tuple[Path, bool]], name: str, path: Path, *, executable: bool = False) -> None:
    """Adds a file under its name in the job. Raises ContractError if another file has that name."""
    executable = executable or bool(path.stat().st_mode & stat.S_IXUSR)
    other, was_executable = files.get(name, (path, False))
    if not other.samefile(path):
        raise ContractError(
            f"{other} and {path} would both be {name} in the job: rename one, or send a folder with both"
        )
    files[name] = other, executable or was_executable


def _name(path: Path) -> str:
    """The name of a file or folder in the folder of a process: its relative path, or its last part if the path is
    absolute or leads out."""
    name = posixpath.normpath(path.as_posix())
    if name != ".." and not name.startswith(("/", "../")):
        return name
    last = posixpath.basename(name)
    return path.resolve().name if last in ("", "..") else last


def _as_json(told: object) -> str:
    """JSON for the hub. Raises ContractError for text that is not UTF-8, such as a word of a command line."""
    return _utf8(json.dumps(told, ensure_ascii=False))


def _utf8(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        begin, end = text.rfind('"', 0, error.start) + 1, text.find('"', error.end)  # the word in JSON
        word = text[begin : end if end > 0 else None].encode("utf-8", "backslashreplace").decode()
        raise ContractError(
            f"'{word:.200}' is not UTF-8, as all words, names and variables of a job must be: rename it, or write it "
            "into a script"
        ) from None
    return text


def _job(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "state": STATES[row["state"]]}


def _process(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "state": STATES[row["state"]]}


def here(content: dict[str, Any]) -> bytes | None:
    """The inline bytes of a content. None: the hub keeps them."""
    return bytes(content["Here"]) if "Here" in content else None
