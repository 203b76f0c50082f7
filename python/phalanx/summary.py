"""The totals of a manager's journal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class InterpreterSummary:
    """The part of one interpreter. Bytes count the tasks to it and the results from it. Times are in seconds.

    Examples
    --------
    >>> import phalanx as px
    >>> with px.Manager(contract=px.ParDegree(1)) as manager:
    ...     results = manager.compute(abs, [-1, -2])
    ...     values = list(results)
    ...     summary = manager.summary()
    >>> [(one.name, one.level, one.tasks) for one in summary.interpreters]
    [('this-machine/1', 'clear', 2)]
    """

    name: str
    #: What the user calls its machine: the name of a member of a grid, ``host:port``, or ``"this-machine"``.
    machine: str
    pid: int
    #: The level of its link: ``"clear"``, ``"authenticated"``, ``"safe"`` or ``"private"``.
    level: str
    #: ``"working"``, ``"lost"``, ``"released"`` (by the contract) or ``"dismissed"`` (at the end).
    state: str
    #: Number of tasks, parts of tasks, and groups of parts for which it fired instructions.
    tasks: int
    bytes_in: int
    bytes_out: int
    #: Bytes of tokens between two instructions that stayed at the interpreter.
    bytes_stayed: int
    #: Time in the program's functions, with unpickling and pickling.
    busy: float
    #: Time that the manager's end of its link spent in cryptography, and the interpreter's.
    protection_here: float
    protection_there: float
    #: The levels of unmarked content, of marked data and of marked code, and what decided each.
    levels: tuple[str, str, str]
    why: tuple[str, str, str]
    #: Whether one of them is weaker than the default, by explicit words of the user.
    weaker: bool
    #: For each level bytes of frames in both directions, and seconds in cryptography at the manager's end.
    spent: dict[str, tuple[int, float]]
    #: Why it was lost.
    cause: str | None
    #: What it may use in the user's name, as ``"spaces at *"``, and until when, in seconds since 1970 as of
    #: :func:`time.time`. The manager renews it in time. None: nothing.
    delegated: tuple[str, int] | None = None

    @property
    def protection(self) -> float:
        """Time that both ends of its link spent in cryptography."""
        return self.protection_here + self.protection_there


@dataclass(frozen=True)
class BillLine:
    """The bytes and the cost of one level.

    Examples
    --------
    >>> import phalanx as px
    >>> with px.Manager(contract=px.ParDegree(1)) as manager:
    ...     results = manager.compute(abs, [-1, -2])
    ...     values = list(results)
    ...     summary = manager.summary()
    >>> [line.level for line in results.bill.lines]
    ['clear']
    """

    level: str
    #: Bytes of frames, in both directions.
    bytes: int
    #: Seconds in cryptography, at both ends.
    protection: float


@dataclass(frozen=True)
class Bill:
    """The price of security: bytes and seconds by level, and what that cost against clear links.

    Examples
    --------
    >>> import phalanx as px
    >>> with px.Manager(contract=px.ParDegree(1)) as manager:
    ...     results = manager.compute(abs, [-1, -2])
    ...     values = list(results)
    ...     summary = manager.summary()
    >>> results.bill.cost
    0.0
    """

    lines: tuple[BillLine, ...]
    #: Seconds that the program took, and an upper estimate of the seconds that clear links would have saved. The
    #: estimate adds the cryptography of all ends of all links, as if they ran one after the other. It does not include
    #: handshakes and last answers.
    wall: float
    cost: float

    @property
    def share(self) -> float:
        """The cost as a fraction of the time, from 0 to 1."""
        return min(self.cost / self.wall, 1.0) if self.wall > 0 else 0.0

    def __str__(self) -> str:
        lines = [
            f"{it.level}: {it.bytes / 1e6:.1f} MB, {1000 * it.protection:.1f} ms at both ends" for it in self.lines
        ]
        cost = f"protection cost at most {1000 * self.cost:.1f} ms of {self.wall:.2f} s ({self.share:.1%})"
        return "; ".join([*lines, cost])


@dataclass(frozen=True)
class ContractSummary:
    """How a computation keeps a :class:`Throughput` or :class:`Deadline`: the one checked last, or ended last.

    For a :class:`Throughput`, ``asked`` and ``reached`` are tasks per second. In a computation of more than three
    seconds they cover the last three. For a :class:`Deadline` they are seconds from the first task to the last result,
    estimated while it goes on.

    Examples
    --------
    >>> import phalanx as px
    >>> with px.Manager(contract=px.Deadline(60)) as manager:
    ...     values = list(manager.compute(abs, [-1, -2]))
    ...     manager.summary().contract.met
    True
    """

    asked: float
    reached: float
    met: bool
    #: Why it is not met.
    why: str | None


@dataclass(frozen=True)
class Summary:
    """Everything that a manager did so far. :meth:`phalanx.Manager.summary` returns one.

    Examples
    --------
    >>> import phalanx as px
    >>> with px.Manager(contract=px.ParDegree(1)) as manager:
    ...     _ = list(manager.compute(abs, [-1, 2]))
    ...     manager.summary().tasks
    2
    """

    #: Tasks whose outcome was delivered.
    tasks: int
    #: Seconds from the first firing to the last delivery.
    wall: float
    #: Interpreters lost, recruited in place of lost ones, and tasks that were in flight at lost ones.
    lost: int
    replaced: int
    refired: int
    #: Tasks fired at a second interpreter because the first one took too long.
    doubled: int
    #: ``None`` without a :class:`Throughput` or :class:`Deadline`, and before the first check.
    contract: ContractSummary | None
    interpreters: list[InterpreterSummary]

    @classmethod
    def from_native(cls, native: dict[str, Any]) -> Summary:
        """Makes it from the plain objects of the native journal."""
        interpreters = [InterpreterSummary(**entry) for entry in native["interpreters"]]
        contract = native["contract"] and ContractSummary(*native["contract"])
        return cls(**{**native, "interpreters": interpreters, "contract": contract})

    @property
    def bill(self) -> Bill:
        """What protection cost so far."""
        return self.bill_since(None, self.wall)

    def bill_since(self, before: Summary | None, wall: float) -> Bill:
        """What protection cost since an earlier summary of the same manager, in ``wall`` seconds.

        Parameters
        ----------
        before : Summary or None
            The earlier one; None: since the beginning.
        wall : float
            Seconds since then.

        Returns
        -------
        Bill
        """
        earlier = {it.name: it for it in before.interpreters} if before else {}
        parts = [_Part.of(it, earlier.get(it.name)) for it in self.interpreters]
        names = dict.fromkeys(name for part in parts for name in part.bytes)
        lines = [BillLine(name, *(sum(column) for column in zip(*(part.of_level(name) for part in parts), strict=True)))
                 for name in names]  # fmt: skip
        cost = sum(part.here + part.there for part in parts)
        return Bill(tuple(line for line in lines if line.bytes), wall, cost)


@dataclass(frozen=True)
class _Part:
    """The part of one link in a bill."""

    bytes: dict[str, int]
    protection: dict[str, float]
    here: float
    there: float

    @classmethod
    def of(cls, now: InterpreterSummary, before: InterpreterSummary | None) -> _Part:
        spent = dict.fromkeys(now.spent, (0, 0.0)) if before is None else before.spent
        bytes_ = {name: count - spent[name][0] for name, (count, _) in now.spent.items()}
        seconds = {name: time - spent[name][1] for name, (_, time) in now.spent.items()}
        there = now.protection_there - (before.protection_there if before else 0.0)
        return cls(bytes_, seconds, sum(seconds.values()), there)

    def of_level(self, name: str) -> tuple[int, float]:
        """Bytes and seconds at both ends. The other end reports only its sum over all levels. That sum is divided like
        the time at this end, because both ends do the same work."""
        share = self.protection[name] / self.here if self.here > 0 else 0.0
        return self.bytes[name], self.protection[name] + share * self.there
