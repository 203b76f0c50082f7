"""Tells whose token a request shows, and bounds how much a user asks at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import anyio
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from phalanx.api.refusals import Refused
from phalanx.api.waiting import Gone
from phalanx.tes.interface import CHECKING, Threads, token_of

T = TypeVar("T")

#: Most requests of a user that are answered at a time: a quarter of the connections that are served.
MOST_AT_A_TIME = 128
#: Most threads that work for a user at a time. All users share 40 (the default of anyio), so that a user whose files
#: are on a disk that hangs leaves 34 to the others.
MOST_THREADS = 6


class Users:
    """The users of the grid, by their tokens.

    Parameters
    ----------
    user_of
        Tells whose token this is; None: nobody's.
    """

    def __init__(self, user_of: Callable[[str], str | None]) -> None:
        self._user_of = user_of
        self._asking: Counter[str] = Counter()
        self._checking = Threads(CHECKING)
        self._rooms: dict[str, anyio.Semaphore] = {}

    def of(self, answer: Callable[[Request, str], Awaitable[Response]]) -> ASGIApp:
        """What answers a request, after the user is known.

        Parameters
        ----------
        answer
            Answers a request of a user.

        Returns
        -------
        ASGIApp
            For a route.
        """
        return _Checked(self, answer)

    @contextmanager
    def asking(self, user: str) -> Iterator[None]:
        """Counts a request of a user until its answer was sent. Raises Refused if there are too many (429)."""
        if self._asking[user] >= MOST_AT_A_TIME:
            raise Refused(429, f"{user} has {MOST_AT_A_TIME} requests already that wait for their answers")
        self._asking[user] += 1
        try:
            yield
        finally:
            self._asking[user] -= 1
            if not self._asking[user]:
                del self._asking[user]
                self._rooms.pop(user, None)

    async def thread(self, user: str, work: Callable[..., T], *arguments: Any) -> T:
        """Does something for a user in a thread. A user who has many threads waits for one of them.

        Parameters
        ----------
        user
            The user.
        work
            A function.
        *arguments
            Its arguments.

        Returns
        -------
        object
            What ``work`` returns.
        """
        if user not in self._rooms:
            self._rooms[user] = anyio.Semaphore(MOST_THREADS)
        async with self._rooms[user]:
            return await run_in_threadpool(work, *arguments)

    async def still(self, request: Request, user: str) -> None:
        """Raises Refused if the token of a request does not hold any more (401)."""
        if await self.check(request) != user:
            raise Refused(401, f"the token is not {user}'s any more")

    async def check(self, request: Request) -> str:
        """The user of a request. Raises Refused if it shows no token that holds (401)."""
        token = token_of(request.headers.get("authorization", ""))
        user = await self._checking.run(self._user_of, token) if token else None
        if user is None:
            words = "show a token of this grid, as Authorization: Bearer TOKEN; it is printed by: phalanx token"
            raise Refused(401, words, {"WWW-Authenticate": "Bearer"})
        return user


class _Checked:
    """An endpoint that knows its user. It is an application of its own, so that it ends when all of the answer was
    sent."""

    def __init__(self, users: Users, answer: Callable[[Request, str], Awaitable[Response]]) -> None:
        self._users, self._answer = users, answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        user = await self._users.check(request)
        with self._users.asking(user), suppress(Gone, ClientDisconnect):
            response = await self._answer(request, user)
            await response(scope, receive, send)
