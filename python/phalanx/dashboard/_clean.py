"""Bounds what a page is told, and makes the texts of others harmless."""

from __future__ import annotations

import math
from typing import Any

from phalanx import _native

#: Longest text in characters, and most entries of a list or an object. A grid may have more members than a page shows.
LONGEST, MOST = 1000, 5000
#: Objects within objects.
_DEEPEST = 8


def clean(value: Any, depth: int = 0) -> Any:
    """A value as JSON has it: texts are one line, without characters that reorder or hide text, and not endless.

    Examples
    --------
    >>> clean({"cause": "gone\\x1b[2J"})
    {'cause': 'gone\\\\x1b[2J'}
    """
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None  # JSON has no other ones
    if depth >= _DEEPEST:
        return "…"
    if isinstance(value, dict):
        return {text(str(key)): clean(one, depth + 1) for key, one in [*value.items()][:MOST]}
    if isinstance(value, list | tuple):
        return [clean(one, depth + 1) for one in value[:MOST]]
    return text(str(value))


def text(words: str) -> str:
    """A text of another machine, in one line, cut after some hundred characters."""
    if words.isascii() and words.isprintable() and len(words) <= LONGEST:
        return words
    cut = words if len(words) <= LONGEST else words[: LONGEST - 1] + "…"
    return _native.escape(cut.encode("utf-8", "backslashreplace"), one=True).decode()
