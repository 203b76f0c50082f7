"""Contracts: what a user asks of a manager. The manager recruits and releases interpreters to keep its contract (paper
000, figure 1)."""

from __future__ import annotations

import math
from typing import TypeAlias

from phalanx.errors import ContractError


class ParDegree:
    """The contract that asks for a fixed number of interpreters (paper 000, figure 1).

    Parameters
    ----------
    n : int
        The number of interpreters, at least 1.

    Raises
    ------
    ContractError
        ``n`` is no whole number from 1 on.

    Examples
    --------
    >>> import phalanx as px
    >>> with px.Manager(contract=px.ParDegree(2)) as manager:
    ...     manager.interpreters
    2
    """

    def __init__(self, n: int) -> None:
        self.n = _whole("a parallelism degree", n)

    def __repr__(self) -> str:
        return f"ParDegree({self.n})"


class Throughput:
    """The contract that asks for a rate of every computation, from as few interpreters as possible.

    The manager begins with one interpreter and recruits more when the measured times show that they are needed. It
    releases an interpreter that it has not needed for two seconds. If the rate is missed by more than 5 %, the
    computation goes on and a :class:`ContractWarning` says why. Computations of less than three seconds give no
    warning, because there is no time to recruit.

    Parameters
    ----------
    tasks_per_second : float
        The rate, in tasks per second, above 0.
    at_most : int, optional
        Maximum number of interpreters. Default: all that are offered.

    Raises
    ------
    ContractError
        A number is out of its range.

    Examples
    --------
    >>> import phalanx as px
    >>> px.Throughput(50, at_most=8)
    Throughput(50)
    """

    def __init__(self, tasks_per_second: float, *, at_most: int | None = None) -> None:
        self.tasks_per_second = _positive("a throughput", tasks_per_second, "tasks a second")
        self.at_most = at_most if at_most is None else _whole("at_most", at_most)

    def __repr__(self) -> str:
        return f"Throughput({self.tasks_per_second:g})"

    def unmet(self, asked: float, reached: float, why: str) -> str:
        """What to tell the user where it is not met."""
        return f"{self!r} is not met: {reached:.3g} instead of {asked:g} tasks a second; {why}"


class Deadline:
    """The contract that limits the time of every computation, from its first task to its last result.

    For a collection the manager knows how many tasks are left. It keeps as many interpreters as are needed to finish
    in time. For an iterator it does not know that, and uses all interpreters until the iterator has ended. A
    computation that takes longer goes on, and a :class:`ContractWarning` says why as soon as that is known.

    Parameters
    ----------
    seconds : float
        The time limit in seconds, above 0.
    at_most : int, optional
        Maximum number of interpreters. Default: all that are offered.

    Raises
    ------
    ContractError
        A number is out of its range.

    Examples
    --------
    >>> import phalanx as px
    >>> px.Deadline(60)
    Deadline(60)
    """

    def __init__(self, seconds: float, *, at_most: int | None = None) -> None:
        self.seconds = _positive("a deadline", seconds, "seconds")
        self.at_most = at_most if at_most is None else _whole("at_most", at_most)

    def __repr__(self) -> str:
        return f"Deadline({self.seconds:g})"

    def unmet(self, asked: float, reached: float, why: str) -> str:
        """What to tell the user where it is not met."""
        return f"{self!r} is not met: {reached:.3g} instead of {asked:g} seconds; {why}"


Contract: TypeAlias = ParDegree | Throughput | Deadline


def interpreters_of(contract: Contract | None) -> int | None:
    """The number of interpreters that a contract asks for or allows. ``None``: all that are offered."""
    if contract is None:
        return None
    return contract.n if isinstance(contract, ParDegree) else contract.at_most


def _whole(what: str, n: int) -> int:
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:
        raise ContractError(f"{what} is a whole number from 1 on, not {n!r}")
    return n


def _positive(what: str, number: float, unit: str) -> float:
    if not isinstance(number, int | float) or isinstance(number, bool) or not 0 < number < math.inf:
        raise ContractError(f"{what} is a number of {unit} above 0, not {number!r}")
    try:
        return float(number)
    except OverflowError:
        raise ContractError(f"{what} is a number of {unit} that fits a float, not {number!r:.20}…") from None
