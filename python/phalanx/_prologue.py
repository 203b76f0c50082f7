"""What an interpreter does once before it fires anything of its manager: it takes the user's packages, and calls the
manager's ``initializer``.

The initializer travels in front of each program's code, because any program may be the first one of an interpreter. An
interpreter that replaces a lost one begins with the program that is fired next.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from phalanx import _native
from phalanx._tokens import PROTOCOL, Code
from phalanx.errors import InitializerError

#: At an interpreter: why each initializer that was called has failed, or None.
_begun: dict[bytes, str | None] = {}


class Prologue:
    """A native manager whose programs all begin with an initializer.

    Parameters
    ----------
    native
        The manager.
    code
        The pickled function and its arguments.
    identity
        By which interpreters know whether they have called the function. Default: that of this object only.
    what
        What the function is, for errors.
    """

    def __init__(
        self, native: _native.Manager, code: Code, *, identity: bytes | None = None, what: str = "the initializer"
    ) -> None:
        self._native = native
        self._code = code
        self._identity = identity or uuid4().bytes
        self._what = what

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._native, name)
        if callable(found):
            setattr(self, name, found)  # found at once from now on
        return found

    def stage(self, instructions: int, code: bytes, marked_code: bool, marked_data: Any, options: Any = ()) -> int:
        """As the native method."""
        marked = self._is_marked(marked_code)
        return self._native.stage(instructions, self._before(code), marked, marked_data, list(options))

    def stage_graph(
        self, entry: Any, instructions: Any, code: bytes, marked_code: bool, marked_data: Any, options: Any = ()
    ) -> int:
        """As the native method."""
        marked = self._is_marked(marked_code)
        return self._native.stage_graph(entry, instructions, self._before(code), marked, marked_data, list(options))

    def _before(self, code: bytes) -> bytes:
        return pickle.dumps(_Begin(self._identity, self._code.pickled, code, self._what), PROTOCOL)

    def _is_marked(self, marked_code: bool) -> bool:
        return marked_code or self._code.marked_code or self._code.marked_data


class _Begin:
    """Unpickles as the functions of a program, after the initializer was called."""

    def __init__(self, *arguments: bytes | str) -> None:
        self._arguments = arguments

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[bytes | str, ...]]:
        return _begin, self._arguments


def _begin(identity: bytes, initializer: bytes, code: bytes, what: str) -> Any:
    if identity not in _begun:
        try:
            function, arguments = pickle.loads(initializer)
            function(*arguments)
            _begun[identity] = None
        except BaseException as error:  # also SystemExit: the user's code does not end the interpreter
            _begun[identity] = f"{type(error).__qualname__}: {error}"
            raise InitializerError(f"{what} raised {_begun[identity]}") from error
    elif reason := _begun[identity]:
        raise InitializerError(f"{what} raised {reason}")
    return pickle.loads(code)
