"""The mark for functions that only read their arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from phalanx.errors import ProgramError

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__phalanx_read_only__"


def read_only(function: F) -> F:
    """Marks a function that only reads the large arrays in its tasks.

    Its interpreter then hands it read-only arrays if they have 64 KiB or more. An assignment to them raises
    ``ValueError``. Without the mark the function owns its arrays. If they lie in memory shared with the manager, the
    system copies every page of 4 KiB at the first write. The mark prevents such a copy by accident. Parts of such an
    array that the function returns arrive read-only too. Arrays that it makes itself are not affected.

    Parameters
    ----------
    function : callable
        The function of a stage, as it is given to a skeleton. In a fused pipeline the mark of its first stage counts.

    Returns
    -------
    callable
        The same function: a decorator.

    Raises
    ------
    ProgramError
        The callable takes no attributes, as callables written in C do not: mark a function that calls it.

    Examples
    --------
    >>> import phalanx as px
    >>> @px.read_only
    ... def mean(picture):
    ...     return float(picture.mean())
    """
    try:
        setattr(function, _MARK, True)
    except (AttributeError, TypeError):
        raise ProgramError(f"{function!r} cannot be marked itself: mark a function that calls it") from None
    return function


def is_read_only(function: Any) -> bool:
    """Whether a callable is marked. For a partial, also whether the function that it calls is marked."""
    while isinstance(function, functools.partial):
        if getattr(function, _MARK, False):
            return True
        function = function.func
    return bool(getattr(function, _MARK, False))
