"""Fields that a space can compare and cannot read (DepSpace; paper 002, section 2)."""

from __future__ import annotations

import reprlib
from typing import Any

from phalanx import _native
from phalanx.errors import SpaceError
from phalanx.space._engine import Fields
from phalanx.space._records import Sealed
from phalanx.space._template import ANY, VALUES, formal_of
from phalanx.space._where import Field, Query

#: Bytes of a secret.
SECRET = 32
#: Tuples and lists inside of each other that a tuple holds, at most: the native core refuses more.
MOST_NESTING = 32


class SealingKey:
    """Seals values for tuples, and opens them again: a space, and whoever serves it, sees ciphertext only.

    ``secret``: 32 bytes that all who share the values have; without, new ones. Keep :attr:`secret` where you keep
    passwords: without it nothing can be opened. ``objects``: as for :class:`phalanx.Space`; opening may unpickle then.

    AES-256-GCM-SIV (RFC 8452). The values are encoded first, so that equal means what it means in a space. Raises
    TypeError for a secret that is not made of bytes, ValueError for one of another length.
    """

    __slots__ = ("_native", "_objects", "_secret")

    def __init__(self, secret: bytes | bytearray | memoryview | None = None, *, objects: bool = False) -> None:
        self._secret = _native.SealingKey.random() if secret is None else _checked(secret)
        self._native = _native.SealingKey(self._secret)
        self._objects = objects

    @property
    def secret(self) -> bytes:
        """The key's 32 bytes."""
        return self._secret

    def seal(self, value: Any, *, matched: bool = True) -> Sealed:
        """The value as a field that only this key opens. A template with the sealed value matches it; so whoever
        serves the space sees which sealed fields are equal, and how long they are about. With ``matched=False`` no two
        are equal: for what nobody looks for.

        Raises TypeError for a formal (a type, :data:`phalanx.ANY`, a query): no space can look into a sealed field, so
        the formal for one is :class:`phalanx.Sealed` itself."""
        _refuse_formals(value, self._objects)
        return Sealed(*self._native.seal(value, matched, self._objects))

    def open(self, sealed: Sealed) -> Any:
        """The value. Raises SpaceError if it was sealed with another key, or altered."""
        if not isinstance(sealed, Sealed):
            raise SpaceError(f"{type(sealed).__qualname__} is no sealed value")
        try:
            return self._native.open(*sealed, self._objects)
        except (TypeError, ValueError) as error:
            raise SpaceError(f"this is no value that a key has sealed, or it was altered: {error}") from error

    def open_fields(self, fields: Fields) -> Fields:
        """The tuple with all its sealed fields opened. Raises SpaceError, which names the field and the tuple, if one
        was sealed with another key, or altered; nothing that was sealed is in its text."""
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
    """The bytes of a secret: of no int, which Python would make as many zeros of, and of no text."""
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
