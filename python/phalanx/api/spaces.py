"""Tuple spaces over HTTP: out, in, rd, inp, rdp, count, and tuples that are taken for a while."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Callable
from typing import Any, TypeVar

import anyio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from phalanx.api.fields import Fields, items, parse
from phalanx.api.opened import Opened, Spaces
from phalanx.api.refusals import Refused
from phalanx.api.sent_events import events
from phalanx.api.tuples import STAYS, check_elements, read_template, read_tuple, write_tuple
from phalanx.api.users import Shares, Users
from phalanx.api.waiting import Run, unless_gone, wait
from phalanx.api.watching import tuples_put
from phalanx.errors import SpaceLostError
from phalanx.tes.interface import read_body

T = TypeVar("T")

#: Longest wait for a tuple, and the wait of a client that says none, in seconds.
LONGEST_WAIT, USUAL_WAIT = 60.0, 30.0
#: Longest time for which a tuple is taken for a while, and for which one may stay, in seconds. Transactions of a space
#: last 600 s at most, with the wait for the tuple.
LONGEST_LEASE, LONGEST_STAY = 500.0, 10 * 365 * 24 * 3600.0
#: Seconds that a transaction lasts beyond the lease. The hub ends it before.
_MORE = 20.0
#: Most tuples of one request.
MOST_TUPLES = 10_000
#: Most bytes of a body.
LONGEST_BODY = 1 << 20
#: Longest name of a space, in bytes of UTF-8, and its characters beside letters and digits.
_LONGEST_NAME, _SIGNS = 100, "-_.:+@"
#: Threads for requests to spaces, and those of one user. A server that does not answer keeps only the latter.
THREADS, SHARE = 32, 8


class Linda:
    """The operations of Linda (paper 002), for users with tokens.

    Parameters
    ----------
    users
        Who asks.
    spaces
        The spaces that are open.
    """

    def __init__(self, users: Users, spaces: Spaces) -> None:
        self._users, self._spaces = users, spaces
        self._threads = Shares(THREADS, SHARE, "spaces")

    def routes(self) -> list[Route]:
        """What is served.

        Returns
        -------
        list of Route
        """
        words: dict[str, Any] = {
            "out": self.out,
            "in": functools.partial(self.get, takes=True, waits=True),
            "rd": functools.partial(self.get, takes=False, waits=True),
            "inp": functools.partial(self.get, takes=True, waits=False),
            "rdp": functools.partial(self.get, takes=False, waits=False),
            "count": self.count,
        }
        routes = [
            Route(f"/spaces/{{space}}/{word}", self._users.of(do), methods=["POST"]) for word, do in words.items()
        ]
        keep, give_back = (functools.partial(self.end, keeps=keeps) for keeps in (True, False))
        return [
            *routes,
            Route("/spaces/{space}/events", self._users.of(self.events), methods=["GET"]),
            Route("/taken/{taken}/keep", self._users.of(keep), methods=["POST"]),
            Route("/taken/{taken}/give-back", self._users.of(give_back), methods=["POST"]),
        ]

    async def out(self, request: Request, user: str) -> Response:
        """Puts tuples into a space."""
        lease, tuples = await self._read(request, user, _put)

        def put(opened: Opened) -> None:
            if len(tuples) == 1:
                opened.engine.out(tuples[0], lease, None, None, None, None)
            elif tuples:
                opened.engine.out_many(tuples, lease, None, None, None)

        await self._with_space(request, user, put)
        return JSONResponse({"tuples": len(tuples)})

    async def count(self, request: Request, user: str) -> Response:
        """Counts tuples."""
        template = await self._read(request, user, lambda fields: fields.needed("template", read_template))
        found = await self._with_space(request, user, lambda opened: opened.engine.count(template, None, None))
        return JSONResponse({"count": found})

    async def get(self, request: Request, user: str, *, takes: bool, waits: bool) -> Response:
        """Takes or reads a tuple."""
        read = functools.partial(_wanted, takes=takes, waits=waits)
        template, timeout, lease = await self._read(request, user, read)
        if lease:
            self._spaces.check_room(user)
        using = self._spaces.using(user, *_named(request))
        opened = await self._thread(user, using.__enter__)
        still = functools.partial(self._users.still, request, user)
        try:
            work = functools.partial(self._get, user, opened, template, timeout, lease, takes)
            return await self._users.thread(user, JSONResponse, await unless_gone(request, work, still))
        except OverflowError as error:
            raise Refused(409, f"{error}; {STAYS}") from None
        except SpaceLostError:
            await still()  # the server ends the links of a user who is expelled
            raise
        finally:
            using.__exit__(None, None, None)

    async def events(self, request: Request, user: str) -> Response:
        """Tuples that are put, as events."""
        asked, last = request.query_params.get("template"), request.headers.get("last-event-id", "")
        if asked is None:
            raise Refused(400, "template: this parameter is missing; write a template as JSON")
        read = parse(asked.encode("utf-8", "replace"), "template")
        check_elements(read, "template")
        template = read_template(read, "template")
        since = int(last) if last.isascii() and last.isdigit() and len(last) < 19 else None
        await self._with_space(request, user, lambda opened: None)  # what is refused is refused before the first event
        still = functools.partial(self._users.still, request, user)
        return events(tuples_put(self._spaces, (user, *_named(request)), template, since, self._running(user), still))

    async def end(self, request: Request, user: str, *, keeps: bool) -> Response:
        """Keeps a tuple that was taken for a while, or gives it back."""
        await self._thread(user, functools.partial(self._spaces.end, user, request.path_params["taken"], keeps=keeps))
        return JSONResponse({})

    async def _get(
        self, user: str, opened: Opened, template: tuple[Any, ...], timeout: float, lease: float | None, takes: bool
    ) -> dict[str, Any]:
        ask = functools.partial(
            wait,
            opened.engine,
            template,
            takes=takes,
            timeout=timeout,
            accept=write_tuple,
            run=self._running(user),
        )
        if not lease:
            return {"tuple": await ask(transaction=None)}
        number = secrets.randbits(128)
        await self._thread(user, opened.engine.begin, number, timeout + lease + _MORE, False)
        taken = None
        try:
            found = await ask(transaction=number)
            if found is not None:
                taken = self._spaces.take(user, opened, number, lease)
        finally:
            if taken is None:
                with anyio.CancelScope(shield=True):
                    await self._thread(user, opened.engine.abort, number, refuses=False)
        return {"tuple": found, **({"taken": taken, "lease": lease} if taken else {})}

    def _running(self, user: str) -> Run:
        """What does work in threads of a user's share."""
        return functools.partial(self._threads.run, user)

    async def _read(self, request: Request, user: str, read: Callable[[Fields], T]) -> T:
        """Reads the body of a request, in a thread of its user."""
        body = await read_body(request, LONGEST_BODY, Refused)

        def do() -> T:
            value = parse(body)
            check_elements(value, "the body")
            fields = Fields(value)
            found = read(fields)
            fields.end()
            return found

        return await self._users.thread(user, do)

    async def _with_space(self, request: Request, user: str, work: Callable[[Opened], T]) -> T:
        """Does something with the space of a request, in a thread."""

        def do() -> T:
            with self._spaces.using(user, *_named(request)) as opened:
                return work(opened)

        return await self._thread(user, do)

    async def _thread(self, user: str, work: Callable[..., T], *arguments: Any, refuses: bool = True) -> T:
        try:
            return await self._threads.run(user, work, *arguments, refuses=refuses)
        except (TypeError, ValueError) as error:  # too many fields, or too many bytes for the space
            if isinstance(error, Refused):
                raise
            raise Refused(400, f"tuple: {error}") from error


