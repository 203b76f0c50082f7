"""Jobs over HTTP: submit, list, show, cancel, forget, and outputs."""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
import time
from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from phalanx._jobs import STATES
from phalanx.api.fields import Fields, encodable, items, read_json, text, whole
from phalanx.api.files import Served
from phalanx.api.ranges import send
from phalanx.api.refusals import Refused
from phalanx.api.users import Users
from phalanx.errors import ContractError
from phalanx.tes.at_hub import AtHub, bytes_of
from phalanx.tes.files import Opened

#: The bounds of a hub: phalanx-core/src/jobs/check.rs.
_MOST_COUNT, _MOST_PLACES, _MOST_RETRIES, _HIGHEST = 100_000, 4096, 100, 1000
_YEAR = 365 * 24 * 3600
#: The highest index of a process, and the highest number of a job.
_MOST_INDEX, _MOST_JOB = (1 << 31) - 1, (1 << 63) - 1
_MOST_MEMORY, _MOST_CORES = 1 << 50, 1 << 20


class JobRoutes:
    """The jobs of users with tokens.

    Parameters
    ----------
    users
        Who asks.
    hub
        The queue.
    served
        The files that jobs may name.
    """

    def __init__(self, users: Users, hub: AtHub, served: Served) -> None:
        self._users, self._hub, self._served = users, hub, served

    def routes(self) -> list[Route]:
        """What is served.

        Returns
        -------
        list of Route
        """
        of = self._users.of
        process = "/jobs/{job}/processes/{index}"
        return [
            Route("/jobs", of(self.list), methods=["GET"]),
            Route("/jobs", of(self.submit), methods=["POST"]),
            Route("/jobs/{job}", of(self.show), methods=["GET"]),
            Route("/jobs/{job}", of(self.forget), methods=["DELETE"]),
            Route("/jobs/{job}/cancel", of(self.cancel), methods=["POST"]),
            Route("/jobs/{job}/processes", of(self.processes), methods=["GET"]),
            Route(process, of(self.process), methods=["GET"]),
            Route(f"{process}/outputs/{{name:path}}", of(self.output), methods=["GET", "HEAD"]),
        ]

    async def submit(self, request: Request, user: str) -> Response:
        """Takes a job. It is on the hub's disk when the answer comes."""
        read = await read_json(request)
        job = await run_in_threadpool(lambda: self._hub.ask(user, "Submit", spec=self._spec(user, read))["job"])
        return JSONResponse({"id": job}, 201, {"location": f"{request.url.path}/{job}"})

    async def list(self, request: Request, user: str) -> Response:
        """A page of the user's jobs, the newest first."""
        before = number_in(request, "before", None, _MOST_JOB)
        page = await run_in_threadpool(lambda: self._hub.ask(user, "List", before=before, all=False))
        rows = page["rows"]
        goes_on = page["goes_on"] and rows
        return JSONResponse({"jobs": [job_of(row) for row in rows], "before": rows[-1]["id"] if goes_on else None})

    async def show(self, request: Request, user: str) -> Response:
        """One job."""
        row = await run_in_threadpool(self.found, user, _job(request))
        return JSONResponse(job_of(row))

    async def forget(self, request: Request, user: str) -> Response:
        """Forgets a job that has ended, with its outputs."""
        number = _job(request)
        await run_in_threadpool(self.found, user, number)
        await run_in_threadpool(_or_conflict, lambda: self._hub.ask(user, "Forget", job=number))
        return JSONResponse({})

    async def cancel(self, request: Request, user: str) -> Response:
        """Cancels a job, or one process of it."""
        number, index = _job(request), number_in(request, "index", None, _MOST_INDEX)
        await run_in_threadpool(self.found, user, number)
        if index is not None:
            await run_in_threadpool(self.process_of, user, number, index)
        ask = lambda: self._hub.ask(user, "Cancel", job=number, index=index)  # noqa: E731
        canceled = await run_in_threadpool(_or_conflict, ask)
        return JSONResponse({"processes": canceled["processes"]})

    async def processes(self, request: Request, user: str) -> Response:
        """A page of the processes of a job."""
        number, after = _job(request), number_in(request, "after", None, _MOST_INDEX)
        await run_in_threadpool(self.found, user, number)
        page = await run_in_threadpool(lambda: self._hub.ask(user, "Processes", job=number, after=after))
        rows = page["rows"]
        goes_on = page["goes_on"] and rows
        told = [process_of(row) for row in rows]
        return JSONResponse({"processes": told, "after": rows[-1]["index"] if goes_on else None})

    async def process(self, request: Request, user: str) -> Response:
        """One process of a job."""
        _, row = await run_in_threadpool(self.process_of, user, *named(request))
        return JSONResponse(process_of(row))

    async def output(self, request: Request, user: str) -> Response:
        """A file that a process has left."""
        job, row = await run_in_threadpool(self.process_of, user, *named(request))
        name = request.path_params["name"]
        outputs = {it["name"]: it["content"] for it in (row["outcome"] or {"outputs": []})["outputs"]}
        if name not in outputs:
            raise Refused(404, f"the process has left no output {name!r:.200}; it may not have ended")
        return self.send(request, job["user"], outputs[name])

    def send(self, request: Request, user: str, content: dict[str, Any]) -> Response:
        """A content of a user's job, or the part of it that is asked for.

        Parameters
        ----------
        request
            The request.
        user
            Whose job it is.
        content
            The content.

        Returns
        -------
        Response
        """
        tag = f'"{hashlib.sha256(repr(content).encode()).hexdigest()[:32]}"'
        read = lambda start, most: self._hub.read_content(user, content, start, most)  # noqa: E731
        return send(request, bytes_of(content), read, lambda: None, tag=tag)

    def found(self, user: str, number: int) -> dict[str, Any]:
        """The row of a job that the user may see.

        Parameters
        ----------
        user
            Who asks.
        number
            Its number.

        Returns
        -------
        dict

        Raises
        ------
        Refused
            There is none (404).
        """
        try:
            row: dict[str, Any] = self._hub.ask(user, "Show", job=number)["row"]
        except ContractError as error:
            raise Refused(404, str(error)) from None
        return row

    def process_of(self, user: str, number: int, index: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """The rows of a job and of one of its processes.

        Parameters
        ----------
        user
            Who asks.
        number, index
            The job, and the process in it.

        Returns
        -------
        tuple

        Raises
        ------
        Refused
            There is none (404).
        """
        job = self.found(user, number)
        after = index - 1 if index > job["first"] else None
        rows = self._hub.ask(user, "Processes", job=number, after=after)["rows"] if index <= job["last"] else []
        row = next((it for it in rows if it["index"] == index), None)
        if row is None:
            raise Refused(404, f"the job {number} has no process {index}: it has {job['first']} to {job['last']}")
        return job, row

    def _spec(self, user: str, value: Any) -> dict[str, Any]:
        """The job that a document describes, as the wire has it. Its inputs are brought to the hub's contents."""
        fields = Fields(value)
        key = fields.text("key")
        command = fields.needed("command", lambda value, where: items(value, where, text))
        if not command or not command[0]:
            raise Refused(400, "command: a command has at least one word")
        first = fields.whole("first", 0, least=0, most=_MOST_INDEX) or 0
        count = fields.whole("count", 1, least=1, most=_MOST_COUNT) or 1
        deadline = fields.seconds("deadline", most=_YEAR)
        variables: list[tuple[str, str]] = []
        anything: dict[str, Any] = {}
        spec: dict[str, Any] = {
            "key": [*(hashlib.sha256(key.encode()).digest()[:16] if key else secrets.token_bytes(16))],
            "name": fields.text("name", ""),
            "commands": [
                {
                    "words": command,
                    "environment": fields.read("environment", _pairs, variables),
                    "folder": fields.text("folder"),
                    "stdin": fields.text("stdin"),
                }
            ],
            "first": first,
            "last": first + count - 1,
            "outputs": [it.rstrip("/") for it in fields.each("outputs", text)],
            "needs": fields.read("needs", _needs, anything),
            "after": fields.each("after", lambda value, where: whole(value, where, 1, _MOST_JOB)),
            "retries": fields.whole("retries", 0, least=0, most=_MOST_RETRIES),
            "priority": fields.whole("priority", 0, least=-_HIGHEST, most=_HIGHEST),
            "places": fields.whole("places", 1, least=1, most=_MOST_PLACES),
            "time_limit": fields.whole("time_limit", least=1, most=_YEAR),
            "deadline": None if deadline is None else int((time.time() + deadline) * 1000),
        }
        given = fields.each("inputs", self._input)
        fields.end()
        spec["inputs"] = [
            {"name": name, "content": bring(user), "executable": executable} for name, executable, bring in given
        ]
        return spec

    def _input(self, value: Any, where: str) -> tuple[str, bool, Callable[[str], Any]]:
        """An input: its name, whether it may be executed, and what brings its bytes to the hub's contents."""
        fields = Fields(value, where)
        name, executable = fields.needed("name", text), fields.truth("executable")
        ways = [way for way in ("text", "base64", "file") if fields.has(way)]
        if len(ways) != 1:
            raise Refused(400, f"{where}: an input has one of the fields text, base64 and file")
        if ways == ["file"]:
            path = fields.needed("file", text)
            fields.end()
            opened = self._served.input(path, f"{where}.file")
            return name, executable, lambda user: self._kept(user, opened, where)
        given = fields.needed("text", _content) if ways == ["text"] else fields.needed("base64", _base64)
        fields.end()
        return name, executable, lambda user: self._kept(user, given, where)

    def _kept(self, user: str, given: bytes | Opened, where: str) -> Any:
        try:
            return self._hub.kept(user, given)
        except FileNotFoundError:
            raise Refused(404, f"{where}.file: the file is gone") from None
        except OSError as error:
            raise Refused(507, f"{where}: the hub cannot keep it: {error}") from None


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


def named(request: Request) -> tuple[int, int]:
    """The job and the process that a path names.

    Parameters
    ----------
    request
        The request.

    Returns
    -------
    tuple
    """
    return _job(request), _number(request.path_params["index"], "index", 404, _MOST_INDEX)


def number_in(request: Request, name: str, default: int | None, most: int) -> int | None:
    """A whole number of the query.

    Parameters
    ----------
    request
        The request.
    name
        Its name.
    default
        What it is if it is missing.
    most
        The largest one.

    Returns
    -------
    int or None
    """
    word = request.query_params.get(name)
    return default if word is None else _number(word, name, 400, most)


def _job(request: Request) -> int:
    return _number(request.path_params["job"], "job", 404, _MOST_JOB)


def _number(word: str, name: str, status: int, most: int) -> int:
    if not word.isascii() or not word.isdigit() or len(word) > 19 or int(word) > most:
        raise Refused(status, f"{name}: {word!r:.40} is no whole number from 0 to {most}")
    return int(word)


def _or_conflict(ask: Callable[[], Any]) -> Any:
    """Asks about a job that is there. A refusal is about its state."""
    try:
        return ask()
    except ContractError as error:
        raise Refused(409, str(error)) from None


def _pairs(value: Any, where: str) -> list[tuple[str, str]]:
    if not isinstance(value, dict):
        raise Refused(400, f"{where}: this is no object")
    return [(text(name, where), text(value[name], f"{where}.{name:.100}")) for name in value]


def _needs(value: Any, where: str) -> dict[str, Any]:
    fields = Fields(value, where)
    needs = {
        "cores": fields.whole("cores", 0, least=0, most=_MOST_CORES),
        "memory": fields.whole("memory", 0, least=0, most=_MOST_MEMORY),
        "gpus": fields.whole("gpus", 0, least=0, most=_MOST_CORES),
        "software": fields.each("software", text),
        "labels": fields.each("labels", text),
    }
    fields.end()
    return needs


def _content(value: Any, where: str) -> bytes:
    if not isinstance(value, str):
        raise Refused(400, f"{where}: this is no text")
    return encodable(value, where).encode()


def _base64(value: Any, where: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise Refused(400, f"{where}: this is no base64") from None
