"""The results of a computation, and what its protection cost.

Without dataclasses, which are slow to import: nobody who does not ask for the bill waits for them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from phalanx.summary import Bill

R = TypeVar("R")


class Account:
    """What protection costs from now on, until it is closed."""

    def __init__(self, native: Callable[[], dict[str, Any]]) -> None:
        self._native = native
        #: The native journal's sums at the beginning and at the end, read when they are asked for.
        self._before = native()
        self._began = perf_counter()
        self._after: tuple[dict[str, Any], float] | None = None

    def close(self) -> None:
        """What comes later is not on this bill."""
        self._after = self._so_far()

    def bill(self) -> Bill:
        """Up to now, or to the close."""
        from phalanx.summary import Summary

        after, wall = self._after or self._so_far()
        return Summary.from_native(after).bill_since(Summary.from_native(self._before), wall)

    def _so_far(self) -> tuple[dict[str, Any], float]:
        return self._native(), perf_counter() - self._began


class Results(Generator[R, None, None], Generic[R]):
    """The results of a computation, a generator; and its bill."""

    # The generator knows the account and not this object: dropped by its user, it must end at once, not with a cycle.
    def __init__(self, results: Generator[R, None, None], account: Account) -> None:
        self._results = results
        self._account = account

    @property
    def bill(self) -> Bill:
        """What protection cost from the computation's beginning to its end, or so far.

        What others of the same manager cost meanwhile is in it.
        """
        return self._account.bill()

    def __iter__(self) -> Iterator[R]:  # type: ignore[override]  # the inner one: no price for each result
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
        """Ends the computation; what has not been read is dropped."""
        self._results.close()
