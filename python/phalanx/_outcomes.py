"""Pickles code for interpreters, and turns outcomes other than results into exceptions."""

from __future__ import annotations

import pickle
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from itertools import repeat
from typing import Any

from phalanx._call import Call
from phalanx._tokens import UNKNOWN, Code, dumps_code, short, unpack
from phalanx.errors import (
    CulpritError,
    LostError,
    RecruitError,
    RemoteError,
    RemoteTraceback,
    StagingError,
    TaskTimeoutError,
    in_one_line,
)

#: The kinds of outcomes that tasks have one by one.
SETTLING = ("results", "raised", "culprit", "timed_out", "cancelled")


def stage_code(functions: tuple[Any, ...]) -> Code:
    """Pickles the functions of a program's instructions for interpreters. Raises StagingError if that fails."""
    try:
        return dumps_code(functions)
    except Exception as error:
        names = ", ".join(name_of(function) for function in functions)
        raise StagingError(f"the program {names} cannot be pickled: {error}") from error


def failure(
    kind: str, index: int, what: Any, task: Callable[[], Any] = lambda: UNKNOWN, function: str = ""
) -> BaseException:
    """The exception that an outcome other than a result stands for. Raises only the user's Ctrl-C.

    ``task`` returns the task if its sender still has it, else ``UNKNOWN``. ``function`` is the name of the called
    function.
    """
    try:
        if kind == "culprit":
            size, losses = what
            return culprit(index, size, losses, task(), function)
        if kind == "timed_out":
            timeout, attempts, by = what
            return timed_out(index, timeout, attempts, by, task(), function)
        if kind == "cancelled":
            return CancelledError()
        return _failure(kind, index, what)
    except BaseException as error:
        if is_ctrl_c(error):
            raise
        return StagingError(f"what became of task {index} cannot be read here: {in_one_line(error)}")


def culprit(index: int, size: int, losses: list[str], task: Any, function: str) -> CulpritError:
    """The error that names a task as its sender knows it. Its token is never unpickled in this process, because
    unpickling may be what ended the interpreters."""
    name = f"a token of about {size} bytes" if task is UNKNOWN else short(task)
    call = f", a call of {function}," if function else ""
    message = f"task {index}{call} ended every interpreter that fired it: {name} ({'; '.join(losses)})"
    return CulpritError(message, index, None if task is UNKNOWN else task, size=size, losses=tuple(losses))


def timed_out(index: int, timeout: float, attempts: int, by: str, task: Any, function: str) -> TaskTimeoutError:
    """The error that names a task as its sender knows it."""
    call = f", a call of {function}," if function else ""
    name = "" if task is UNKNOWN else f": {short(task)}"
    tries = f", the last of {attempts} attempts" if attempts > 1 else ""
    message = (
        f"task {index}{call} ran longer than its timeout of {timeout:g} s at {by}{tries}{name}; the interpreter was "
        "ended and replaced. Give px.options a longer timeout=, or find out why the function does not return"
    )
    return TaskTimeoutError(message, index, None if task is UNKNOWN else task, timeout=timeout, interpreter=by)


def name_of(function: Any) -> str:
    """The name of a function in messages; of a call, that of the function that it calls."""
    if isinstance(function, Call):
        return name_of(function.function)
    return getattr(function, "__qualname__", None) or short(function)


def unreadable(error: BaseException) -> StagingError:
    """Stands for a result that cannot be unpickled here."""
    return StagingError(f"a result cannot be unpickled here: {in_one_line(error)}")


def read_outcome(
    kind: str, first: int, what: Any, task: Callable[[], Any] = lambda: UNKNOWN, function: str = ""
) -> Iterator[tuple[Any, BaseException | None]]:
    """The result and the exception of each call of an outcome, for the futures of the calls.

    ``task`` and ``function`` as for :func:`failure`.
    """
    if kind != "results":
        return repeat((None, failure(kind, first, what, task, function)))
    try:
        objects = unpack(what)
    except Exception as error:
        return repeat((None, unreadable(error)))
    if what[2] is None:
        return zip(objects, repeat(None), strict=False)  # plain objects, which are unpickled already
    return (_read_one(objects) for _ in range(what[0]))


def is_ctrl_c(error: BaseException) -> bool:
    """Whether the user pressed Ctrl-C. Python raises that only in the main thread. Elsewhere a pickle raised it."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def _read_one(objects: Iterator[Any]) -> tuple[Any, BaseException | None]:
    try:
        return next(objects), None
    except BaseException as error:
        if is_ctrl_c(error):
            raise
        return None, unreadable(error)


def _failure(kind: str, index: int, what: Any) -> BaseException:
    if kind == "raised":
        error, by = what
        pickled, text, task = pickle.loads(error)
        return _raised(pickled, RemoteTraceback(text, task, index, by))
    if kind == "unrecruited":
        return RecruitError("no interpreter can be recruited: " + _reasons(what))
    return LostError("no interpreter is left, and none can be recruited: " + _reasons(what))


def _reasons(losses: list[str]) -> str:
    """Each reason once, with the number of times it occurred."""
    counts = Counter(losses).items()
    return "; ".join(f"{loss} ({count} times)" if count > 1 else loss for loss, count in counts) or "none ever answered"


def _raised(pickled: bytes, cause: RemoteTraceback) -> BaseException:
    try:
        raised = pickle.loads(pickled)
        if isinstance(raised, BaseException) and not isinstance(raised, Exception):
            raised = RemoteError(f"a task raised {in_one_line(raised)}")  # as it is, SystemExit would end this program
        raised.__cause__ = cause
        if isinstance(raised, Exception):
            return raised
        reason = f"{short(raised)} is no exception"
    except BaseException as unread:
        if is_ctrl_c(unread):
            raise
        reason = in_one_line(unread)
    stand_in = StagingError(f"a remote exception cannot be unpickled here: {reason}")
    stand_in.__cause__ = cause
    return stand_in
