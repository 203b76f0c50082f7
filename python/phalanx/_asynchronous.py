"""Managers and asyncio: ``async for`` over results, ``await`` of calls, ``async with``.

A computation that is read by ``async for`` has one thread, which waits for results while the event loop does other
things. The thread takes results only when the reader asks for more, so tasks are taken as results are read, as by a
plain ``for``.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, Generator
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    import asyncio
    from queue import SimpleQueue

    from phalanx._course import Course

T = TypeVar("T")

#: Maximum number of results that the thread hands to the event loop at once. Handing over costs about 60 µs. A larger
#: number would keep other tasks of the loop waiting, if the reader never waits for anything else.
MOST_AT_ONCE = 256
#: Seconds between two looks at whether the event loop was closed without a word.
PATIENCE = 1.0

#: Results, whether they are the last ones, and the error that ended them.
_Handed: TypeAlias = tuple[list[T], bool, BaseException | None]


class AwaitableFuture(Future[T]):
    """A :class:`concurrent.futures.Future` that can be awaited: ``await manager.submit(function)``.

    If the awaiting asyncio task is cancelled, the call is cancelled, as by :meth:`cancel`.

    Examples
    --------
    >>> import asyncio
    >>> import phalanx as px
    >>> async def main():
    ...     async with px.Manager(contract=px.ParDegree(1)) as manager:
    ...         return await manager.submit(pow, 2, 5)
    >>> asyncio.run(main())
    32
    """

    def __await__(self) -> Generator[Any, None, T]:
        import asyncio  # imported only here, because it is slow to import

        return asyncio.wrap_future(self, loop=asyncio.get_running_loop()).__await__()


class Manager(Protocol):
    """What is needed of a manager to end it."""

    def shutdown(self, wait: bool = True) -> None:
        """Releases the interpreters after the submitted calls have ended."""

    def close(self) -> None:
        """Ends everything now."""


async def end(manager: Manager, error: type[BaseException] | None) -> None:
    """Ends a manager as its ``with`` does, while the event loop goes on.

    Submitted calls are waited for. If the asyncio task was cancelled, or is cancelled meanwhile, everything ends now.
    """
    import asyncio

    if error is None or issubclass(error, Exception):
        ending = asyncio.ensure_future(asyncio.to_thread(manager.shutdown))
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await _close(manager)
            with suppress(Exception):
                await ending
            raise
    else:
        await _close(manager)


async def _close(manager: Manager) -> None:
    import asyncio

    await asyncio.to_thread(manager.close)


async def read(results: Generator[T, None, None], course: Course) -> AsyncGenerator[T, None]:
    """The results of a computation for an ``async for``. When it is left, the computation ends."""
    import asyncio
    from queue import SimpleQueue

    loop = asyncio.get_running_loop()
    asked: SimpleQueue[asyncio.Future[_Handed[T]] | None] = SimpleQueue()
    thread = threading.Thread(
        target=_hand_over, args=(results, course, loop, asked), name="phalanx-results", daemon=True
    )
    thread.start()
    try:
        while True:
            answer: asyncio.Future[_Handed[T]] = loop.create_future()
            asked.put(answer)
            some, is_over, error = await answer
            for result in some:
                yield result
            if error is not None:
                raise error
            if is_over:
                return
    finally:
        course.stop()  # wakes the thread if it waits for results
        asked.put(None)  # and if it waits to be asked


def _hand_over(
    results: Generator[T, None, None],
    course: Course,
    loop: asyncio.AbstractEventLoop,
    asked: SimpleQueue[asyncio.Future[_Handed[T]] | None],
) -> None:
    """Answers each request for results with those that are there, and waits for the first one. Ends with the results,
    or when the reader has left."""
    reader = _Reader(results, course)
    try:
        while (answer := _next_request(asked, loop)) is not None:
            handed = reader.take()
            with suppress(RuntimeError):  # the loop is closed, so the reader has left
                loop.call_soon_threadsafe(_answer, answer, handed)
            if handed[1]:
                break
    finally:
        results.close()


def _next_request(
    asked: SimpleQueue[asyncio.Future[_Handed[T]] | None], loop: asyncio.AbstractEventLoop
) -> asyncio.Future[_Handed[T]] | None:
    """The next request of the reader. None: it has left, or its loop was closed and can tell nothing any more."""
    from queue import Empty

    while not loop.is_closed():
        with suppress(Empty):
            return asked.get(timeout=PATIENCE)
    return None


class _Reader(Generic[T]):
    """Reads results as they came together, so that it waits only for the first of them."""

    def __init__(self, results: Generator[T, None, None], course: Course) -> None:
        self._results = results
        self._course = course
        self._seen = course.received
        #: Results that came with the last one and are not read yet.
        self._left = 0

    def take(self) -> _Handed[T]:
        """The next results, whether they are the last ones, and the error that ended them."""
        some: list[T] = []
        try:
            some.append(self._next())
            while self._left and len(some) < MOST_AT_ONCE:
                some.append(self._next())
        except StopIteration:
            return some, True, None
        except BaseException as error:
            return some, True, error
        return some, False, None

    def _next(self) -> T:
        result = next(self._results)
        came, self._seen = self._course.received - self._seen, self._course.received
        self._left = max(self._left + came - 1, 0)
        return result


def _answer(answer: asyncio.Future[_Handed[T]], handed: _Handed[T]) -> None:
    if not answer.done():  # it is, if the reader was cancelled
        answer.set_result(handed)
