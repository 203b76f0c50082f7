"""How much to measure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """``rounds``: samples of each figure, both sides in turn. ``gigabytes`` of one of ours, and about that of others.

    ``files`` of 4 KB; ``seconds`` of those who go by time, and about that over shaped links.
    """

    rounds: int
    gigabytes: float
    files: int
    seconds: float


FULL = Settings(rounds=5, gigabytes=4, files=10_000, seconds=2)
QUICK = Settings(rounds=1, gigabytes=0.5, files=500, seconds=0.3)
