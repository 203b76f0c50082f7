"""Queries: what a tuple must fulfil beyond equality and type, evaluated where the tuples are (TSpaces, GigaSpaces)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, NoReturn, TypeAlias

#: The way to a value: positions in tuples and lists, names in records. Empty: the field in whose place the query is.
Path: TypeAlias = tuple[int | str, ...]


class Step(NamedTuple):
    """A step of a query: a test of one field, which gives a truth value, or ``&``, ``|``, ``~`` on those before it.

    Tests: ``<``, ``<=``, ``==``, ``!=``, ``>``, ``>=``, ``between`` (two values, both included), ``starts_with``,
    ``contains``, ``in_`` (one of the values).
    """

    operator: str
    path: Path = ()
    values: tuple[Any, ...] = ()


class Query:
    """A condition; combine them with ``&``, ``|`` and ``~``. ``steps``: the condition as a postfix program, of which
    a space takes up to 64: a test is one, and so is each of these three."""

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
    """What :func:`where` gives: a field that waits to be compared."""

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
        """From ``low`` to ``high``, both included."""
        return self._test("between", low, high)

    def starts_with(self, start: str | bytes) -> Query:
        """Begins with this text, or with these bytes."""
        return self._test("starts_with", start)

    def contains(self, part: Any) -> Query:
        """Has this in it: a text in a text, bytes in bytes, a value in a tuple or list."""
        return self._test("contains", part)

    def in_(self, values: Iterable[Any]) -> Query:
        """Is one of these values."""
        return self._test("in_", *values)

    def __bool__(self) -> NoReturn:
        raise TypeError("px.where(…) has no truth value: compare it, as in px.where(1) > 3")


def where(*path: int | str) -> Field:
    """A value to be compared. ``px.where() > 3`` in a field's place in a template is about that field,
    ``px.where("score") > 3`` there about the value ``score`` of the dataclass instance in that place; in
    ``where=px.where(1) > 3`` it is the field at position 1 of the tuple. More steps lead further inside.

    ``==``, ``!=`` and ``in_`` compare as templates do, exactly: 1 is not 1.0. The others compare numbers by value,
    whether int or float, texts with texts, bytes with bytes; where the kinds differ, no order holds. Nothing holds of a
    value that is not there.
    """
    for step in path:
        if isinstance(step, bool) or not isinstance(step, int | str) or (isinstance(step, int) and step < 0):
            raise TypeError(f"px.where takes positions from 0 and names, not {step!r}")
    return Field(path)
