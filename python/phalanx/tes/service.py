"""The service behind the interface: it accepts tasks, runs each as a job, and delivers the outputs to their URLs."""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from fnmatch import fnmatchcase
from typing import Any, cast

from phalanx.errors import PhalanxError
from phalanx.tes import runner
from phalanx.tes.document import DocumentError, is_pattern, read_task
from phalanx.tes.files import FETCHED, Folders, scheme_of
from phalanx.tes.jobs import (
    LONGEST_PATH,
    MOST_OUTPUTS,
    MOST_SHOWN,
    NEEDED,
    PARAMETERS,
    ROOT,
    WHOLE,
    Job,
    Jobs,
    Progress,
    job_of,
    within,
)
from phalanx.tes.store import OVER, Kept, Store

#: Polling interval of tasks that have not ended, in seconds.
_LOOK = 0.25
#: Exponential backoff of a failed step of a task: the first and the longest pause, in seconds.
_AGAIN, _LONGEST = 0.5, 30.0
#: Timeout of a task whose steps keep failing, in seconds.
_GIVEN_UP = 3600.0
#: Users that are served at a time. So a large file of one user does not block the others.
_WORKERS = 4
#: Interval at which old tasks are removed, in seconds.
_FORGET = 3600.0
#: Default and largest number of tasks in an answer.
PAGE, MOST_PAGE = 256, 2047
#: Tasks per read of the store, and characters after which a page ends.
_AT_ONCE, _LONGEST_PAGE = 16, 16 << 20


class UnknownTask(PhalanxError):
    """The user has no task of this id."""


