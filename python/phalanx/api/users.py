"""Tells whose token a request shows, and bounds how much a user asks at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
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
#: Seconds that a request waits for a thread of its user's share. Threads are free within milliseconds while servers
#: answer.
SHARE_PATIENCE = 5.0


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
            words = f"{user} has {MOST_AT_A_TIME} requests already that wait for their answers"
            raise Refused(429, words, {"Retry-After": "1"})
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


class Shares:
    """Threads for one kind of work, of which each user has a share, so that one user cannot hold all of them.

    Parameters
    ----------
    threads
        The threads of all users.
    share
        Those of one user.
    what
        What the work is about, for errors.
    """

    def __init__(self, threads: int, share: int, what: str) -> None:
        self._threads, self._share, self._what = Threads(threads), share, what
        self._rooms: dict[str, _Room] = {}

    async def run(self, user: str, work: Callable[..., T], *arguments: Any, refuses: bool = True) -> T:
        """Does the work in a thread of the user's share.

        Parameters
        ----------
        user
            The user.
        work
            A function.
        *arguments
            Its arguments.
        refuses
            Whether it is refused if the share stays used up. What ends earlier work waits as long as that takes.

        Returns
        -------
        object
            What ``work`` returns.

        Raises
        ------
        Refused
            The share was used up for ``SHARE_PATIENCE`` seconds (429).
        """
        room = self._rooms.setdefault(user, _Room(anyio.Semaphore(self._share)))
        room.uses += 1
        try:
            with anyio.move_on_after(SHARE_PATIENCE if refuses else None) as scope:
                await room.free.acquire()
            if scope.cancelled_caught:
                words = f"{user} has {self._share} requests about {self._what} already whose servers do not answer"
                raise Refused(429, words, {"Retry-After": f"{SHARE_PATIENCE:.0f}"})
            try:
                return await self._threads.run(work, *arguments)
            finally:
                room.free.release()
        finally:
            room.uses -= 1
            if not room.uses:
                del self._rooms[user]


@dataclass
class _Room:
    """The free threads of a user's share, and how many requests use it or wait for it."""

    free: anyio.Semaphore
    uses: int = 0


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
