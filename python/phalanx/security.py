"""Marks on programs and the policy: what is protected, and where (paper 000, section 4.4; paper 003).

The native core decides the level of every link in one place. It uses the destination of the link, the marks, and the
policy. This module defines the last two.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakSet

from phalanx.errors import PolicyError
from phalanx.words import POLICIES, Mark, Policy, StrPath

#: A policy as the native core reads it: the name of the default, the trusted networks, and the text of a file of rules.
Words = tuple[str, list[str], str | None]
F = TypeVar("F", bound=Callable[..., Any])

#: The objects through which this process may send tokens to other machines.
_ways_out: WeakSet[object] = WeakSet()

_MARKS = "__phalanx_secure__"
_NAMES = {"data": frozenset({"data"}), "code": frozenset({"code"}), "both": frozenset({"data", "code"})}
Marks = frozenset[str]


def secure_data(function: F) -> F:
    """Marks a function whose arguments and results must stay secret (``@secureData`` of paper 000, section 4.4).

    With ``policy="marked"`` they travel over untrusted links at the level private. So do the exceptions that the
    function raises.

    Parameters
    ----------
    function : callable
        The function.

    Returns
    -------
    callable
        The same function: a decorator.

    Raises
    ------
    PolicyError
        The callable takes no attributes.

    Examples
    --------
    >>> import phalanx as px
    >>> @px.secure_data
    ... def diagnose(scan):
    ...     return max(scan)
    """
    return _mark(function, "data")


def secure_code(function: F) -> F:
    """Marks a function whose code must stay secret (``@secureCode`` of paper 000, section 4.4).

    The code of a program that contains the function is staged over untrusted links at the level private.

    Parameters
    ----------
    function : callable
        The function.

    Returns
    -------
    callable
        The same function: a decorator.

    Raises
    ------
    PolicyError
        The callable takes no attributes.

    Examples
    --------
    >>> import phalanx as px
    >>> @px.secure_code
    ... def price(asset):
    ...     return 1.07 * asset
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
    """The marks of a callable: ``"data"``, ``"code"``, both or none. For a partial they include the marks of the
    function that it calls, for an object those of its method ``__call__``."""
    marks: Marks = frozenset()
    while isinstance(function, functools.partial):
        marks |= _own_marks(function)
        function = function.func
    return marks | _own_marks(function) | _own_marks(getattr(type(function), "__call__", None))  # noqa: B004


def leads_elsewhere(way: object) -> None:
    """Records that tokens may leave this machine through ``way``, as long as that object exists."""
    _ways_out.add(way)


def keys_may_travel() -> bool:
    """Whether tokens stay on this machine. Then they may contain the keys of :mod:`multiprocessing`, as the messages of
    the standard library to its own children do."""
    # False at an interpreter, because it does not know on which machine its program is.
    return not _ways_out and "phalanx._interpreter" not in sys.modules


def _own_marks(function: Any) -> Marks:
    marks: object = getattr(function, _MARKS, None)
    return marks if isinstance(marks, frozenset) else frozenset()


def read_mark(secure: Mark | None) -> Marks:
    """The ``secure=`` of a skeleton as marks. Raises PolicyError for another word."""
    if secure is None:
        return frozenset()
    if secure not in _NAMES:
        raise PolicyError(f"secure= is 'data', 'code' or 'both', not {secure!r}")
    return _NAMES[secure]


class Rules:
    """A policy as a table of rules in a TOML file, on top of another policy.

    Each ``[[rule]]`` has conditions, each of which may be left out: ``network`` (``"10.1.0.0/16"``,
    ``"same machine"``, ``"trusted"``, ``"any"``), ``role`` (``"executor"``, ``"user"``) and ``mark`` (``"data"``,
    ``"code"``, ``"none"``). It sets one of ``required``, ``preferred`` and ``never`` to a level. The first rule that
    prefers a level replaces the default. All others limit it. At ``"authenticated"`` both ends prove who they are once,
    and afterwards an attacker on the wire can read and change everything.

    Parameters
    ----------
    path : str or path
        The file.
    policy : {"links", "marked", "all"}
        The policy for links without a preferred level.

    Raises
    ------
    PolicyError
        The file cannot be read, or ``policy`` is none of these.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import phalanx as px
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "rules.toml"
    >>> _ = file.write_text('[[rule]]\\nmark = "data"\\nrequired = "private"\\n')
    >>> with px.Manager(contract=px.ParDegree(1), policy=px.Rules(file)) as manager:
    ...     list(manager.compute(abs, [-1]))
    [1]
    """

    def __init__(self, path: StrPath, *, policy: Policy = "links") -> None:
        policy_words(policy, ())
        self.path = Path(path)
        self.policy = policy
        try:
            self.text = self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise PolicyError(f"the rules in {self.path} cannot be read: {error}") from None

    def __repr__(self) -> str:
        return f"Rules({str(self.path)!r})"


def policy_words(policy: Policy | Rules, trusted: str | Iterable[str]) -> Words:
    """A policy as the native core reads it. Raises PolicyError if it is none."""
    if isinstance(policy, Rules):
        return policy.policy, listed(trusted), policy.text
    if policy not in POLICIES:
        raise PolicyError(f"{policy!r} is no policy: write 'links', 'marked', 'all' or px.Rules(path)")
    return policy, listed(trusted), None


def listed(words: str | Iterable[str]) -> list[str]:
    """Networks or patterns as a list. A single string is one entry; it may contain a `*`."""
    return [words] if isinstance(words, str) else list(words)


def read_policy(text: str) -> Policy | Rules:
    """A policy as the user types it: one of the words, or the path of a file of rules."""
    return text if text in POLICIES else Rules(text)
