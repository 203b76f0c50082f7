"""Whether what clients of a space were told could have happened in one order, each at some moment between its call and
its answer: Wing and Gong's search ("Testing and verifying concurrent objects", 1993), with states seen before left out.

The Rust tests of the members' log have the same search, over a network in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Operation:
    """On one kind of tuple: ``out``, ``inp`` or ``rdp``; times in seconds of one clock. ``found``: whether there was a
    tuple; None: the outcome was not heard, so it happened at any time after its call, or never."""

    what: str
    called: float
    answered: float
    found: bool | None

    def after(self, tuples: int) -> int | None:
        """How many tuples there are after it, if it can happen."""
        if self.what == "out":
            return tuples + 1
        if self.found is None:
            return max(0, tuples - 1) if self.what == "inp" else tuples
        if (tuples > 0) != self.found:
            return None
        return tuples - 1 if self.what == "inp" and self.found else tuples


def is_linearizable(operations: Sequence[Operation]) -> bool:
    """Whether there is such an order, beginning without a tuple."""
    seen: set[tuple[int, int]] = set()
    states = [(0, 0)]
    while states:
        done, tuples = states.pop()
        left = [(at, it) for at, it in enumerate(operations) if not done >> at & 1]
        answers = [it.answered for _, it in left if it.found is not None]
        if not answers:
            return True
        first = min(answers)
        for at, operation in left:
            after = operation.after(tuples) if operation.called < first else None
            if after is not None and (state := (done | 1 << at, after)) not in seen:
                seen.add(state)
                states.append(state)
    return False
