"""Calls with any arguments as tokens, and the wrapper in which interpreters fire a submitted function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Call:
    """Wraps a function of any arguments as a function of a single token."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, token: Any) -> Any:
        if type(token) is tuple:
            return self.function(*token)
        args, kwargs = token
        return self.function(*args, **kwargs)


def arguments_of(token: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments from which the token of a call was made."""
    return (token, {}) if type(token) is tuple else (token[0], token[1])


def token_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The token of a call. Plain arguments stay a bare tuple, because that is cheaper to pickle than a wrapper."""
    return [args, kwargs] if kwargs else args
