"""How much to measure."""

from __future__ import annotations

from typing import NamedTuple


class Settings(NamedTuple):
    """`rounds`: processes started for each figure, libraries in turn. `seconds`: of one operation in one."""

    rounds: int
    seconds: float


FULL = Settings(rounds=5, seconds=0.3)
QUICK = Settings(rounds=1, seconds=0.05)
