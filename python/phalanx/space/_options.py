"""Whether a space that is there already is like the one that was asked for."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from phalanx.errors import AccessError, SpaceError
from phalanx.space._engine import Engine

#: Seconds that an endless lease is told as, and the least that is told apart.
_LONGEST, _LEAST = 3e10, 1e-6
#: A server may give less of these than was asked for.
_LIMITS = ("most_", "longest_", "log_")


def check_options(name: str, engine: Engine, asked: Mapping[str, Any]) -> None:
    """Raises SpaceError where the space was made with other options than those that are asked for. ``secure``,
    ``durable`` and ``group`` were looked at when it was opened."""
    is_as = {option: _is_as(option) for option, value in asked.items() if value is not None}
    if not any(is_as.values()):
        return
    try:
        has = engine.info()["options"]
    except AccessError:
        return  # who may only put tuples is not told what the space is like
    for option, fits in is_as.items():
        if fits and option in has and not fits(asked[option], has[option]):
            raise SpaceError(
                f"the space {name} is there already, and was not made with {option}={asked[option]!r}: "
                f"it has {option}={has[option]!r}"
            )


def _is_as(option: str) -> Callable[[Any, Any], bool] | None:
    """How what was asked is compared with what there is; None: not here."""
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
