"""How long and how often to measure."""

from __future__ import annotations

from typing import NamedTuple


class Settings(NamedTuple):
    """Handed to the process that measures a peer."""

    seconds: float  # one sample of a stream, about
    repeats: int  # samples of which the median is taken
    pipeline_tasks: int


FULL = Settings(seconds=0.5, repeats=3, pipeline_tasks=4000)
QUICK = Settings(seconds=0.15, repeats=1, pipeline_tasks=400)
