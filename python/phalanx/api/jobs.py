"""Jobs over HTTP: submit, list, show, cancel, forget, and outputs."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from phalanx.api.fields import LONGEST, parse
from phalanx.api.files import Served
from phalanx.api.ranges import send
from phalanx.api.refusals import Refused
from phalanx.api.rows import MOST_INDEX, MOST_JOB, job_of, process_of
from phalanx.api.submitting import Submitting, differs
from phalanx.api.users import Users
from phalanx.errors import ContractError
from phalanx.tes.at_hub import AtHub, bytes_of
from phalanx.tes.interface import read_body

#: What clients call a field of a job that the hub knows by another name.
_FIELDS = {"commands": "command, environment, folder or stdin", "last": "count"}


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
        self._users, self._hub = users, hub
        self._submitting = Submitting(hub, served)

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
        body = await read_body(request, LONGEST, Refused)
        job = await self._users.thread(user, self._submit, user, body)
        return JSONResponse({"id": job}, 201, {"location": f"{request.url.path}/{job}"})

    def _submit(self, user: str, body: bytes) -> int:
        told = parse(body)
        spec = self._submitting.spec(user, told)
        job = int(self._hub.ask(user, "Submit", spec=spec)["job"])
        if told.get("key"):
            field = differs(spec, self._hub.ask(user, "Show", job=job)["spec"])
            if field is not None:
                what = _FIELDS.get(field, field)
                raise Refused(422, f"key: the job {job} was submitted with this key, and differs in its {what}")
        return job

    async def list(self, request: Request, user: str) -> Response:
        """A page of the user's jobs, the newest first."""
        before = number_in(request, "before", None, MOST_JOB)
        page = await self._users.thread(user, lambda: self._hub.ask(user, "List", before=before, all=False))
        rows = page["rows"]
        goes_on = page["goes_on"] and rows
        return JSONResponse({"jobs": [job_of(row) for row in rows], "before": rows[-1]["id"] if goes_on else None})

    async def show(self, request: Request, user: str) -> Response:
        """One job."""
        row = await self._users.thread(user, self.found, user, job_in(request))
        return JSONResponse(job_of(row))

    async def forget(self, request: Request, user: str) -> Response:
        """Forgets a job that has ended, with its outputs."""
        number = job_in(request)
        await self._users.thread(user, self.found, user, number)
        await self._users.thread(user, _or_conflict, lambda: self._hub.ask(user, "Forget", job=number))
        return JSONResponse({})

    async def cancel(self, request: Request, user: str) -> Response:
        """Cancels a job, or one process of it."""
        number, index = job_in(request), number_in(request, "index", None, MOST_INDEX)
        await self._users.thread(user, self.found, user, number)
        if index is not None:
            await self._users.thread(user, self.process_of, user, number, index)
        ask = lambda: self._hub.ask(user, "Cancel", job=number, index=index)  # noqa: E731
        canceled = await self._users.thread(user, _or_conflict, ask)
        return JSONResponse({"processes": canceled["processes"]})

    async def processes(self, request: Request, user: str) -> Response:
        """A page of the processes of a job."""
        number, after = job_in(request), number_in(request, "after", None, MOST_INDEX)
        await self._users.thread(user, self.found, user, number)
        page = await self._users.thread(user, lambda: self._hub.ask(user, "Processes", job=number, after=after))
        rows = page["rows"]
        goes_on = page["goes_on"] and rows
        told = [process_of(row) for row in rows]
        return JSONResponse({"processes": told, "after": rows[-1]["index"] if goes_on else None})

    async def process(self, request: Request, user: str) -> Response:
        """One process of a job."""
        _, row = await self._users.thread(user, self.process_of, user, *named(request))
        return JSONResponse(process_of(row))

    async def output(self, request: Request, user: str) -> Response:
        """A file that a process has left."""
        job, row = await self._users.thread(user, self.process_of, user, *named(request))
        name = request.path_params["name"]
        outputs = {it["name"]: it["content"] for it in (row["outcome"] or {"outputs": []})["outputs"]}
        if name not in outputs:
            raise Refused(404, f"the process has left no output {name!r:.200}; it may not have ended")
        return self.send(request, user, job["user"], outputs[name])

    def send(self, request: Request, asking: str, user: str, content: dict[str, Any]) -> Response:
        """A content of a user's job, or the part of it that is asked for.

        Parameters
        ----------
        request
            The request.
        asking
            Whose request it is.
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
        thread = functools.partial(self._users.thread, asking)
        return send(request, bytes_of(content), read, lambda: None, tag=tag, thread=thread)

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
    return job_in(request), _number(request.path_params["index"], "index", 404, MOST_INDEX)


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


def job_in(request: Request) -> int:
    """The job that a path names.

    Parameters
    ----------
    request
        The request.

    Returns
    -------
    int
    """
    return _number(request.path_params["job"], "job", 404, MOST_JOB)


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
