"""Fields that a space can compare and cannot read (DepSpace; paper 002, section 2)."""

from __future__ import annotations

from typing import Any

from phalanx import _native
from phalanx.errors import SpaceError
from phalanx.space._records import Sealed


class SealingKey:
    """Seals values for tuples, and opens them again: a space, and whoever serves it, sees ciphertext only.

    ``secret``: 32 bytes that all who share the values have; without, new ones. Keep :attr:`secret` where you keep
    passwords: without it nothing can be opened. ``objects``: as for :class:`phalanx.Space`; opening may unpickle then.

    AES-256-GCM-SIV (RFC 8452). The values are encoded first, so that equal means what it means in a space. Raises
    ValueError for a secret of another length.
    """

    def __init__(self, secret: bytes | None = None, *, objects: bool = False) -> None:
        self._secret = _native.SealingKey.random() if secret is None else bytes(secret)
        self._native = _native.SealingKey(self._secret)
        self._objects = objects

    @property
    def secret(self) -> bytes:
        """The key's 32 bytes."""
        return self._secret

    def seal(self, value: Any, *, matched: bool = True) -> Sealed:
        """The value as a field that only this key opens. A template with the sealed value matches it; so whoever
        serves the space sees which sealed fields are equal, and how long they are about. With ``matched=False`` no two
        are equal: for what nobody looks for."""
        return Sealed(*self._native.seal(value, matched, self._objects))

    def open(self, sealed: Sealed) -> Any:
        """The value. Raises SpaceError if it was sealed with another key, or altered."""
        if not isinstance(sealed, Sealed):
            raise SpaceError(f"{type(sealed).__qualname__} is no sealed value")
        return self._native.open(*sealed, self._objects)

    def __repr__(self) -> str:
        return "SealingKey(…)"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a key does not travel by itself: hand on its secret where that is protected")
