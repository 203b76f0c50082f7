"""What the executor of a pilot is told: one line of JSON, which travels where only its user reads."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

from phalanx.errors import IdentityError, RecruitError
from phalanx.words import CAGES

#: Longest line that is read, in bytes. One with 8 addresses of a hub has some 400.
LONGEST = 64 << 10
#: A time limit like 1:30:00, or 2-00:00:00 with days.
_TIME = re.compile(r"(?:(\d{1,4})-)?(\d{1,4}):([0-5]\d):([0-5]\d)")
#: Starts ``phalanx pilot`` with a Python that has phalanx. The current folder is no place to import from.
_CODE = "import sys; sys.path.pop(0); {more}from phalanx.cli import main; main()"


class Order(NamedTuple):
    """What an executor is to do.

    ``token``: a secret that makes it a member of its user's grid. ``interpreters``: how many it offers; None: one for
    each core that it may use. ``cage``: what keeps users' processes from the rest of the account. ``exports``: folders
    that the program may copy from and to, as ``phalanx executor --export`` takes them. ``silence``: the seconds after
    which it ends when its user's program does not answer. ``name``: what it is called, if no other one is; empty: as
    its machine. ``seconds``: how long its place lasts, if only the user knows that. ``member``: whether the grid is one
    that outlives the executor, and has other users: it serves those that are named here, or all, and leaves the grid at
    its end. None: the grid is that of one program.
    """

    token: str
    interpreters: int | None = None
    cage: str = "none"
    exports: tuple[str, ...] = ()
    silence: float = 20.0
    name: str = ""
    seconds: float | None = None
    member: tuple[str, ...] | None = None

    def line(self) -> bytes:
        """The order as it travels."""
        return json.dumps(self._asdict()).encode() + b"\n"

    @classmethod
    def read(cls, line: bytes) -> Order:
        """The order that a line has. Raises IdentityError if it has none."""
        try:
            told = json.loads(line)
            if not isinstance(told, dict) or set(told) != set(cls._fields):
                raise ValueError("it has not the parts of an order")
            _check(told)
            exports, member = _words(told, "exports"), None if told["member"] is None else _words(told, "member")
            order = cls(**{**told, "exports": exports, "member": member})
        except (ValueError, RecursionError) as error:
            raise IdentityError(f"this is no order of a pilot: {error}; px.Ssh, px.Slurm and others make one") from None
        return order


def _words(told: dict[str, Any], name: str) -> tuple[str, ...]:
    """Some words of an order. Raises ValueError if they are none."""
    words = told[name]
    if not isinstance(words, list) or not all(isinstance(it, str) for it in words):
        raise ValueError(f"it has no {name}")
    return (*words,)


def _check(told: dict[str, Any]) -> None:
    """Raises ValueError if a part of an order has another type, or no meaning."""
    token, interpreters, seconds = told["token"], told["interpreters"], told["seconds"]
    if not isinstance(token, str) or not re.fullmatch(r"[\w.~+/=-]{1,8192}", token):
        raise ValueError("it has no token")
    if interpreters is not None and (type(interpreters) is not int or not 1 <= interpreters <= 4096):
        raise ValueError("it has no number of interpreters")
    if told["cage"] not in CAGES:
        raise ValueError("it has no cage")
    for number in (told["silence"], 1 if seconds is None else seconds):
        if type(number) not in (int, float) or not 0 < number < math.inf:
            raise ValueError("it has no time")
    if not isinstance(told["name"], str):
        raise ValueError("it has no name")


def command(python: str | None = None) -> list[str]:
    """The words that start the executor of a pilot; the file of its order, or ``-``, comes behind them. ``python``: one
    of another machine, that has phalanx; None: this one."""
    more = "" if python else f"sys.path.append({str(Path(__file__).parents[2])!r}); "
    return [python or sys.executable, "-c", _CODE.format(more=more), "pilot"]


def check_count(option: str, value: object, most: int = 4096) -> int:
    """A number from 1 on. Raises RecruitError for anything else."""
    if type(value) is not int or not 1 <= value <= most:
        raise RecruitError(f"{option} is a number from 1 to {most}, not {value!r:.40}")
    return value


def check_seconds(option: str, value: object) -> float:
    """A time in seconds, 0 or more. Raises RecruitError for anything else."""
    if type(value) not in (int, float) or not 0 <= value < math.inf:  # type: ignore[operator]
        raise RecruitError(f"{option} is a number of seconds, 0 or more, not {value!r:.40}")
    return float(value)  # type: ignore[arg-type]


def check_time(time: object) -> int:
    """The seconds of a time limit, a minute or more. Raises RecruitError for anything else.

    Examples
    --------
    >>> check_time("1:30:00"), check_time("2-00:00:00"), check_time(90)
    (5400, 172800, 5400)
    """
    if isinstance(time, str) and (found := _TIME.fullmatch(time)):
        days, hours, minutes, seconds = (int(it or 0) for it in found.groups())
        time = ((days * 24 + hours) * 60 + minutes) + seconds / 60
    if isinstance(time, bool) or not isinstance(time, (int, float)) or not 1 <= time < 1e7:
        raise RecruitError(f"time is like '1:00:00', or a number of minutes, 1 or more, not {time!r:.40}")
    return round(time * 60)
