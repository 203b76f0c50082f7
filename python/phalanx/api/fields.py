"""Reads the JSON of a request, and its fields. Each error names the field."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from phalanx.api.refusals import Refused

T = TypeVar("T")

#: Most bytes of a body that is JSON.
LONGEST = 4 << 20
#: Most characters of a text that is no content.
LONGEST_TEXT = 32_768
#: Most items of a list.
MOST = 1000


def parse(text: bytes, where: str = "the body") -> Any:
    """The value of a JSON text.

    Parameters
    ----------
    text
        UTF-8.
    where
        Its name in errors.

    Returns
    -------
    object

    Raises
    ------
    Refused
        It is no JSON (400).
    """
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"{where} is no JSON: {error}") from None


def _no_number(word: str) -> Any:
    raise ValueError(f'{word} is no number of JSON; in a tuple, write {{"float": "{word}"}}')


class Fields:
    """The fields of a JSON object, each read once.

    Parameters
    ----------
    value
        What should be an object.
    where
        The name of the object in errors; empty: it is the body.

    Raises
    ------
    Refused
        It is no object (400).

    Examples
    --------
    >>> from phalanx.api.fields import Fields
    >>> Fields({"retries": 3}).whole("retries", 0, least=0, most=100)
    3
    """

    def __init__(self, value: Any, where: str = "") -> None:
        if not isinstance(value, dict):
            raise Refused(400, f"{where or 'the body'}: this is no object")
        self._left, self._where = dict(value), where

    def end(self) -> None:
        """Refuses fields that were not read, because they may be misspelt."""
        if self._left:
            raise Refused(400, f"{self.name(min(self._left))!s:.200}: this field is not known here")

    def name(self, field: str) -> str:
        """The name of a field in errors."""
        return f"{self._where}.{field}" if self._where else field

    def has(self, field: str) -> bool:
        """Whether a field is there, and not null."""
        return self._left.get(field) is not None

    def read(self, field: str, check: Callable[[Any, str], T], default: T) -> T:
        """A field, as ``check`` reads it with its name; the default if it is missing or null."""
        value = self._left.pop(field, None)
        return default if value is None else check(value, self.name(field))

    def needed(self, field: str, check: Callable[[Any, str], T]) -> T:
        """A field that must be there."""
        if field not in self._left:
            raise Refused(400, f"{self.name(field)}: this field is missing")
        return check(self._left.pop(field), self.name(field))

    def text(self, field: str, default: str | None = None) -> str | None:
        """A text."""
        return self.read(field, text, default)

    def whole(self, field: str, default: int | None = None, *, least: int, most: int) -> int | None:
        """A whole number."""
        return self.read(field, lambda value, where: whole(value, where, least, most), default)

    def seconds(self, field: str, default: float | None = None, *, most: float) -> float | None:
        """A time in seconds, with a fraction."""
        return self.read(field, lambda value, where: amount(value, where, most), default)

    def truth(self, field: str, default: bool = False) -> bool:
        """True or false."""
        return self.read(field, _truth, default)

    def each(self, field: str, check: Callable[[Any, str], T]) -> list[T]:
        """A list, each item of it as ``check`` reads it; empty if it is missing."""
        return self.read(field, lambda value, where: items(value, where, check), [])


def items(value: Any, where: str, check: Callable[[Any, str], T], most: int = MOST) -> list[T]:
    """A list, each item of it as ``check`` reads it. Raises Refused if it is none, or too long."""
    if not isinstance(value, list):
        raise Refused(400, f"{where}: this is no list")
    if len(value) > most:
        raise Refused(400, f"{where}: there are {len(value)} items, and may be {most}")
    return [check(item, f"{where}[{number}]") for number, item in enumerate(value)]


def text(value: Any, where: str) -> str:
    """A text that is no content. Raises Refused if it is none, or too long."""
    if not isinstance(value, str):
        raise Refused(400, f"{where}: this is no text")
    if len(value) > LONGEST_TEXT:
        raise Refused(400, f"{where}: the text has {len(value)} characters, and may have {LONGEST_TEXT}")
    if "\0" in value:
        raise Refused(400, f"{where}: the text has a zero byte")
    return encodable(value, where)


def encodable(value: str, where: str) -> str:
    """A text that is UTF-8. Raises Refused for half of a surrogate pair."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Refused(400, f"{where}: the text has half of a surrogate pair, which is no character") from None
    return value


def whole(value: Any, where: str, least: int, most: int) -> int:
    """A whole number between two others. Raises Refused if it is none."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise Refused(400, f"{where}: write a whole number from {least} to {most}")
    return value


def amount(value: Any, where: str, most: float) -> float:
    """A number from 0 on. Raises Refused if it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
        raise Refused(400, f"{where}: write a number from 0 to {most:g}")
    return float(value)


def _truth(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise Refused(400, f"{where}: write true or false")
    return value
