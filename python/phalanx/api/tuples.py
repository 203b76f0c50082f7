"""Tuples and templates as JSON.

A number, a text, true, false, null and a list are themselves. An object with one field says what JSON has no word for:

- ``{"bytes": "aGk="}``: bytes, in base64
- ``{"float": 9}``, ``{"float": "NaN"}``: a float, also one that looks like a whole number or that JSON cannot write
- ``{"tuple": [1, 2]}``: a tuple in a tuple
- ``{"type": "integer"}``, ``{"type": ["integer", "null"]}``: in a template, any value of these types
"""

from __future__ import annotations

import base64
import binascii
import functools
import math
import operator
from typing import Any

from phalanx.api.fields import encodable, items
from phalanx.api.refusals import Refused
from phalanx.space import ANY

#: Most lists and tuples inside of each other.
DEEPEST = 32
#: Most fields of a tuple, and items of a list.
WIDEST = 100_000
#: Most bits of a whole number. Python refuses to write much longer ones.
LONGEST_WHOLE = 4096
#: Most bytes of a tuple that is told to a client. Its text is in the hub's memory several times, and takes 0.1 s.
LONGEST_TUPLE = 4 << 20
#: Most bytes of a tuple, as its space's server sends it, that are read into the hub's memory. A character has up to 4.
LONGEST_READ = 16 << 20
#: Most elements of a request or of a tuple, with those in its lists. Each is an object of Python, of 100 bytes or so.
MOST_ELEMENTS = 100_000
#: What becomes of a tuple that is not told.
STAYS = "the tuple stays where it is, and a program in Python can take it"
#: The types that a template can name.
TYPES: dict[str, Any] = {
    "any": ANY,
    "boolean": bool,
    "bytes": bytes,
    "float": float,
    "integer": int,
    "list": list,
    "null": type(None),
    "number": int | float,
    "string": str,
    "tuple": tuple,
}
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def read_tuple(value: Any, where: str) -> tuple[Any, ...]:
    """A tuple that a client has sent.

    Parameters
    ----------
    value
        What should be a list.
    where
        Its name in errors.

    Returns
    -------
    tuple

    Raises
    ------
    Refused
        It is no tuple (400). The error names the field.

    Examples
    --------
    >>> from phalanx.api.tuples import read_tuple
    >>> read_tuple(["found", {"bytes": "aGk="}, 3.5], "tuple")
    ('found', b'hi', 3.5)
    """
    return _read(value, where, is_template=False)


def read_template(value: Any, where: str) -> tuple[Any, ...]:
    """A template that a client has sent.

    Parameters
    ----------
    value, where
        As for :func:`read_tuple`.

    Returns
    -------
    tuple

    Raises
    ------
    Refused
        It is no template (400).

    Examples
    --------
    >>> from phalanx.api.tuples import read_template
    >>> read_template(["found", {"type": "string"}], "template")
    ('found', <class 'str'>)
    """
    return _read(value, where, is_template=True)


def write_tuple(fields: tuple[Any, ...]) -> list[Any]:
    """A tuple as a client reads it.

    Parameters
    ----------
    fields
        The tuple.

    Returns
    -------
    list

    Raises
    ------
    Refused
        A field is of a type that JSON has no word for, as an array, or the tuple is too long (409).

    Examples
    --------
    >>> from phalanx.api.tuples import write_tuple
    >>> write_tuple(("found", b"hi", (1, None)))
    ['found', {'bytes': 'aGk='}, {'tuple': [1, None]}]
    """
    length, count = _measured(fields)
    if length > LONGEST_TUPLE:
        raise Refused(409, f"the tuple has {length} bytes, and may have {LONGEST_TUPLE} here; {STAYS}")
    if count > MOST_ELEMENTS:
        raise Refused(409, f"the tuple has {count} elements, and may have {MOST_ELEMENTS} here; {STAYS}")
    return [_write(value, number) for number, value in enumerate(fields)]


