"""Where commands print tables."""

from __future__ import annotations

from rich.console import Console


def console(width: int) -> Console:
    """Standard output; what is no terminal gets lines of this many columns."""
    found = Console()
    return found if found.is_terminal else Console(width=width)
