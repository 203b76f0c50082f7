"""Deadlines on the monotonic clock."""

from __future__ import annotations

from time import monotonic


def deadline(timeout: float | None) -> float | None:
    """The deadline ``timeout`` seconds from now; None: never."""
    return None if timeout is None else monotonic() + timeout


def left(until: float | None) -> float | None:
    """Seconds until a deadline; 0 if it has passed. None: no limit."""
    return None if until is None else max(0.0, until - monotonic())


def is_over(until: float | None) -> bool:
    """Whether a deadline has passed."""
    return until is not None and monotonic() >= until
