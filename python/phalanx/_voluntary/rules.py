"""The owner's rules, in the forms for the native core, for files, and for people."""

from __future__ import annotations

from typing import Any, NamedTuple

#: Most parts of a day: `MOST_HOURS` in phalanx-py/src/executor.rs.
MOST_HOURS = 8
_DAY = 24 * 60


class Rules(NamedTuple):
    """The rules by which a machine works for others. By default, it always does.

    ``idle_after``: it works only after so many seconds without input. ``most_load``: it works only while the owner's
    programs use at most so many cores. ``hours``: it works only at these parts of the day, in minutes from midnight,
    local time.
    """

    idle_after: float | None = None
    most_load: float | None = None
    hours: tuple[tuple[int, int], ...] = ()
    on_battery: bool = True
    on_metered: bool = True

    def words(self) -> list[str]:
        """The rules in words for people. The list is empty for a machine that always works."""
        found = []
        if self.idle_after is not None:
            found.append(f"when nobody has used it for {self.idle_after:g} s")
        if self.most_load is not None:
            found.append(f"while its owner's programs use at most {self.most_load:g} cores")
        if self.hours:
            found.append(f"at {' and '.join(map(hours_word, self.hours))}")
        found += [] if self.on_battery else ["not on battery"]
        found += [] if self.on_metered else ["not on a metered network"]
        return found


#: The rules of a machine that always works.
ALWAYS = Rules()


def read_hours(word: str) -> tuple[int, int]:
    """The minutes of ``22:00-07:00``. Raises ValueError for another word."""
    first, _, last = word.partition("-")
    return _minute(first), _minute(last)


def hours_word(hours: tuple[int, int]) -> str:
    """The word for these minutes.

    Examples
    --------
    >>> hours_word(read_hours("22:00-7:30"))
    '22:00-07:30'
    """
    return "-".join(f"{minute // 60:02}:{minute % 60:02}" for minute in hours)


def to_json(rules: Rules) -> dict[str, Any]:
    """The rules in the form of a file."""
    return {**rules._asdict(), "hours": [*map(hours_word, rules.hours)]}


def from_json(told: Any) -> Rules:
    """The rules of a file. Raises ValueError if it has none."""
    if not isinstance(told, dict) or set(told) != set(Rules._fields):
        raise ValueError("it has no rules")
    idle_after, most_load, hours = told["idle_after"], told["most_load"], told["hours"]
    if not (_is_number(idle_after) and _is_number(most_load) and isinstance(hours, list) and len(hours) <= MOST_HOURS):
        raise ValueError("it has no rules")
    return Rules(
        idle_after, most_load, (*map(read_hours, map(str, hours)),), bool(told["on_battery"]), bool(told["on_metered"])
    )


def _is_number(told: Any) -> bool:
    return told is None or (isinstance(told, (int, float)) and not isinstance(told, bool) and 0 <= told < 1e9)


def _minute(word: str) -> int:
    hour, _, minute = word.strip().partition(":")
    if not (hour.isascii() and hour.isdigit() and len(minute) == 2 and minute.isascii() and minute.isdigit()):
        raise ValueError(f"{word!r} is no time of the day")
    found = int(hour) * 60 + int(minute)
    if int(minute) >= 60 or found >= _DAY:
        raise ValueError(f"{word!r} is no time of the day")
    return found
