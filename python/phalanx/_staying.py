"""Tokens that stay at their interpreter, on the way from one instruction to the next.

The next instruction gets the same as if the token had travelled: an object of its own, with writable arrays. This
object shares nothing with objects that the user's code has kept. If only the token refers to an array, no copy is
needed. Tokens are handed over in a *box*, a list of one item, so that no name refers to a token while its references
are counted.
"""

from __future__ import annotations

import pickle
import sys
from typing import Any

from phalanx._native import Region, bytes_if_alone
from phalanx._tokens import PLAIN, Token, short
from phalanx.errors import StagingError


def settle(box: list[Any], heavy: int) -> int:
    """Fixes the token in a box, so that the user's code cannot change it any more. Returns its approximate bytes.

    Raises
    ------
    StagingError
        It cannot be pickled.
    """
    if type(box[0]) in PLAIN:
        return sys.getsizeof(box[0])
    size = bytes_if_alone(box)
    if size is None or size < heavy:  # a token that is not heavy will travel, so it is pickled
        box[0] = kept(box[0])
        size = size_of(box[0])
    return size


def take(box: list[Any], read_only: bool) -> Any:
    """Takes the token out of a settled box, in the form for the next instruction."""
    token = box.pop()
    if type(token) is Token:
        return _thawed(token, read_only)
    if read_only:
        _protect(token)
    return token


def kept(token: Any) -> Any:
    """A token as it is now, because the user's code may keep the object and change it. Raises as :func:`settle`."""
    return token if type(token) in PLAIN or type(token) is Token else frozen(token)


def frozen(token: Any) -> Token:
    """As :func:`kept`, for a token that is not plain."""
    try:
        return Token(token)
    except Exception as error:
        raise StagingError(f"the result {short(token)} cannot be pickled: {error}") from error


def size_of(token: Any) -> int:
    """The approximate bytes of a token that is :func:`kept`."""
    if type(token) is Token:
        return len(token.pickled) + sum(buffer.nbytes for buffer in token.buffers)
    return sys.getsizeof(token)


def is_large(token: Any) -> bool:
    """Whether a token that is :func:`kept` lies in memory that the user's code may change."""
    return type(token) is Token and bool(token.buffers)


def _thawed(token: Token, read_only: bool) -> Any:
    """The object that the next instruction gets. It shares memory with the original only if nothing else refers to
    it."""
    regions = map(Region.alone, token.buffers)
    buffers: list[Any] = [memoryview(region).toreadonly() if read_only else region for region in regions]
    return pickle.loads(token.pickled, buffers=buffers)


def _protect(token: Any) -> None:
    """Makes the arrays of an unshared token read-only."""
    if type(token) in {list, tuple}:
        for item in token:
            _protect(item)
    elif type(token) is dict:
        for item in token.values():
            _protect(item)
    elif type(token) not in PLAIN:
        token.setflags(write=False)
