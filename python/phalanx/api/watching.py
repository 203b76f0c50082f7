"""Tuples that are put into a space, as events (TSpaces, JavaSpaces; paper 002, section 2)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio

from phalanx.api.opened import Opened, Spaces
from phalanx.api.refusals import Refused
from phalanx.api.sent_events import event, looks
from phalanx.api.tuples import STAYS, write_tuple
from phalanx.api.waiting import CHECKED, Run
from phalanx.errors import PhalanxError
from phalanx.space._engine import Fields

#: Seconds after which events end. The client asks again, and shows its token again.
LONGEST_WATCH = 600.0


async def tuples_put(
    spaces: Spaces,
    place: tuple[str, str, str],
    template: Fields,
    since: int | None,
    run: Run,
    still: Callable[[], Awaitable[None]],
) -> AsyncIterator[str]:
    """The tuples that match, each as an event when it is put.

    Parameters
    ----------
    spaces
        The spaces that are open.
    place
        The user, the machine and the space.
    template
        What they match.
    since
        The number of the event after which to begin; None: from now on.
    run
        Does work in threads for requests to spaces.
    still
        Raises an exception if the token of the user does not hold any more.

    Yields
    ------
    str
        The text of an event; empty: nothing came for a while.
    """
    loop, flag = asyncio.get_running_loop(), asyncio.Event()
    checked = time.monotonic()

    def nudge() -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(flag.set)

    async def check() -> None:
        nonlocal checked
        if time.monotonic() - checked >= CHECKED:
            await still()
            checked = time.monotonic()

    def begin() -> tuple[Opened, int]:
        opened = using.__enter__()
        try:
            return opened, opened.engine.watch(template, None, since, nudge)
        except BaseException:
            using.__exit__(None, None, None)
            raise

    using = spaces.using(*place)
    opened, watch = await run(begin)
    try:
        for _ in looks(LONGEST_WATCH):
            await check()
            flag.clear()
            try:
                found = await run(opened.engine.events, watch, 0, refuses=False)
            except OverflowError as error:  # the tuple is not read, and the next events follow
                yield event("tuple", {"tuple": None, "detail": f"{error}; {STAYS}"})
                continue
            for number, fields in found:
                await check()
                yield await run(_written, number, fields, refuses=False)
            if not found:
                with anyio.move_on_after(CHECKED):
                    await flag.wait()
                yield ""
    finally:
        with anyio.CancelScope(shield=True):
            await run(_end, opened, watch, refuses=False)
            using.__exit__(None, None, None)


def _written(number: int, fields: Fields) -> str:
    told: dict[str, Any]
    try:
        told = {"tuple": write_tuple(fields)}
    except Refused as error:
        told = {"tuple": None, "detail": str(error)}
    return event("tuple", told, number)


def _end(opened: Opened, watch: int) -> None:
    with suppress(PhalanxError):  # the server is gone
        opened.engine.unwatch(watch)
