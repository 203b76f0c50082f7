"""Contracts: what a user asks of a manager, which recruits and releases to keep it (paper 000, figure 1)."""

from __future__ import annotations

import math
from typing import TypeAlias

from phalanx.errors import ContractError


class ParDegree:
    """The contract that asks for ``n`` interpreters (paper 000, figure 1)."""

    def __init__(self, n: int) -> None:
        self.n = _whole("a parallelism degree", n)

    def __repr__(self) -> str:
        return f"ParDegree({self.n})"


class Throughput:
    """The contract that asks for ``tasks_per_second`` of every computation, from as few interpreters as can be.

    A manager begins with one and recruits as the measured times show that it takes more; it releases whom it did not
    need for two seconds. ``at_most``: interpreters that may be used, by default all that are offered. Where the rate is
    not reached, within 5 %, the computation goes on, and a :class:`ContractWarning` says why; not of computations of
    less than three seconds, in which there is no time to recruit.
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
    """The contract that asks of every computation to take at most ``seconds``, from its first task to its last result.

    Of a collection's tasks a manager knows how many are left, and keeps as many interpreters as it takes to be ready in
    time. Of an iterator it does not, and uses all until it has ended. ``at_most``: interpreters that may be used, by
    default all that are offered. A computation that takes longer goes on; a :class:`ContractWarning` says why, as soon
    as that is known.
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
    """The interpreters that a contract asks for, or allows; ``None``: what is offered."""
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