def check_elements(value: Any, where: str) -> None:
    """Bounds what a client has sent.

    Parameters
    ----------
    value
        A value of JSON.
    where
        Its name in errors.

    Raises
    ------
    Refused
        It has too many elements, with those inside of others (400).
    """
    _, count = _measured(value)
    if count > MOST_ELEMENTS:
        raise Refused(400, f"{where}: there are {count} elements, and may be {MOST_ELEMENTS}")


def _measured(value: Any) -> tuple[int, int]:
    """About the bytes of a value, and its elements, with those inside of others."""
    length, count, left = 0, 0, [value]
    while left:
        one = left.pop()
        count += 1
        length += 2
        if isinstance(one, (list, tuple)):
            left.extend(one)
        elif isinstance(one, dict):
            left.extend(one.values())
        elif isinstance(one, (str, bytes)):
            length += len(one)
        else:
            length += 6 + (one.bit_length() // 3 if isinstance(one, int) else 0)  # a digit has more than 3 bits
    return length, count


def _read(value: Any, where: str, *, is_template: bool, depth: int = 0) -> tuple[Any, ...]:
    return (*items(value, where, lambda it, at: _element(it, at, is_template, depth), WIDEST),)


def _element(value: Any, where: str, is_template: bool, depth: int) -> Any:
    if depth >= DEEPEST:
        raise Refused(400, f"{where:.200}: there are more than {DEEPEST} lists inside of each other")
    if isinstance(value, str):
        return encodable(value, where)
    if isinstance(value, list):
        return items(value, where, lambda it, at: _element(it, at, False, depth + 1), WIDEST)
    if not isinstance(value, dict):
        return value
    if len(value) != 1:
        raise Refused(400, f'{where}: an object has one field of "bytes", "float", "tuple" and, in templates, "type"')
    ((word, told),) = value.items()
    inside = f"{where}.{word.encode('utf-8', 'backslashreplace').decode():.40}"
    if word == "tuple":
        return _read(told, inside, is_template=is_template, depth=depth + 1)
    if word == "type" and is_template:
        return _formal(told, inside)
    if word in ("bytes", "float"):
        return _bytes(told, inside) if word == "bytes" else _float(told, inside)
    raise Refused(400, f'{inside}: write "bytes", "float", "tuple" or, in templates outside of lists, "type"')


def _formal(told: Any, where: str) -> Any:
    words = told if isinstance(told, list) else [told]
    wrong = [word for word in words if not isinstance(word, str) or word not in TYPES]
    if wrong or not words:
        raise Refused(400, f"{where}: write one or several of {', '.join(TYPES)}")
    return ANY if "any" in words else functools.reduce(operator.or_, [TYPES[word] for word in words])


def _bytes(told: Any, where: str) -> bytes:
    try:
        return base64.b64decode(told, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise Refused(400, f"{where}: this is no base64") from None


def _float(told: Any, where: str) -> float:
    if isinstance(told, str) and told in _NOT_FINITE:
        return _NOT_FINITE[told]
    if isinstance(told, bool) or not isinstance(told, (int, float)):
        raise Refused(400, f"{where}: write a number, or one of {', '.join(_NOT_FINITE)} as a text")
    try:
        return float(told)
    except OverflowError:
        raise Refused(400, f"{where}: the number is too large for a float") from None


def _write(value: Any, number: int) -> Any:
    kind = type(value)
    if kind is int and value.bit_length() > LONGEST_WHOLE:
        raise Refused(409, f"field {number} of the tuple is a number of {value.bit_length()} bits; {STAYS}")
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else {"float": str(value).replace("nan", "NaN").replace("inf", "Infinity")}
    if kind is bytes:
        return {"bytes": base64.b64encode(value).decode()}
    if kind in (list, tuple):
        written = [_write(item, number) for item in value]
        return written if kind is list else {"tuple": written}
    what = f"field {number} of the tuple has the type {kind.__name__}, for which JSON has no word"
    raise Refused(409, f"{what}; {STAYS}")