class Service:
    """Accepts and runs tasks of users.

    Parameters
    ----------
    jobs
        The queue of jobs that run the tasks.
    store
        The store of the tasks.
    folders
        The served folders of this machine, which tasks may name.
    """

    def __init__(self, jobs: Jobs, store: Store, folders: Folders) -> None:
        self._jobs, self._store, self._folders = jobs, store, folders
        self._ends = threading.Event()
        self._news = threading.Event()
        #: For each failing task: the time of the next attempt, the latest pause, and the time of the first failure.
        self._later: dict[str, tuple[float, float, float]] = {}
        self._busy: set[str] = set()
        self._workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="phalanx-tes")
        self._thread = threading.Thread(target=self._look_after, name="phalanx-tes", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the service. Jobs continue. The next service with the same store follows them."""
        self._ends.set()
        self._news.set()
        self._thread.join()
        self._workers.shutdown()
        self._store.close()
        self._folders.close()

    def create(self, user: str, text: bytes) -> str:
        """Accepts a task. It is on the disk when this returns.

        Parameters
        ----------
        user
            The user of the task.
        text
            The JSON document.

        Returns
        -------
        str
            Its id.

        Raises
        ------
        DocumentError
            The document is not a valid task, or names something that does not exist.
        """
        task = read_task(text)
        self._check_parameters(task)
        self._folders.check(task)
        _check_job(job_of(task), task)
        kept = self._store.add(secrets.token_hex(8), user, task)
        self._news.set()
        return kept.id

    def cancel(self, user: str, id_: str) -> None:
        """Cancels a task, unless it has ended.

        Parameters
        ----------
        user
            The user of the task.
        id_
            Its id.
        """
        kept = self._found(user, id_)
        if kept.state in OVER:
            return
        if kept.job is not None:
            self._jobs.cancel(user, kept.job)
        self._store.change(kept, "CANCELED", {**kept.log, "end_time": _time(time.time())})

    def show(self, user: str, id_: str, view: str) -> dict[str, Any]:
        """A task.

        Parameters
        ----------
        user
            The user of the task.
        id_
            Its id.
        view
            ``MINIMAL``, ``BASIC`` or ``FULL``.

        Returns
        -------
        dict
        """
        return _viewed(self._found(user, id_), view)

    def tasks(
        self,
        user: str,
        view: str,
        *,
        before: int | None = None,
        size: int = PAGE,
        name_prefix: str = "",
        state: str | None = None,
        tags: dict[str, str] | None = None,
    ) -> tuple[list[dict[str, Any]], int | None]:
        """A page of a user's tasks, the newest first.

        Parameters
        ----------
        user
            The user of the tasks.
        view
            ``MINIMAL``, ``BASIC`` or ``FULL``.
        before
            The end of the previous page.
        size
            The largest number of tasks of a page.
        name_prefix
            The prefix of their names.
        state
            Their state.
        tags
            Tags that they have. A tag with an empty value matches any value.

        Returns
        -------
        tuple
            The tasks, and the end of this page. None: there are no more tasks.
        """
        found: list[dict[str, Any]] = []
        length = 0
        while True:
            page = self._store.page(user, before, _AT_ONCE)
            for kept in page:
                if len(found) == size or length > _LONGEST_PAGE:
                    return found, before
                before = kept.number
                if _matches(kept, name_prefix, state, tags or {}):
                    found.append(_viewed(kept, view))
                    length += len(json.dumps(found[-1]))
            if len(page) < _AT_ONCE:
                return found, None

    def _found(self, user: str, id_: str) -> Kept:
        kept = self._store.get(user, id_)
        if kept is None:
            raise UnknownTask(f"you have no task {id_}")
        return kept

    @staticmethod
    def _check_parameters(task: dict[str, Any]) -> None:
        """Removes unknown backend parameters. Raises DocumentError instead if the client has set
        ``backend_parameters_strict``."""
        resources = task["resources"]
        parameters = resources.get("backend_parameters", {})
        unknown = sorted(name for name in parameters if name.lower() not in PARAMETERS)
        if unknown and resources.get("backend_parameters_strict"):
            raise DocumentError(f"resources.backend_parameters: {', '.join(unknown)} is not known here")
        for name in unknown:
            del parameters[name]

    def _look_after(self) -> None:
        forgotten = 0.0
        while not self._ends.is_set():
            self._news.clear()
            if time.monotonic() - forgotten >= _FORGET:
                forgotten = time.monotonic()
                self._store.forget()
            for user, tasks in self._store.open().items():
                if user not in self._busy and not self._ends.is_set():
                    self._busy.add(user)
                    self._workers.submit(self._look_after_user, user, tasks)
            self._news.wait(_LOOK)

    def _look_after_user(self, user: str, tasks: list[str]) -> None:
        """Advances the tasks of a user, one after the other."""
        try:
            for id_ in tasks:
                due, *_ = self._later.get(id_, (0.0,))
                if self._ends.is_set():
                    return
                if due <= time.monotonic() and (kept := self._store.get(user, id_)) is not None:
                    self._go_on(kept)
        finally:
            self._busy.discard(user)

    def _go_on(self, kept: Kept) -> None:
        """One step of a task. An error in the task ends it. After any other error, the step is retried."""
        try:
            if kept.job is None:
                self._submit(kept)
            else:
                self._follow(kept, self._jobs.progress(kept.user, kept.job))
            self._later.pop(kept.id, None)
        except (DocumentError, ValueError, IsADirectoryError, NotADirectoryError) as error:
            self._end(kept, "SYSTEM_ERROR", Progress("SYSTEM_ERROR", str(error)), {})
        except Exception as error:  # no error of one task may end the service for the others
            now = time.monotonic()
            _, last, since = self._later.get(kept.id, (0.0, _AGAIN / 2, now))
            if now - since > _GIVEN_UP:
                self._end(kept, "SYSTEM_ERROR", Progress("SYSTEM_ERROR", f"{type(error).__name__}: {error}"), {})
                self._later.pop(kept.id, None)
                return
            pause = min(2 * last, _LONGEST)
            self._later[kept.id] = now + pause, pause, since
            logs = [*kept.log.get("system_logs", [])[-9:], f"{type(error).__name__}: {error}; it is tried again"]
            self._store.change(kept, kept.state, {**kept.log, "system_logs": logs})

    def _submit(self, kept: Kept) -> None:
        job = job_of(kept.document)
        key = hashlib.sha256(kept.id.encode()).digest()[:16]
        name = kept.document.get("name") or kept.id
        number = self._jobs.submit(kept.user, name, key, job, self._inputs(kept.document))
        if not self._store.change(kept, "QUEUED", kept.log, number):
            self._jobs.cancel(kept.user, number)  # the task was canceled meanwhile

    def _inputs(self, task: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        fetched = [
            {"url": entry["url"], "path": entry["path"]}
            for entry in task["inputs"]
            if "url" in entry and scheme_of(entry["url"]) in FETCHED
        ]
        folders = [*task["volumes"], *(entry["path"] for entry in task["outputs"] if entry["type"] == "DIRECTORY")]
        described = {"executors": task["executors"], "fetched": fetched, "folders": folders}
        yield runner.TASK, json.dumps(described).encode()
        yield from self._folders.inputs(task)

    def _follow(self, kept: Kept, progress: Progress) -> None:
        if progress.state not in OVER:
            log = {**kept.log, **_times(progress)}
            if (progress.state, log) != (kept.state, kept.log):
                self._store.change(kept, progress.state, log)
            return
        executors = self._logs(kept, progress)
        outputs = self._deliver(kept, progress) if progress.state == "COMPLETE" else []
        self._end(kept, progress.state, progress, {"logs": executors, "outputs": outputs})

    def _logs(self, kept: Kept, progress: Progress) -> list[dict[str, Any]]:
        """The runner's logs of the executors. The result is checked, because the task can overwrite the file."""
        if not 0 < progress.files.get(runner.LOG, 0) <= runner.MOST_LOG:
            return []
        try:
            found = json.loads(b"".join(self._jobs.read(kept.user, cast(str, kept.job), runner.LOG)))
        except (ValueError, RecursionError):
            return []
        are_logs = isinstance(found, list) and all(isinstance(it, dict) for it in found)
        return found if are_logs else []

    def _deliver(self, kept: Kept, progress: Progress) -> list[dict[str, Any]]:
        """Writes the outputs to their URLs."""
        delivered = []
        for output in kept.document["outputs"]:
            found = [name for name in progress.files if _belongs(name, output)]
            if not found and output["type"] == "FILE" and not is_pattern(output["path"]):
                raise DocumentError(f"the task has not made its output {output['path']}")
            for name in found:
                path = name.removeprefix(ROOT)
                pieces = self._jobs.read(kept.user, cast(str, kept.job), name)
                url = self._folders.write(output, path, pieces)
                delivered.append({"url": url, "path": path, "size_bytes": str(progress.files[name])})
        return delivered

    def _end(self, kept: Kept, state: str, progress: Progress, found: dict[str, Any]) -> None:
        why = [progress.why] if progress.why else []
        logs = [*kept.log.get("system_logs", []), *why]
        self._store.change(kept, state, {**kept.log, **_times(progress), **found, "system_logs": logs})


def _check_job(job: Job, task: dict[str, Any]) -> None:
    """Checks the limits of a hub, so that the client gets the error at once."""
    if len(job.outputs) > MOST_OUTPUTS:
        raise DocumentError(f"outputs: there are {len(task['outputs'])}, and may be {MOST_OUTPUTS - 1}")
    if len(job.shown) > MOST_SHOWN:
        raise DocumentError(f"the task names paths in {len(job.shown)} folders, and may in {MOST_SHOWN}")
    for path in [*job.shown, *task["volumes"], *(entry["path"] for entry in [*task["inputs"], *task["outputs"]])]:
        if "\\" in path or len(path.encode()) > LONGEST_PATH:
            raise DocumentError(f"{path!r:.200}: a path has at most {LONGEST_PATH} bytes, and no backslash")
    for path in job.shown:
        if path in NEEDED or any(path == it or path.startswith(f"{it}/") for it in WHOLE):
            raise DocumentError(f"{path} is needed by programs, and cannot be a task's own: use one like /data")


def _belongs(name: str, output: dict[str, Any]) -> bool:
    """Whether a file of a job belongs to an output."""
    wanted = within(output["path"])
    if output["type"] == "DIRECTORY":
        return name.startswith(f"{wanted}/")
    return name == wanted or (is_pattern(wanted) and name.count("/") == wanted.count("/") and fnmatchcase(name, wanted))


def _matches(kept: Kept, name_prefix: str, state: str | None, tags: dict[str, str]) -> bool:
    own = kept.document["tags"]
    has_tags = all(key in own and value in ("", own[key]) for key, value in tags.items())
    return has_tags and state in (None, kept.state) and kept.document.get("name", "").startswith(name_prefix)


def _times(progress: Progress) -> dict[str, Any]:
    times = {"start_time": progress.began, "end_time": progress.ended}
    told: dict[str, Any] = {name: _time(seconds) for name, seconds in times.items() if seconds}
    return {**told, "metadata": {"machine": progress.machine}} if progress.machine else told


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat()


def _viewed(kept: Kept, view: str) -> dict[str, Any]:
    if view == "MINIMAL":
        return {"id": kept.id, "state": kept.state}
    log = {"logs": [], "outputs": [], **kept.log}
    document = _without_empty(kept.document)
    task = {"id": kept.id, "state": kept.state, **document, "creation_time": _time(kept.created), "logs": [log]}
    if view == "BASIC":
        log.pop("system_logs", None)
        log["logs"] = [{**it, "stdout": None, "stderr": None} for it in log["logs"]]
        log["logs"] = [{name: value for name, value in it.items() if value is not None} for it in log["logs"]]
        inputs = document.get("inputs", [])
        task |= {"inputs": [{name: it[name] for name in it if name != "content"} for it in inputs]} if inputs else {}
    return task


def _without_empty(value: Any) -> Any:
    """A document without its empty fields, because older clients refuse fields that they do not know."""
    if isinstance(value, dict):
        return {name: _without_empty(item) for name, item in value.items() if item not in ([], {})}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value
