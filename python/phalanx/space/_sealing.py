"""Sealed fields: a space can compare them but cannot read them (DepSpace; paper 002, section 2)."""

from __future__ import annotations

import reprlib
from typing import Any

from phalanx import _native
from phalanx.errors import SpaceError
from phalanx.space._engine import Fields
from phalanx.space._records import Sealed
from phalanx.space._template import ANY, VALUES, formal_of
from phalanx.space._where import Field, Query

#: Length of a secret in bytes.
SECRET = 32
#: Maximum nesting depth of tuples and lists in a tuple. The native core refuses more.
MOST_NESTING = 32


class SealingKey:
    """Seals values for tuples and opens them again. The space and its server see only ciphertext.

    It uses AES-256-GCM-SIV (RFC 8452). Values are encoded before they are sealed, so that equality means the same as in
    a space. Source: DepSpace, in paper 002, section 2.

    Parameters
    ----------
    secret : bytes, optional
        32 bytes that all programs which share the values have. Default: new random ones. Keep :attr:`secret` where you
        keep passwords, because nothing can be opened without it.
    objects : bool
        As for :class:`phalanx.Space`: opening a value may then unpickle it.

    Raises
    ------
    TypeError
        The secret is not made of bytes.
    ValueError
        The secret has not 32 bytes.

    Examples
    --------
    >>> import phalanx as px
    >>> key, space = px.space.SealingKey(), px.Space()
    >>> space.out("salary", key.seal("Ada"), key.seal(5000, matched=False))
    >>> key.open_fields(space.rd("salary", key.seal("Ada"), px.space.Sealed))
    ('salary', 'Ada', 5000)
    """

    __slots__ = ("_native", "_objects", "_secret")

    def __init__(self, secret: bytes | bytearray | memoryview | None = None, *, objects: bool = False) -> None:
        self._secret = _native.SealingKey.random() if secret is None else _checked(secret)
        self._native = _native.SealingKey(self._secret)
        self._objects = objects

    @property
    def secret(self) -> bytes:
        """The 32 bytes of the key."""
        return self._secret

    def seal(self, value: Any, *, matched: bool = True) -> Sealed:
        """Seals a value as a field that only this key opens.

        Parameters
        ----------
        value
            The value.
        matched : bool
            Whether a template with the sealed value matches the field. The server of the space then sees which sealed
            fields are equal, and their approximate lengths. With ``False`` no two sealed values are equal. Use that for
            values that no template names.

        Returns
        -------
        Sealed
            The field.

        Raises
        ------
        TypeError
            The value is a formal (a type, ``ANY``, a query). A space cannot look into a sealed field, so
            the formal for one is :class:`phalanx.space.Sealed` itself.
        """
        _refuse_formals(value, self._objects)
        return Sealed(*self._native.seal(value, matched, self._objects))

    def open(self, sealed: Sealed) -> Any:
        """Opens a sealed value. Raises SpaceError if it was sealed with another key, or altered."""
        if not isinstance(sealed, Sealed):
            raise SpaceError(f"{type(sealed).__qualname__} is no sealed value")
        try:
            return self._native.open(*sealed, self._objects)
        except (TypeError, ValueError) as error:
            raise SpaceError(f"this is no value that a key has sealed, or it was altered: {error}") from error

    def open_fields(self, fields: Fields) -> Fields:
        """Opens all sealed fields of a tuple and returns the tuple.

        Raises SpaceError if a field was sealed with another key, or altered. The error names the field and the tuple,
        and shows no sealed value."""
        opened = []
        for at, field in enumerate(fields):
            try:
                opened.append(self.open(field) if isinstance(field, Sealed) else field)
            except SpaceError as error:
                raise SpaceError(f"field {at} of the tuple {reprlib.repr(fields)} cannot be opened: {error}") from error
        return tuple(opened)

    def __repr__(self) -> str:
        return "SealingKey(…)"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a key does not travel by itself: hand on its secret where that is protected")


def _checked(secret: object) -> bytes:
    """The bytes of a secret. An int is refused, because ``bytes(n)`` makes n zeros; so is a text."""
    if not isinstance(secret, bytes | bytearray | memoryview):
        raise TypeError(
            f"a secret is {SECRET} bytes, not {type(secret).__qualname__}: px.SealingKey() makes a new one, and "
            "bytes.fromhex(…) reads one that was written as text"
        )
    if (length := memoryview(secret).nbytes) != SECRET:
        raise ValueError(f"a secret has {SECRET} bytes, not {length}: px.SealingKey().secret is a new one")
    return bytes(secret)


def _refuse_formals(value: Any, objects: bool, depth: int = 0) -> None:
    if type(value) in (tuple, list):
        for part in value if depth < MOST_NESTING else ():
            _refuse_formals(part, objects, depth + 1)
    elif type(value) not in VALUES and _is_formal(value, objects):
        raise TypeError(
            f"{value!r} is a formal, and cannot be sealed: no space can look into a sealed field. px.Sealed is the "
            "formal for all of them"
        )


def _is_formal(value: Any, objects: bool) -> bool:
    if value is ANY or isinstance(value, Query | Field):
        return True
    try:
        return formal_of(value, objects) is not None
    except SpaceError:
        return True  # a type that is no formal in any space
