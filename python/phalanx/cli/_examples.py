"""Examples at the end of a help text. Man pages and the site show the same ones."""

from __future__ import annotations

#: click does not wrap a paragraph that begins with this line.
_AS_IT_IS = "\b\n"
_TITLE = "Examples:\n"


def examples(*commands: str) -> str:
    """The epilog of a command: its examples, each a line that a user can type."""
    return _AS_IT_IS + _TITLE + "\n".join(f"  {command}" for command in commands)


def examples_in(epilog: str | None) -> list[str]:
    """The examples of an epilog that :func:`examples` has made."""
    _, _, lines = (epilog or "").partition(_TITLE)
    return [line.strip() for line in lines.splitlines()]
