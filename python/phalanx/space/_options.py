"""Checks whether an existing space has the options that were asked for."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from phalanx.errors import AccessError, SpaceError
from phalanx.space._engine import Engine

#: Seconds: the value that stands for an endless lease, and the smallest difference that counts.
_LONGEST, _LEAST = 3e10, 1e-6
#: Prefixes of limits. A server may grant less than was asked for.
_LIMITS = ("most_", "longest_", "log_")


def check_options(name: str, engine: Engine, asked: Mapping[str, Any]) -> None:
    """Raises SpaceError if the space was made with other options than those in ``asked``. ``secure``, ``durable`` and
    ``group`` are checked when the space is opened, not here."""
    is_as = {option: _is_as(option) for option, value in asked.items() if value is not None}
    if not any(is_as.values()):
        return
    try:
        has = engine.info()["options"]
    except AccessError:
        return  # a client that may only put tuples may not see the options of the space
    for option, fits in is_as.items():
        if fits and option in has and not fits(asked[option], has[option]):
            raise SpaceError(
                f"the space {name} is there already, and was not made with {option}={asked[option]!r}: "
                f"it has {option}={has[option]!r}"
            )


def _is_as(option: str) -> Callable[[Any, Any], bool] | None:
    """The comparison of the asked value with the existing one; None if this module does not check the option."""
    if option.startswith(_LIMITS):
        return lambda asked, has: bool(has <= asked + _LEAST)
    return _FITS.get(option)


def _is_as_long(asked: float, has: float | None) -> bool:
    return has is not None and abs(min(asked, _LONGEST) - has) <= max(_LEAST, has * _LEAST)


def _has_all(asked: list[list[int]], has: list[list[int]]) -> bool:
    return all(positions in has for positions in asked)


_FITS: dict[str, Callable[[Any, Any], bool]] = {
    "order": operator.eq,
    "lease": _is_as_long,
    "indexes": _has_all,
    "boxes": _has_all,
    "automatic_indexes": operator.eq,
}
