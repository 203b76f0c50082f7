"""State per interpreter: values that are made once in each interpreter, like a model that takes long to load."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast
from uuid import uuid4
from weakref import WeakKeyDictionary

from phalanx.errors import ProgramError

T = TypeVar("T")

_MISSING: Any = object()
_lock = threading.RLock()
#: By which interpreters know the value of a function, however often the function is named here.
_identities: WeakKeyDictionary[Callable[..., Any], bytes] = WeakKeyDictionary()
#: At an interpreter: the setups that came with programs. Each keeps its value for the next program.
_came: dict[object, PerInterpreter[Any]] = {}


class PerInterpreter(Generic[T]):
    """A function whose value is made once in each interpreter. :func:`per_interpreter` makes it."""

    def __init__(self, function: Callable[[], T], identity: bytes) -> None:
        self._function = function
        self._identity = identity
        self._value: T = _MISSING
        self._making = threading.RLock()
        functools.update_wrapper(cast("Any", self), function)

    def __call__(self) -> T:
        """The value. The first call in an interpreter makes it. If that raises, the next call tries again."""
        if self._value is _MISSING:
            with self._making:
                if self._value is _MISSING:
                    self._value = self._function()
        return self._value

    def __reduce__(self) -> str | tuple[Any, ...]:
        name = getattr(self, "__qualname__", "")
        if _finds(getattr(self, "__module__", None), name) is self:
            return name  # the other side imports it
        return _arrived, (self._identity, name, self._function)

    def __repr__(self) -> str:
        return f"per_interpreter({getattr(self, '__qualname__', self._function)})"


def per_interpreter(function: Callable[[], T]) -> PerInterpreter[T]:
    """Makes the value of a function once in each interpreter, and keeps it for all tasks there.

    Tasks call the function for the value. The first one that does waits until it is made. The value stays as long as
    the interpreter, also for later computations of the same manager. An interpreter that replaces a lost one makes its
    own. ``px.Manager(initializer=model)`` makes the value before the first task.

    Parameters
    ----------
    function
        A function without arguments, like one that loads a model or opens a connection. Its value never travels, so it
        may be anything. If it raises, the task that called it raises the same, and the next task tries again.

    Returns
    -------
    PerInterpreter
        Stands for the function; a call returns the value.

    Raises
    ------
    ProgramError
        ``function`` cannot be called.

    Examples
    --------
    >>> import os
    >>> import phalanx as px
    >>> @px.per_interpreter
    ... def table():
    ...     return {"pid": os.getpid(), "squares": [n * n for n in range(1000)]}
    >>> with px.Manager(contract=px.ParDegree(1)) as manager:
    ...     list(manager.map(lambda n: table()["squares"][n], [2, 3]))
    [4, 9]
    """
    if isinstance(function, PerInterpreter):
        return function
    if not callable(function):
        raise ProgramError(f"{function!r:.60} cannot be called: write a function that makes the value")
    with _lock:
        try:
            identity = _identities.setdefault(function, uuid4().bytes)
        except TypeError:  # there are no weak references to it
            identity = uuid4().bytes
    return PerInterpreter(function, identity)


class Prepared:
    """A function of a value and a task, as a function of the task: ``px.Farm(function, setup=…)``."""

    def __init__(self, function: Callable[[Any, Any], Any], setup: PerInterpreter[Any]) -> None:
        self.function = function
        self.setup = setup
        functools.update_wrapper(cast("Any", self), function)  # also its marks

    def __call__(self, task: Any) -> Any:
        """The function's result for the task."""
        return self.function(self.setup(), task)


def _arrived(identity: bytes, name: str, function: Callable[[], T]) -> PerInterpreter[T]:
    """The setup at this interpreter, with the value that an earlier program has made.

    A function of the same name that was defined anew, as in a cell of a notebook that runs again, takes the place of
    the old one, so that the old value can go.
    """
    module = getattr(function, "__module__", None)
    key = identity if "<" in name else (module, name)
    with _lock:
        found = _came.get(key)
        if found is None or found._identity != identity:
            found = _came[key] = PerInterpreter(function, identity)
        return found


def _finds(module: str | None, name: str) -> Any:
    """What another process finds by this name. None: nothing, or the module is one that only this process has."""
    if module is None or module == "__main__" or "<" in name:
        return None
    cloudpickle = sys.modules.get("cloudpickle")
    registered = cloudpickle.list_registry_pickle_by_value() if cloudpickle is not None else ()
    if any(module == one or module.startswith(f"{one}.") for one in registered):
        return None
    try:
        return functools.reduce(getattr, name.split("."), sys.modules.get(module))
    except AttributeError:
        return None
