"""Which of the matching tuples an operation gets (MozartSpaces' coordinators; paper 002, section 2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias


class Selector(NamedTuple):
    """A filter (``"key"``, ``"label"``) with its value, or an order (``"fifo"``, ``"lifo"``, ``"priority"``)."""

    kind: str
    value: Any = None


#: One selector, or some: filters, and at most one order.
Select: TypeAlias = Selector | Iterable[Selector]

#: The tuple that has been there longest.
fifo = Selector("fifo")
#: The tuple that came last.
lifo = Selector("lifo")
#: The tuple of the highest priority; of several, the one that has been there longest.
priority = Selector("priority")


#: For our own use: a transaction does not rely on what is found.
peek = Selector("peek")


def key(value: Any) -> Selector:
    """The one tuple that was put with ``key=value``."""
    return Selector("key", value)


def label(value: Any) -> Selector:
    """Only tuples that were put with ``label=value``."""
    return Selector("label", value)


def selectors(select: Select) -> tuple[Selector, ...]:
    """What a user wrote, for an engine."""
    return (select,) if isinstance(select, Selector) else tuple(select)
