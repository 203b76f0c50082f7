"""Stages the functions of calls, and computes the keys under which they are staged."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Container
from functools import partial
from hashlib import blake2b
from io import BytesIO
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from phalanx import _native
from phalanx._call import Call
from phalanx._outcomes import stage_code
from phalanx._tokens import PROTOCOL, Code, are_plain, is_by_reference
from phalanx.errors import ProgramError
from phalanx.firing import Given, unwrapped
from phalanx.security import marks_of
from phalanx.skeletons import Skeleton

_NO_MARKS: frozenset[str] = frozenset()
_NO_OPTIONS = Given()


def identify(function: Callable[..., Any], staged: Container[Any]) -> tuple[Any, Code | None]:
    """What a function is staged under, and its code if that is not ``staged`` yet.

    Raises
    ------
    StagingError
        Where the function cannot be pickled.
    """
    options = _NO_OPTIONS
    if type(function) is not FunctionType:
        function, options = unwrapped(function)
    marks = _NO_MARKS if type(function) is FunctionType and not function.__dict__ else marks_of(function)
    key = _key_of(function)
    if key is not None:
        found = (key, marks, options)
        return found, None if found in staged else code_of(function)
    # A callable with other state of its own is pickled again each time, and staged again if it has changed.
    code = code_of(function)
    return (blake2b(code.pickled).digest(), marks, options), code


def _key_of(function: Any) -> Any:
    """What stands for a function that is staged once: equal means the same code, and the same state. None where only
    its pickle can tell."""
    kind = type(function)
    if kind is FunctionType:
        # Marks are attributes, so a function that was marked in the meantime is staged again too.
        return function if not function.__closure__ else _key_of_closure(function)
    if kind is partial and not vars(function):
        inner, state = _key_of(function.func), _plain_state((*function.args, *function.keywords.values()))
        return None if inner is None or state is None else (partial, inner, state, tuple(function.keywords))
    if kind is BuiltinFunctionType and isinstance(function.__self__, ModuleType | None):
        return function
    if kind is MethodType:
        inner, state = _key_of(function.__func__), _state_of(function.__self__)
        return None if inner is None or state is None else (MethodType, inner, state)
    return None


def _key_of_closure(function: FunctionType) -> Any:
    try:
        state = _plain_state(tuple(cell.cell_contents for cell in function.__closure__ or ()))
    except ValueError:  # a cell is empty
        return None
    return None if state is None else (function, state)


def _plain_state(values: tuple[Any, ...]) -> bytes | None:
    """A key for plain values. Unlike ``==`` it distinguishes 1 from 1.0 and True, and 0.0 from -0.0."""
    return blake2b(pickle.dumps(values, PROTOCOL)).digest() if are_plain([values]) else None


def code_of(function: Callable[..., Any]) -> Code:
    """The code of a function of any arguments. Raises StagingError where it cannot be pickled, ProgramError for a
    skeleton."""
    if isinstance(function, Skeleton):
        raise ProgramError(f"{function!r} is a skeleton and no function: manager.compute(program, tasks) computes it")
    return stage_code((Call(function),))


def stage(native: _native.Manager, code: Code, marks: frozenset[str], options: Given = _NO_OPTIONS) -> int:
    """Hands a function of any arguments to the manager. Returns the number of its program there."""
    marked_code, marked_data = code.marked_code or "code" in marks, code.marked_data or "data" in marks
    return native.stage(1, code.pickled, marked_code, [(marked_data, marked_data)], [options.native()])


def _state_of(item: Any) -> bytes | None:
    """Stands for an object as it is now; None where it or a function in it does not travel by its name alone, which may
    be marked later."""
    file = BytesIO()
    try:
        _NoFunctions(file, PROTOCOL).dump(item)
    except Exception:  # whatever the object's own reducers raise: staging it tells
        return None
    pickled = file.getvalue()
    return blake2b(pickled).digest() if is_by_reference(pickled) else None


class _NoFunctions(pickle.Pickler):
    def reducer_override(self, item: Any) -> Any:
        if isinstance(item, FunctionType):
            raise pickle.PicklingError("a function")
        return NotImplemented
