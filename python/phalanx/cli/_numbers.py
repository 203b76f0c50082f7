"""Numbers as words of the command line: counts, seconds and rates."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, TypeAlias

import click

if TYPE_CHECKING:
    IntType: TypeAlias = click.ParamType[int, Any]
    FloatType: TypeAlias = click.ParamType[float, Any]
else:  # in older versions of click the type is not generic
    IntType = FloatType = click.ParamType


def _outside(number: float, least: float, most: float | None) -> str | None:
    """What is wrong with a number that is not between two bounds."""
    if number < least:
        return f"{number} is too small: write {least} or more."
    if most is not None and number > most:
        return f"{_shortened(str(number))} is too large: write {most} or less."
    return None


class Count(IntType):
    """A whole number. Errors name its bounds in words, where click's own range shows an inequality."""

    name = "n"

    def __init__(self, least: int, most: int | None = None) -> None:
        self.least, self.most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number; an error if it is none, or outside of the bounds."""
        number = int(click.INT.convert(value, param, ctx))
        if wrong := _outside(number, self.least, self.most):
            self.fail(wrong, param, ctx)
        return number


class Seconds(FloatType):
    """A number of seconds, with bounds as those of a count."""

    name = "seconds"

    def __init__(self, least: float, most: float | None = None) -> None:
        self.least, self.most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The seconds; an error if it is no number, or outside of the bounds."""
        seconds = float(click.FLOAT.convert(value, param, ctx))
        if math.isnan(seconds):  # it is neither too small nor too large
            self.fail(f"{value} is no number of seconds", param, ctx)
        if wrong := _outside(seconds, self.least, self.most):
            self.fail(wrong, param, ctx)
        return seconds


def in_bytes(size: int) -> str:
    """Bytes as people read them, in powers of 1000.

    Examples
    --------
    >>> in_bytes(999), in_bytes(12_000_000)
    ('999 B', '12 MB')
    """
    for unit, power in (("TB", 12), ("GB", 9), ("MB", 6), ("KB", 3)):
        if size >= 10**power:
            return f"{size / 10**power:.3g} {unit}"
    return f"{size} B"


#: Most digits of a wrong number in an error.
_LONGEST = 40
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600}


class Duration(IntType):
    """A time in whole seconds, written with a unit: 30s, 10m, 1h, 2d. The bounds are in seconds, and errors name them
    with units."""

    name = "time"

    def __init__(self, least: int, most: int) -> None:
        self.least, self.most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The seconds; an error if it is no time, or outside of the bounds."""
        if isinstance(value, int):  # click converts a value again
            return value
        found = re.fullmatch(r"([0-9]{1,4000})([smhd])", str(value))  # Python reads no longer numbers
        if found is None:
            self.fail(f"{value!r} is no time: write a number with s, m, h or d, like 90s, 10m, 1h or 2d.", param, ctx)
        seconds = int(found[1]) * _UNITS[found[2]]
        if seconds < self.least:
            self.fail(f"{value} is too short: write {in_units(self.least)} or more.", param, ctx)
        if seconds > self.most:
            self.fail(f"{_shortened(value)} is too long: write {in_units(self.most)} or less.", param, ctx)
        return seconds


def _shortened(word: str) -> str:
    return word if len(word) <= _LONGEST else f"{word[:_LONGEST]}…"


def in_units(seconds: int) -> str:
    """A time as users write it, in the largest unit of which it is a multiple.

    Examples
    --------
    >>> in_units(90), in_units(172800)
    ('90s', '2d')
    """
    unit = max((unit for unit, size in _UNITS.items() if seconds % size == 0), key=_UNITS.__getitem__)
    return f"{seconds // _UNITS[unit]}{unit}"


#: The highest rate, in bytes a second: a millionfold of what a machine sends, and far from the end of 64 bits.
MOST_RATE = 1_000_000 * 1024**4
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
    if number * base**power > MOST_RATE:  # also where the number is infinite, because it has hundreds of digits
        raise click.BadParameter(
            f"{match['number'][:20]}{match['unit']} is too large: write 1000000T or less", context, option
        )
    return max(1, int(number * base**power)) if number else None
