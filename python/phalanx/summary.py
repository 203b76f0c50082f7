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
    #: ``"clear"`` or ``"private"``: how its link is protected.
    level: str
    #: ``"working"``, ``"lost"``, ``"released"`` (by the contract) or ``"dismissed"`` (at the end).
    state: str
    tasks: int
    bytes_in: int
    bytes_out: int
    #: Time in the program's functions, with unpickling and pickling.
    busy: float
    #: Time that both ends of its link spent in cryptography.
    protection: float
    #: Why it was lost.
    cause: str | None


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
        interpreters = [InterpreterSummary(**entry) for entry in native.pop("interpreters")]
        contract = native.pop("contract")
        return cls(interpreters=interpreters, contract=contract and ContractSummary(*contract), **native)
