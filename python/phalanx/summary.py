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
    #: ``"working"``, ``"lost"`` or ``"dismissed"``.
    state: str
    #: What it fired instructions for: tasks, parts of them, and groups of parts.
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
    interpreters: list[InterpreterSummary]

    @classmethod
    def from_native(cls, native: dict[str, Any]) -> Summary:
        """From the native journal's plain objects."""
        interpreters = [InterpreterSummary(**entry) for entry in native.pop("interpreters")]
        return cls(interpreters=interpreters, **native)
