"""What was waited for in vain, in words."""

from __future__ import annotations

import reprlib
from typing import Any

from phalanx.errors import SpaceTimeoutError
from phalanx.space._engine import Fields

#: Characters of a template, and of a space's name, at most.
_MOST = 200


class _Short(reprlib.Repr):
    """Templates as they are written: with the names of types."""

    def repr1(self, x: Any, level: int) -> str:
        return x.__name__ if isinstance(x, type) else super().repr1(x, level)


def timed_out(space: str, template: Fields) -> SpaceTimeoutError:
    """The error of who has waited for a tuple, with what it was to be like."""
    short = _Short()
    short.maxtuple = 8
    return SpaceTimeoutError(f"no tuple like {_cut(short.repr(template))} came to {_cut(space)} in time")


def _cut(text: str) -> str:
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"
