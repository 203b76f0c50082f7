"""Code on its way to interpreters, and what comes back that is no result."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from phalanx._tokens import dumps_code, short, unpack
from phalanx.errors import CulpritError, LostError, RemoteTraceback, StagingError


def stage_code(functions: tuple[Callable[..., Any], ...]) -> bytes:
    """The functions of a program as code that an interpreter unpickles. Raises StagingError where that cannot be."""
    try:
        return dumps_code(functions)
    except Exception as error:
        names = ", ".join(getattr(function, "__qualname__", repr(function)) for function in functions)
        raise StagingError(f"the program {names} cannot be pickled: {error}") from error


def failure(kind: str, index: int, what: Any) -> BaseException:
    """The exception that an outcome other than a result stands for."""
    if kind == "raised":
        error, by = what
        pickled, text, task = pickle.loads(error)
        try:
            raised: BaseException = pickle.loads(pickled)
        except Exception as unread:
            raised = StagingError(f"a remote exception cannot be unpickled here: {unread}")
        raised.__cause__ = RemoteTraceback(text, task, index, by)
        return raised
    if kind == "culprit":
        token, place, killed = what
        try:
            task = next(unpack(token, place, 1))
        except Exception as unread:
            task = unread
        message = f"task {index} ended every interpreter that fired it: {short(task)} ({'; '.join(killed)})"
        return CulpritError(message, index, task)
    return LostError("no interpreter is left, and none can be recruited: " + ("; ".join(what) or "none ever answered"))


def unreadable(error: Exception) -> StagingError:
    """Stands for a result that cannot be unpickled here."""
    return StagingError(f"a result cannot be unpickled here: {type(error).__qualname__}: {error}")
