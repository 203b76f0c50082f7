"""Tells whose token a request shows, and bounds how much a user asks at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from phalanx.api.refusals import Refused
from phalanx.api.waiting import Gone
from phalanx.tes.interface import token_of

#: Most requests of a user that are answered at a time: a quarter of the connections that are served.
MOST_AT_A_TIME = 128


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

    async def check(self, request: Request) -> str:
        """The user of a request. Raises Refused if it shows no token that holds (401)."""
        token = token_of(request.headers.get("authorization", ""))
        user = await run_in_threadpool(self._user_of, token) if token else None
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
