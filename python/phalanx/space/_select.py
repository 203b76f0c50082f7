"""Selectors: which of the matching tuples an operation gets (MozartSpaces' coordinators; paper 002, section 2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias


class Selector(NamedTuple):
    """A filter (``"key"``, ``"label"``) with its value, or an order (``"fifo"``, ``"lifo"``, ``"priority"``).

    Examples
    --------
    >>> import phalanx as px
    >>> px.space.label("red")
    Selector(kind='label', value='red')
    """

    kind: str
    value: Any = None


#: One selector or several: filters, and at most one order.
Select: TypeAlias = Selector | Iterable[Selector]

#: Selects the tuple that has been there longest.
fifo = Selector("fifo")
#: Selects the tuple that came last.
lifo = Selector("lifo")
#: Selects the tuple with the highest priority; of several, the one that has been there longest.
priority = Selector("priority")


#: Internal: a read whose result the transaction does not rely on.
peek = Selector("peek")


def key(value: Any) -> Selector:
    """Selects the one tuple that was put with ``key=value``.

    Parameters
    ----------
    value
        The key, which is compared as a field is.

    Returns
    -------
    Selector

    Examples
    --------
    >>> import phalanx as px
    >>> space = px.Space()
    >>> space.out("x", 1, key="first")
    >>> space.rdp(str, int, select=px.space.key("first"))
    ('x', 1)
    """
    return Selector("key", value)


def label(value: Any) -> Selector:
    """Selects only tuples that were put with ``label=value``.

    Parameters
    ----------
    value
        The label, which is compared as a field is.

    Returns
    -------
    Selector

    Examples
    --------
    >>> import phalanx as px
    >>> space = px.Space()
    >>> space.out("x", 1, label="red")
    >>> space.rdp(str, int, select=px.space.label("red"))
    ('x', 1)
    """
    return Selector("label", value)


def selectors(select: Select) -> tuple[Selector, ...]:
    """The user's ``select=`` as a tuple, for an engine."""
    return (select,) if isinstance(select, Selector) else tuple(select)
