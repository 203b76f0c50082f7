"""What a function may do with the arrays that it is given."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from phalanx.errors import ProgramError

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__phalanx_read_only__"


def read_only(function: F) -> F:
    """Marks a function that only reads the large arrays in its tasks.

    Its interpreter then hands it arrays of 64 KiB and more that cannot be written: an assignment raises ``ValueError``.
    Without the mark the arrays are the function's own, and where they lie in memory shared with the manager, the
    system copies every page of 4 KiB that the function writes first. With the mark no function can make such a copy
    by accident. What it returns of such an array arrives read-only too; arrays that it makes itself are not concerned.

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
        The callable takes no attributes, as those of C do not: mark a function that calls it.

    Example
    -------
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
    """Whether a callable is marked, or, of a partial, what that calls."""
    while isinstance(function, functools.partial):
        if getattr(function, _MARK, False):
            return True
        function = function.func
    return bool(getattr(function, _MARK, False))
