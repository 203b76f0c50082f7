"""Queries: conditions on tuples beyond equality and type. The space evaluates them (TSpaces, GigaSpaces; paper 002)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, NoReturn, TypeAlias

#: The path to a value: positions in tuples and lists, names in records. Empty: the field in whose place the query is.
Path: TypeAlias = tuple[int | str, ...]


class Step(NamedTuple):
    """A step of a query: a test of one field, which gives a truth value, or ``&``, ``|``, ``~`` on earlier results.

    Tests: ``<``, ``<=``, ``==``, ``!=``, ``>``, ``>=``, ``between`` (two values, both included), ``starts_with``,
    ``contains``, ``in_`` (one of the values).
    """

    operator: str
    path: Path = ()
    values: tuple[Any, ...] = ()


class Query:
    """A condition. Combine conditions with ``&``, ``|`` and ``~``.

    ``steps``: the condition as a postfix program. Each test and each of the three operators is one step. A space
    accepts up to 64 steps.

    Examples
    --------
    >>> import phalanx as px
    >>> with px.Space() as space:
    ...     space.out_many([("score", 3), ("score", 9)])
    ...     space.count("score", (px.space.where() > 5) | (px.space.where() == 3))
    2
    """

    __slots__ = ("steps",)

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self.steps = steps

    def __and__(self, other: Query) -> Query:
        return Query((*self.steps, *_steps(other), Step("&")))

    def __or__(self, other: Query) -> Query:
        return Query((*self.steps, *_steps(other), Step("|")))

    def __invert__(self) -> Query:
        return Query((*self.steps, Step("~")))

    def __bool__(self) -> NoReturn:
        raise TypeError("a query has no truth value here: write &, | and ~ with parentheses, not and, or, not")

    def __repr__(self) -> str:
        return f"Query({list(self.steps)!r})"


def _steps(other: object) -> tuple[Step, ...]:
    if not isinstance(other, Query):
        raise TypeError(f"{other!r} is no query: compare px.where(…) with a value, in parentheses")
    return other.steps


class Field:
    """A field to be compared with a value. :func:`where` returns one."""

    __slots__ = ("_path",)

    def __init__(self, path: Path) -> None:
        self._path = path

    def _test(self, operator: str, *values: Any) -> Query:
        return Query((Step(operator, self._path, values),))

    def __lt__(self, value: Any) -> Query:
        return self._test("<", value)

    def __le__(self, value: Any) -> Query:
        return self._test("<=", value)

    def __gt__(self, value: Any) -> Query:
        return self._test(">", value)

    def __ge__(self, value: Any) -> Query:
        return self._test(">=", value)

    def __eq__(self, value: object) -> Query:  # type: ignore[override]
        return self._test("==", value)

    def __ne__(self, value: object) -> Query:  # type: ignore[override]
        return self._test("!=", value)

    __hash__ = None  # type: ignore[assignment]

    def between(self, low: Any, high: Any) -> Query:
        """The value is from ``low`` to ``high``, both included."""
        return self._test("between", low, high)

    def starts_with(self, start: str | bytes) -> Query:
        """The value begins with this text, or with these bytes."""
        return self._test("starts_with", start)

    def contains(self, part: Any) -> Query:
        """The value contains ``part``: a text in a text, bytes in bytes, a value in a tuple or list."""
        return self._test("contains", part)

    def in_(self, values: Iterable[Any]) -> Query:
        """The value is one of these."""
        return self._test("in_", *values)

    def __bool__(self) -> NoReturn:
        raise TypeError("px.where(…) has no truth value: compare it, as in px.where(1) > 3")


def where(*path: int | str) -> Field:
    """Names a value for a query. Compare it to get the query.

    ``==``, ``!=`` and ``in_`` compare exactly, as templates do: 1 is not 1.0. The other operators compare numbers by
    value, whether int or float, texts with texts, and bytes with bytes. If the kinds differ, no ordering comparison
    holds. No comparison holds for a missing value.

    Parameters
    ----------
    *path : int or str
        The way to the value: positions in tuples and lists, names in records. In the place of a field, ``where() > 3``
        tests that field. There ``where("score") > 3`` tests the value ``score`` of a dataclass instance. In
        ``where=where(1) > 3`` the query tests the field at position 1 of the tuple. More steps lead further inside.

    Returns
    -------
    Field
        Compare it with ``<``, ``<=``, ``==``, ``!=``, ``>``, ``>=``, ``between``, ``starts_with``, ``contains``,
        ``in_``.

    Raises
    ------
    TypeError
        A step is neither a position from 0 on nor a name.

    Examples
    --------
    >>> import phalanx as px
    >>> space = px.Space()
    >>> space.out_many([("load", 2), ("load", 7)])
    >>> space.rdp("load", px.space.where() > 3)
    ('load', 7)
    """
    for step in path:
        if isinstance(step, bool) or not isinstance(step, int | str) or (isinstance(step, int) and step < 0):
            raise TypeError(f"px.where takes positions from 0 and names, not {step!r}")
    return Field(path)
