"""The content of a graph's instructions. :mod:`phalanx._compile` makes it, and interpreters fire it.

An instruction is a sequence of steps. A step is a function, or a :class:`Branch`, at which a token may leave. The
result of the last step is the token of the instruction, or an iterable of its parts if the instruction splits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from phalanx._call import Call
from phalanx.arrays import is_read_only

Function = Callable[..., Any]

#: Maximum number of parts of a task. The engine takes no more from an interpreter.
MOST_PARTS = 1 << 20
#: Maximum bytes of all parts of a task.
MOST_BYTES = 1 << 30


class Branch:
    """A step at which a token may leave the instruction by the other way."""

    def decide(self, token: Any) -> tuple[bool, Any]:
        """Whether the token stays, and the token."""
        raise NotImplementedError


class Instruction:
    """The steps that are fired together."""

    def __init__(self, steps: tuple[Function | Branch, ...], *, splits: bool = False, branches: bool = False) -> None:
        self.steps = steps
        self.splits = splits
        #: Whether the answers say for each token which way it goes, or into how many parts.
        self.branches = branches

    def __repr__(self) -> str:
        return ", ".join(getattr(step, "__qualname__", None) or repr(step) for step in self.steps)

    def fire(self, token: Any) -> tuple[bool, Any]:
        """Fires all steps. Returns whether the token goes on, and the resulting token."""
        for step in self.steps:
            if isinstance(step, Branch):
                stays, token = step.decide(token)
                if not stays:
                    return False, token
            else:
                token = step(token)
        return True, token


class Fused:
    """Functions that are fired together as one."""

    def __init__(self, functions: tuple[Function, ...]) -> None:
        self.functions = functions

    def __repr__(self) -> str:
        return ", ".join(getattr(function, "__qualname__", None) or repr(function) for function in self.functions)

    def __call__(self, token: Any) -> Any:
        """The result of the last function."""
        for function in self.functions:
            token = function(token)
        return token


class Inputs:
    """Calls a function with the tokens of a group as its arguments."""

    def __init__(self, function: Function) -> None:
        self.function = function

    def __repr__(self) -> str:
        return getattr(self.function, "__qualname__", None) or repr(self.function)

    def __call__(self, tokens: list[Any]) -> Any:
        """The result of the function."""
        return self.function(*tokens)


class While:
    """A loop that is one function."""

    def __init__(self, condition: Function, body: Function) -> None:
        self.condition = condition
        self.body = body

    def __repr__(self) -> str:
        return f"loop of {getattr(self.body, '__qualname__', None) or repr(self.body)}"

    def __call__(self, token: Any) -> Any:
        """The token when the condition does not hold any more."""
        while self.condition(token):
            token = self.body(token)
        return token


class Test(Branch):
    """Lets a token leave if a condition does not hold for it."""

    __test__ = False  # tells pytest that this class is no test

    def __init__(self, condition: Function) -> None:
        self.condition = condition

    def __repr__(self) -> str:
        return getattr(self.condition, "__qualname__", None) or repr(self.condition)

    def decide(self, token: Any) -> tuple[bool, Any]:
        """The token itself, one way or the other."""
        return bool(self.condition(token)), token


def takes_read_only(function: Any) -> bool:
    """Whether the first function of an instruction only reads its arrays (:func:`phalanx.read_only`)."""
    if isinstance(function, Instruction | Fused):
        first = function.steps if isinstance(function, Instruction) else function.functions
        return bool(first) and takes_read_only(first[0])  # one that only splits has no steps
    return takes_read_only(function.function) if isinstance(function, Inputs | Call) else is_read_only(function)


class Groups:
    """The tokens of a firing in groups of the given sizes. If a token cannot be unpickled, its group raises, and the
    next group is complete again."""

    def __init__(self, tokens: Iterator[Any], sizes: list[int]) -> None:
        self._tokens = tokens
        self._sizes = iter(sizes)

    def __iter__(self) -> Groups:
        return self

    def __next__(self) -> list[Any]:
        group: list[Any] = []
        failure: Exception | None = None
        for _ in range(next(self._sizes)):
            try:
                group.append(next(self._tokens))
            except StopIteration:
                raise RuntimeError("tokens are missing") from None
            except Exception as error:
                failure = error
        if failure is not None:
            raise failure
        return group
