"""The results of a computation, and what its protection cost.

This module does without dataclasses, because they are slow to import and most programs do not ask for the bill.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import suppress
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from phalanx._shown import card, counted, safe

if TYPE_CHECKING:
    from phalanx._course import Course
    from phalanx.summary import Bill

R = TypeVar("R")


class Account:
    """Measures what protection costs from now on, until it is closed."""

    def __init__(self, native: Callable[[], dict[str, Any]]) -> None:
        self._native = native
        #: The sums of the native journal at the beginning. They are converted only when the bill is asked for.
        self._before = native()
        self._began = perf_counter()
        self._after: tuple[dict[str, Any], float] | None = None

    def close(self) -> None:
        """Ends the bill. Later costs are not on it."""
        self._after = self._so_far()

    def bill(self) -> Bill:
        """The bill up to now, or up to the close."""
        from phalanx.summary import Summary

        after, wall = self._after or self._so_far()
        return Summary.from_native(after).bill_since(Summary.from_native(self._before), wall)

    def _so_far(self) -> tuple[dict[str, Any], float]:
        return self._native(), perf_counter() - self._began


class Results(Generator[R, None, None], Generic[R]):
    """The results of a computation: a generator, with the bill of the computation.

    ``async for`` reads them too. A computation that is read so ends when the ``async for`` is left, also when its
    asyncio task is cancelled. Read the results in one of both ways, not in both.

    Examples
    --------
    >>> import phalanx as px
    >>> with px.Manager(contract=px.ParDegree(1)) as manager:
    ...     results = manager.compute(abs, [-1, 2])
    ...     next(results)
    1
    """

    # The generator refers to the account, not to this object. So there is no reference cycle, and the computation ends
    # at once when the user drops the results.
    def __init__(self, results: Generator[R, None, None], account: Account, course: Course) -> None:
        self._results = results
        self._account = account
        self._course = course

    @property
    def bill(self) -> Bill:
        """What protection cost from the beginning of the computation to its end, or so far.

        It includes the costs of other computations of the same manager in this time.
        """
        return self._account.bill()

    def __iter__(self) -> Iterator[R]:  # type: ignore[override]  # the inner generator, which saves a call per result
        return self._results

    def __next__(self) -> R:
        return next(self._results)

    def send(self, value: None) -> R:
        """As for every generator."""
        return self._results.send(value)

    def throw(self, *error: Any) -> R:
        """As for every generator."""
        return self._results.throw(*error)

    def close(self) -> None:
        """Ends the computation. Unread results are dropped. Tasks that run for another 0.1 s or longer are ended with
        their interpreters, which are replaced. A computation whose results are dropped without a word lets tasks that
        have begun come to their end."""
        self._course.stop()
        self._results.close()

    def __aiter__(self) -> AsyncGenerator[R, None]:
        from phalanx._asynchronous import read

        return read(self._results, self._course)

    async def aclose(self) -> None:
        """:meth:`close` for :func:`contextlib.aclosing`."""
        self._course.stop()
        with suppress(ValueError):  # its thread reads, and ends it
            self._results.close()

    def __repr__(self) -> str:
        return safe(lambda: f"<Results of {self._course.program}: {self._state()}>", "<Results>")

    def _repr_html_(self) -> str:
        return safe(self._card, "<div>Results</div>")

    def _card(self) -> str:
        return card("Results", [("program", self._course.program), ("results", self._state())])

    def _state(self) -> str:
        """How far the computation is, like ``3 of 10 came, running``."""
        from inspect import GEN_CLOSED, GEN_CREATED, getgeneratorstate  # slow to import

        course, state = self._course, getgeneratorstate(self._results)
        if state == GEN_CREATED:
            return "not begun" if course.total is None else f"{counted(course.total, 'task')}, not begun"
        came = f"{course.received} came" if course.total is None else f"{course.received} of {course.total} came"
        if state != GEN_CLOSED:
            return f"{came}, running"
        return f"{came}, complete" if course.is_complete else f"{came}, ended before the last one"
