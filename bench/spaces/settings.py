"""How much to measure."""

from __future__ import annotations

from typing import NamedTuple


class Settings(NamedTuple):
    """`rounds`: samples of each figure, ours and Redis' in turn. `seconds`: about what one sample takes at most."""

    rounds: int
    seconds: float
    tuples: int
    many: int


FULL = Settings(rounds=5, seconds=0.3, tuples=100_000, many=1_000_000)
QUICK = Settings(rounds=1, seconds=0.1, tuples=20_000, many=100_000)
