"""Code on its way to interpreters, and what comes back that is no result."""

from __future__ import annotations

import pickle
import threading
import traceback
from collections.abc import Iterator
from itertools import repeat
from typing import Any

from phalanx._tokens import Code, dumps_code, short, unpack
from phalanx.errors import CulpritError, LostError, RecruitError, RemoteError, RemoteTraceback, StagingError


def stage_code(functions: tuple[Any, ...]) -> Code:
    """What a program's instructions fire, as code that an interpreter unpickles. Raises StagingError where that cannot
    be."""
    try:
        return dumps_code(functions)
    except Exception as error:
        names = ", ".join(getattr(function, "__qualname__", repr(function)) for function in functions)
        raise StagingError(f"the program {names} cannot be pickled: {error}") from error


def failure(kind: str, index: int, what: Any) -> BaseException:
    """The exception that an outcome other than a result stands for. Raises nothing but the user's Ctrl-C."""
    try:
        return _failure(kind, index, what)
    except BaseException as error:
        if is_ctrl_c(error):
            raise
        return StagingError(f"what became of task {index} cannot be read here: {words(error)}")


def unreadable(error: BaseException) -> StagingError:
    """Stands for a result that cannot be unpickled here."""
    return StagingError(f"a result cannot be unpickled here: {words(error)}")


def read_outcome(kind: str, first: int, what: Any) -> Iterator[tuple[str, Any]]:
    """What an outcome is for the futures of its calls: the method that settles each, and the method's argument."""
    if kind != "results":
        return repeat(("set_exception", failure(kind, first, what)))
    try:
        objects = unpack(what)
    except Exception as error:
        return repeat(("set_exception", unreadable(error)))
    return (_read_one(objects) for _ in range(what[0]))


def is_ctrl_c(error: BaseException) -> bool:
    """Whether it came from outside: only the main thread hears Ctrl-C. Else the user's pickles raised it."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def words(error: BaseException) -> str:
    """The exception's class and message; also where its ``__str__`` raises."""
    return traceback.format_exception_only(type(error), error)[-1].strip()


def _read_one(objects: Iterator[Any]) -> tuple[str, Any]:
    try:
        return "set_result", next(objects)
    except BaseException as error:
        if is_ctrl_c(error):
            raise
        return "set_exception", unreadable(error)


def _failure(kind: str, index: int, what: Any) -> BaseException:
    if kind == "raised":
        error, by = what
        pickled, text, task = pickle.loads(error)
        return _raised(pickled, RemoteTraceback(text, task, index, by))
    if kind == "culprit":
        token, place, killed = what
        try:
            task = next(unpack(token, place, 1))
        except Exception as unread:
            task = unread
        message = f"task {index} ended every interpreter that fired it: {short(task)} ({'; '.join(killed)})"
        return CulpritError(message, index, task)
    if kind == "unrecruited":
        return RecruitError("no interpreter can be recruited: " + ("; ".join(what) or "none ever answered"))
    return LostError("no interpreter is left, and none can be recruited: " + ("; ".join(what) or "none ever answered"))


def _raised(pickled: bytes, cause: RemoteTraceback) -> BaseException:
    try:
        raised = pickle.loads(pickled)
        if isinstance(raised, BaseException) and not isinstance(raised, Exception):
            raised = RemoteError(f"a task raised {words(raised)}")  # as it is, SystemExit would end this program
        raised.__cause__ = cause
        if isinstance(raised, Exception):
            return raised
        reason = f"{short(raised)} is no exception"
    except BaseException as unread:
        if is_ctrl_c(unread):
            raise
        reason = words(unread)
    stand_in = StagingError(f"a remote exception cannot be unpickled here: {reason}")
    stand_in.__cause__ = cause
    return stand_in
