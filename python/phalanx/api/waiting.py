"""Waits for a tuple without a thread, for as long as the client waits for the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import anyio
from starlette.requests import Request

from phalanx.api.acting import Engine
from phalanx.space._engine import Fields, Outcome
from phalanx.space._uninterrupted import Uninterrupted

T = TypeVar("T")


class Run(Protocol):
    """Does work in a thread, as :meth:`phalanx.api.users.Shares.run` does for a user."""

    async def __call__(self, work: Callable[..., T], *arguments: Any, refuses: bool = True) -> T:
        """Returns what ``work`` returns."""


#: Seconds between two checks of the token of a request that waits, so that it ends soon after its user is expelled.
CHECKED = 2.0


class Gone(Exception):
    """The client does not wait for its answer any more."""


async def unless_gone(request: Request, work: Callable[[], Awaitable[T]], still: Callable[[], Awaitable[None]]) -> T:
    """Does the work, and cancels it when the client is gone, or may not ask any more.

    Parameters
    ----------
    request
        The request, whose body was read.
    work
        What is awaited.
    still
        Raises an exception if the token of the user does not hold any more.

    Returns
    -------
    object
        What ``work`` returns.

    Raises
    ------
    Gone
        The client is gone.
    Refused
        The token does not hold any more.
    """
    done: list[T] = []
    failed: list[Exception] = []

    async def watch(scope: anyio.CancelScope) -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        scope.cancel()

    async def check(scope: anyio.CancelScope) -> None:
        while True:
            await anyio.sleep(CHECKED)
            try:
                await still()
            except Exception as error:  # a group would wrap it
                failed.append(error)
                scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(watch, group.cancel_scope)
        group.start_soon(check, group.cancel_scope)
        try:
            done.append(await work())
        except Exception as error:  # a group would wrap it
            failed.append(error)
        group.cancel_scope.cancel()
    if done:
        return done[0]
    raise failed[0] if failed else Gone


async def wait(
    engine: Engine,
    template: Fields,
    *,
    takes: bool,
    transaction: int | None,
    timeout: float,
    accept: Callable[[Fields], T],
    run: Run,
) -> T | None:
    """Waits for a tuple. A cancelled task takes nothing.

    Parameters
    ----------
    engine
        The space.
    template
        The template.
    takes
        Whether the tuple is taken.
    transaction
        The transaction of a take; None: the tuple is taken for good when this returns.
    timeout
        Seconds.
    accept
        Makes the answer of the tuple, in a thread. If it raises an exception, the tuple stays in the space.
    run
        Does work in threads for requests to spaces.

    Returns
    -------
    object
        What ``accept`` returns; None: no tuple came in time.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Outcome] = loop.create_future()

    def resolve(outcome: Outcome) -> None:
        if not answer.done():
            answer.set_result(outcome)

    def done(outcome: Outcome) -> None:
        with Uninterrupted(), suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(resolve, outcome)

    async def asked(what: Callable[..., Any], *arguments: Any, refuses: bool = False) -> Any:
        with anyio.CancelScope(shield=True):
            return await run(what, *arguments, refuses=refuses)

    begin = engine.begin_wait
    number = await asked(begin, template, takes, (), None, transaction, timeout, done, refuses=True)
    try:
        outcome = await answer
        accepted = await asked(accept, outcome) if isinstance(outcome, tuple) else None
    except BaseException:
        await asked(_give_up, engine, number)
        raise
    if isinstance(outcome, BaseException):
        raise outcome
    if outcome is not None and takes:
        await asked(engine.settle, number, True)
    return accepted


def _give_up(engine: Engine, number: int) -> None:
    if not engine.cancel(number):
        engine.settle(number, False)