def _put(fields: Fields) -> tuple[float | None, list[tuple[Any, ...]]]:
    """The lease and the tuples of a body."""
    lease = fields.seconds("lease", most=LONGEST_STAY)
    if fields.has("tuples") == fields.has("tuple"):
        raise Refused(400, "tuple: write either tuple, which is a list, or tuples, which is a list of lists")
    if fields.has("tuples"):
        return lease, fields.needed("tuples", lambda value, where: items(value, where, read_tuple, MOST_TUPLES))
    return lease, [fields.needed("tuple", read_tuple)]


def _wanted(fields: Fields, *, takes: bool, waits: bool) -> tuple[tuple[Any, ...], float, float | None]:
    """The template, the timeout and the lease of a body."""
    template = fields.needed("template", read_template)
    timeout = fields.seconds("timeout", USUAL_WAIT, most=LONGEST_WAIT) if waits else None
    lease = fields.seconds("lease", most=LONGEST_LEASE) if takes else None
    return template, timeout or 0.0, lease


def _named(request: Request) -> tuple[str, str]:
    """The machine and the space of a request."""
    name = request.path_params["space"]
    is_plain = all(sign in _SIGNS or sign.isalnum() for sign in name)
    if not is_plain or not 0 < len(name.encode()) <= _LONGEST_NAME:
        raise Refused(400, f"space: a name has letters, digits and {_SIGNS}, at most {_LONGEST_NAME} bytes")
    return request.query_params.get("machine", ""), name
