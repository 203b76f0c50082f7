"""Calls of any arguments as tokens: what a submitted function is wrapped in where it is fired."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Call:
    """Makes a function of any arguments one of a single token."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, token: Any) -> Any:
        if type(token) is tuple:
            return self.function(*token)
        args, kwargs = token
        return self.function(*args, **kwargs)


def arguments_of(token: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that a call's token was made of."""
    return (token, {}) if type(token) is tuple else (token[0], token[1])


def token_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The token of a call: a tuple of plain arguments is cheaper to pickle than anything around it."""
    return [args, kwargs] if kwargs else args
