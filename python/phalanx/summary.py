"""What a manager's journal adds up to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class InterpreterSummary:
    """One interpreter's part. Bytes are those of tasks to it and of results from it; times are seconds."""

    name: str
    machine: str
    pid: int
    #: How its link is protected: ``"clear"``, ``"authenticated"``, ``"safe"`` or ``"private"``.
    level: str
    #: ``"working"``, ``"lost"``, ``"released"`` (by the contract) or ``"dismissed"`` (at the end).
    state: str
    #: What it fired instructions for: tasks, parts of them, and groups of parts.
    tasks: int
    bytes_in: int
    bytes_out: int
    #: Of tokens between two instructions that stayed where they were made.
    bytes_stayed: int
    #: Time in the program's functions, with unpickling and pickling.
    busy: float
    #: Time that the manager's end of its link spent in cryptography, and the interpreter's.
    protection_here: float
    protection_there: float
    #: The levels of what is not marked, of marked data and of marked code, and what decided each.
    levels: tuple[str, str, str]
    why: tuple[str, str, str]
    #: Whether one is weaker than without the user's explicit words.
    weaker: bool
    #: For each level bytes of frames in both directions, and seconds in cryptography at the manager's end.
    spent: dict[str, tuple[int, float]]
    #: Why it was lost.
    cause: str | None

    @property
    def protection(self) -> float:
        """Time that both ends of its link spent in cryptography."""
        return self.protection_here + self.protection_there


@dataclass(frozen=True)
class BillLine:
    """What one level was used for, and its price."""

    level: str
    #: Bytes of frames, in both directions.
    bytes: int
    #: Seconds in cryptography, at both ends.
    protection: float


@dataclass(frozen=True)
class Bill:
    """The price of security: bytes and seconds by level, and what that cost against clear links."""

    lines: tuple[BillLine, ...]
    #: Seconds that the program took, and about how many of them it would at most have saved over clear links: those
    #: that all ends of all links spent in cryptography, as if one after the other. Handshakes and last answers are
    #: not in it.
    wall: float
    cost: float

    @property
    def share(self) -> float:
        """The cost as a part of the time, from 0 to 1."""
        return min(self.cost / self.wall, 1.0) if self.wall > 0 else 0.0

    def __str__(self) -> str:
        lines = [
            f"{it.level}: {it.bytes / 1e6:.1f} MB, {1000 * it.protection:.1f} ms at both ends" for it in self.lines
        ]
        cost = f"protection cost at most {1000 * self.cost:.1f} ms of {self.wall:.2f} s ({self.share:.1%})"
        return "; ".join([*lines, cost])


@dataclass(frozen=True)
class ContractSummary:
    """How a contract on time is kept by a computation: of the one that was looked at last, or has ended last.

    For a :class:`Throughput`, ``asked`` and ``reached`` are tasks a second, over the last three seconds where it takes
    longer than that. For a :class:`Deadline` they are seconds from the first task to the last result, as far as can be
    expected while it goes on.
    """

    asked: float
    reached: float
    met: bool
    #: Why it is not met.
    why: str | None


@dataclass(frozen=True)
class Summary:
    """Everything a manager did so far."""

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
    #: ``None`` without a contract on time, and before the first look.
    contract: ContractSummary | None
    interpreters: list[InterpreterSummary]

    @classmethod
    def from_native(cls, native: dict[str, Any]) -> Summary:
        """From the native journal's plain objects."""
        interpreters = [InterpreterSummary(**entry) for entry in native["interpreters"]]
        contract = native["contract"] and ContractSummary(*native["contract"])
        return cls(**{**native, "interpreters": interpreters, "contract": contract})

    @property
    def bill(self) -> Bill:
        """What protection cost so far."""
        return self.bill_since(None, self.wall)

    def bill_since(self, before: Summary | None, wall: float) -> Bill:
        """What it cost since an earlier summary of the same manager, in so many seconds."""
        earlier = {it.name: it for it in before.interpreters} if before else {}
        parts = [_Part.of(it, earlier.get(it.name)) for it in self.interpreters]
        names = dict.fromkeys(name for part in parts for name in part.bytes)
        lines = [BillLine(name, *(sum(column) for column in zip(*(part.of_level(name) for part in parts), strict=True)))
                 for name in names]  # fmt: skip
        cost = sum(part.here + part.there for part in parts)
        return Bill(tuple(line for line in lines if line.bytes), wall, cost)


@dataclass(frozen=True)
class _Part:
    """One link's part of a bill."""

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
        """Bytes and seconds at both ends. The other end tells the sum only; both ends do the same work."""
        share = self.protection[name] / self.here if self.here > 0 else 0.0
        return self.bytes[name], self.protection[name] + share * self.there
