"""Numbers as words of the command line: seconds and rates."""

from __future__ import annotations

import math
import re
from typing import Any

import click


class Seconds(click.FloatRange):
    """NaN is in every range of click's."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds: float = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value} is no number of seconds", param, ctx)
        return seconds


#: A rate of rsync: K, M, G, T and KiB count in powers of 1024, KB in powers of 1000.
_BWLIMIT = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[kmgt]?)(?P<base>b|ib)?", re.IGNORECASE)


def read_bwlimit(context: click.Context, option: click.Parameter, word: str | None) -> int | None:
    """The bytes a second that ``--bwlimit`` stands for; None for ``0``, which is no limit."""
    if word is None:
        return None
    match = _BWLIMIT.fullmatch(word)
    if match is None or (match["base"] and not match["unit"]):
        raise click.BadParameter(f"{word!r}: write KiB a second, or a number with K, M or G", context, option)
    base = 1000 if (match["base"] or "").lower() == "b" else 1024
    power = "kmgt".index(match["unit"].lower()) + 1 if match["unit"] else 1
    number = float(match["number"])
    return max(1, int(number * base**power)) if number else None
