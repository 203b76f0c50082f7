"""What is to be protected, and where: marks on programs, and the policy (paper 000, section 4.4; paper 003).

The level of every link is decided in one place, from where it goes, what is marked, and the policy. These are the words
for the last two.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakSet

from phalanx.errors import PolicyError

#: Which default, networks that are trusted, the text of a file of rules: what the native core reads.
Words = tuple[str, list[str], str | None]
F = TypeVar("F", bound=Callable[..., Any])

#: What this process may send tokens to other machines through.
_ways_out: WeakSet[object] = WeakSet()

_MARKS = "__phalanx_secure__"
_NAMES = {"data": frozenset({"data"}), "code": frozenset({"code"}), "both": frozenset({"data", "code"})}
Marks = frozenset[str]


def secure_data(function: F) -> F:
    """Marks a function whose arguments and results nobody else may read (paper 000's ``@secureData``).

    With ``policy="marked"`` they travel on untrusted links at the level private, with the exceptions it raises. A
    decorator; it returns the function itself.
    """
    return _mark(function, "data")


def secure_code(function: F) -> F:
    """Marks a function whose code nobody else may read (paper 000's ``@secureCode``).

    The code of the program that has it is then staged over untrusted links at the level private. A decorator; it
    returns the function itself.
    """
    return _mark(function, "code")


def _mark(function: F, name: str) -> F:
    try:
        if isinstance(function, staticmethod | classmethod):
            raise TypeError
        setattr(function, _MARKS, marks_of(function) | _NAMES[name])
    except (AttributeError, TypeError):
        raise PolicyError(
            f"{function!r} cannot be marked itself: mark the function in it, or wrap it, "
            f"px.Farm({getattr(function, '__name__', 'function')}, secure={name!r})"
        ) from None
    return function


def marks_of(function: Any) -> Marks:
    """What of a callable is marked: ``"data"``, ``"code"``, both or nothing. Of a partial also what it calls, of an
    object also its method ``__call__``."""
    marks: Marks = frozenset()
    while isinstance(function, functools.partial):
        marks |= _own_marks(function)
        function = function.func
    return marks | _own_marks(function) | _own_marks(getattr(type(function), "__call__", None))  # noqa: B004


def leads_elsewhere(way: object) -> None:
    """Says that tokens may leave this machine through ``way``, as long as that exists."""
    _ways_out.add(way)


def keys_may_travel() -> bool:
    """Whether tokens stay on this machine, so that the keys of :mod:`multiprocessing` may be in them, as they are in
    what the standard library tells its own children."""
    # An interpreter does not know where its program is.
    return not _ways_out and "phalanx._interpreter" not in sys.modules


def _own_marks(function: Any) -> Marks:
    marks: object = getattr(function, _MARKS, None)
    return marks if isinstance(marks, frozenset) else frozenset()


def read_mark(secure: str | None) -> Marks:
    """A skeleton's ``secure=`` as marks. Raises PolicyError."""
    if secure is None:
        return frozenset()
    if secure not in _NAMES:
        raise PolicyError(f"secure= is 'data', 'code' or 'both', not {secure!r}")
    return _NAMES[secure]


class Rules:
    """A policy as a table of rules in a file (TOML), over the policy ``"links"``.

    Each ``[[rule]]`` says with ``network`` (``"10.1.0.0/16"``, ``"same machine"``, ``"trusted"``, ``"any"``), ``role``
    (``"executor"``, ``"user"``) and ``mark`` (``"data"``, ``"code"``, ``"none"``), each of which may be left out, what
    it is about, and with one of ``required``, ``preferred`` and ``never`` = a level, what it says. The first rule that
    prefers a level takes the default's place; all others limit it.
    """

    def __init__(self, path: str | os.PathLike[str], *, policy: str = "links") -> None:
        self.path = Path(path)
        self.policy = policy
        try:
            self.text = self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise PolicyError(f"the rules in {self.path} cannot be read: {error}") from None

    def __repr__(self) -> str:
        return f"Rules({str(self.path)!r})"


def policy_words(policy: str | Rules, trusted: str | Iterable[str]) -> Words:
    """A policy as the native core reads it."""
    if isinstance(policy, Rules):
        return policy.policy, listed(trusted), policy.text
    if not isinstance(policy, str):
        raise PolicyError(f"{policy!r} is no policy: write 'links', 'marked', 'all' or px.Rules(path)")
    return policy, listed(trusted), None


def listed(words: str | Iterable[str]) -> list[str]:
    """Networks or patterns as a list. A string alone is one of them: its letters may have a `*`."""
    return [words] if isinstance(words, str) else list(words)


def read_policy(text: str) -> str | Rules:
    """A policy as it is typed: one of the words, or the path of a file of rules."""
    return text if text in ("links", "marked", "all") else Rules(text)
