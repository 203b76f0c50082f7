"""The results of a computation, and what its protection cost.

This module does without dataclasses, because they are slow to import and most programs do not ask for the bill.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
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
    def __init__(self, results: Generator[R, None, None], account: Account) -> None:
        self._results = results
        self._account = account

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
        """Ends the computation. Unread results are dropped."""
        self._results.close()
