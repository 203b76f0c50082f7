"""Sealed fields: a space can compare them but cannot read them (DepSpace; paper 002, section 2)."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
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

    A sealed value opens only where it was sealed, so that whoever takes tuples cannot swap values between them:

    - a *matched* value, which templates find, in the same position of a tuple;
    - a *hidden* value, which nothing finds, only in its own tuple: beside the same other fields.

    It uses AES-256-GCM-SIV (RFC 8452). Values are encoded before they are sealed, so that equality means the same as in
    a space. Source: DepSpace, in paper 002, section 2.

    Parameters
    ----------
    secret : bytes, optional
        32 bytes that all programs which share the values have. Default: new random ones. Keep :attr:`secret` where you
        keep passwords, because nothing can be opened without it.
    context : str
        What the values are for, like the name of the space. They open only with a key of the same context.
    objects : bool
        As for :class:`phalanx.Space`: opening a value may then unpickle it.

    Raises
    ------
    TypeError
        The secret is not made of bytes, or the context is no text.
    ValueError
        The secret has not 32 bytes.

    Examples
    --------
    >>> import phalanx as px
    >>> key, space = px.space.SealingKey(context="salaries"), px.Space()
    >>> space.out(*key.seal_fields(("salary", "Ada", 5000), matched=[1], hidden=[2]))
    >>> fields = space.rd("salary", key.seal("Ada", at=1), px.space.Sealed)
    >>> key.open_fields(fields, matched=[1], hidden=[2])
    ('salary', 'Ada', 5000)
    """

    __slots__ = ("_context", "_native", "_objects", "_secret")

    def __init__(
        self, secret: bytes | bytearray | memoryview | None = None, *, context: str = "", objects: bool = False
    ) -> None:
        if not isinstance(context, str):
            raise TypeError(f"a context is a text, not {type(context).__qualname__}")
        self._secret = _native.SealingKey.random() if secret is None else _checked(secret)
        self._context = context
        self._native = _native.SealingKey(self._secret, context.encode())
        self._objects = objects

    @property
    def secret(self) -> bytes:
        """The 32 bytes of the key."""
        return self._secret

    @property
    def context(self) -> str:
        """What the values are for."""
        return self._context

    def seal(self, value: Any, *, at: int) -> Sealed:
        """Seals a value that a template finds, as a field that only this key opens.

        Parameters
        ----------
        value
            The value. The server of the space sees which sealed fields in this position are equal, and their lengths.
        at : int
            The position of the field in its tuple, from 0. The value opens, and matches, in no other.

        Returns
        -------
        Sealed
            The field. It is the same every time.

        Raises
        ------
        TypeError
            The value is a formal (a type, ``ANY``, a query). A space cannot look into a sealed field, so
            the formal for one is :class:`phalanx.space.Sealed` itself.
        ValueError
            There is no such position.
        """
        _refuse_formals(value, self._objects)
        return Sealed(*self._native.seal(value, _position(at), self._objects))

    def seal_fields(self, fields: Iterable[Any], *, matched: Iterable[int] = (), hidden: Iterable[int] = ()) -> Fields:
        """Seals some fields of a tuple, and returns the tuple.

        Parameters
        ----------
        fields
            The values of the tuple.
        matched
            Positions of the values that templates find, sealed as by :meth:`seal`.
        hidden
            Positions of the values that nothing finds. No two of them are equal when sealed. They are bound to all
            other fields, and to each other.

        Returns
        -------
        tuple
            The fields for :meth:`phalanx.Space.out`.

        Raises
        ------
        TypeError
            A value to be sealed is a formal.
        ValueError
            There is no such position, or it is named twice.

        Examples
        --------
        >>> import phalanx as px
        >>> px.space.SealingKey().seal_fields(("patient", "Meier", "A+"), matched=[1], hidden=[2])[0]
        'patient'
        """
        sealed = list(fields)
        first, last = _positions(matched, len(sealed)), _positions(hidden, len(sealed))
        if both := set(first) & set(last):
            raise ValueError(f"position {min(both)} is matched or hidden, not both")
        for at in first:
            sealed[at] = self.seal(sealed[at], at=at)
        if last:
            seen = _native.SealedTuple(tuple(sealed), last)
            for at in last:
                _refuse_formals(sealed[at], self._objects)
                sealed[at] = Sealed(*self._native.seal(sealed[at], at, self._objects, seen))
        return tuple(sealed)

    def open(self, sealed: Sealed, *, at: int) -> Any:
        """Opens a matched value in its position.

        Raises SpaceError if the value was sealed with another key or for another place, or was altered. A hidden value
        raises it too: :meth:`open_fields` opens it together with its tuple.

        Parameters
        ----------
        sealed : Sealed
            The value, as the space returned it.
        at : int
            Its position in the tuple.

        Returns
        -------
        object
            The value that was sealed.

        Raises
        ------
        SpaceError
            It was sealed with another key or for another place, or altered, or it is a hidden value.
        """
        return self._open(sealed, _position(at), None)

    def open_fields(
        self, fields: Fields, *, matched: Iterable[int] | None = None, hidden: Iterable[int] | None = None
    ) -> Fields:
        """Opens all sealed fields of a tuple and returns the tuple.

        Parameters
        ----------
        fields
            The tuple, as the space returned it.
        matched, hidden
            The positions that were sealed so. Name them: without them, a tuple in which somebody replaced a sealed
            value by a plain one is opened too.

        Returns
        -------
        tuple
            The tuple with plain values.

        Raises
        ------
        SpaceError
            A field was sealed with another key or for another tuple, or altered, or is not sealed as it should be.
            The error names the field and the tuple, and shows no sealed value.
        """
        kinds = {at: self._number(field) for at, field in enumerate(fields) if isinstance(field, Sealed)}
        secrets = [at for at, number in kinds.items() if number is not None]
        for word, asked, are in (("matched", matched, set(kinds) - set(secrets)), ("hidden", hidden, set(secrets))):
            if asked is not None and (wrong := are ^ set(_positions(asked, len(fields)))):
                at = min(wrong)
                does = "is" if at in are else "is not"
                raise SpaceError(f"field {at} of the tuple {reprlib.repr(fields)} {does} sealed as a {word} value")
        tuples = {number: _native.SealedTuple(fields, secrets, number) for number in {kinds[at] for at in secrets}}
        if len(tuples) > 1:
            raise SpaceError(f"the hidden fields of {reprlib.repr(fields)} are from different tuples")
        opened = list(fields)
        for at, number in kinds.items():
            try:
                opened[at] = self._open(fields[at], at, tuples.get(number))
            except SpaceError as error:
                raise SpaceError(f"field {at} of the tuple {reprlib.repr(fields)} cannot be opened: {error}") from error
        return tuple(opened)

    @staticmethod
    def _number(sealed: Sealed) -> bytes | None:
        """The number of the tuple of a hidden value; None: it is not hidden."""
        return _native.SealedTuple.number_of(sealed.ciphertext) if isinstance(sealed.ciphertext, bytes) else None

    def _open(self, sealed: Sealed, at: int, seen: _native.SealedTuple | None) -> Any:
        if not isinstance(sealed, Sealed):
            raise SpaceError(f"{type(sealed).__qualname__} is no sealed value")
        try:
            return self._native.open(*sealed, at, self._objects, seen)
        except (TypeError, ValueError) as error:
            raise SpaceError(f"this is no value that a key has sealed, or it was altered: {error}") from error

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


def _position(at: int) -> int:
    if not isinstance(at, int) or at < 0:
        raise ValueError(f"{at!r} is no position of a field: write 0 or more")
    return at


def _positions(asked: Iterable[int], length: int) -> list[int]:
    """Positions in a tuple of that length, sorted."""
    positions = sorted(_position(at) for at in asked)
    if positions and positions[-1] >= length:
        raise ValueError(f"a tuple of {length} fields has no position {positions[-1]}")
    if len(set(positions)) < len(positions):
        raise ValueError(f"a position is named twice: {positions}")
    return positions


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
