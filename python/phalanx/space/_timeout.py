"""The error of a wait that has timed out."""

from __future__ import annotations

import reprlib
from typing import Any

from phalanx.errors import SpaceTimeoutError
from phalanx.space._engine import Fields

#: Maximum characters of a template, and of the name of a space, in the message.
_MOST = 200


class _Short(reprlib.Repr):
    """Shows templates as they are written, with the names of types."""

    def repr1(self, x: Any, level: int) -> str:
        return x.__name__ if isinstance(x, type) else super().repr1(x, level)


def timed_out(space: str, template: Fields) -> SpaceTimeoutError:
    """The error for a request that has timed out. It shows the template."""
    short = _Short()
    short.maxtuple = 8
    return SpaceTimeoutError(f"no tuple like {_cut(short.repr(template))} came to {_cut(space)} in time")


def _cut(text: str) -> str:
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"
