"""What was found, and how bad it is."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

Verdict: TypeAlias = Literal["ok", "warning", "error"]

#: Seconds by which two clocks may differ. Certificates are good to the second, so a machine that is late refuses new
#: ones; messages need no common time.
CLOCKS_AGREE, CLOCKS_WORK = 2.0, 60.0


class Finding(NamedTuple):
    """One line: where, about what, how bad, in words, and the command that mends it."""

    place: str
    about: str
    verdict: Verdict
    text: str
    mend: str = ""

    def __str__(self) -> str:
        mend = f"; mend: {self.mend}" if self.mend else ""
        return f"{self.verdict:7}  {self.place}  {self.about}: {self.text}{mend}"


class Findings:
    """The findings about one place."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.all: list[Finding] = []

    def ok(self, about: str, text: str) -> None:
        """All is well."""
        self.all.append(Finding(self.place, about, "ok", text))

    def warn(self, about: str, text: str, mend: str = "") -> None:
        """It works, or works with less."""
        self.all.append(Finding(self.place, about, "warning", text, mend))

    def fail(self, about: str, text: str, mend: str = "") -> None:
        """It does not work."""
        self.all.append(Finding(self.place, about, "error", text, mend))

    def clock(self, earliest: float, theirs: float, latest: float) -> None:
        """Judges another clock, which was read between two moments of this one; all in seconds since 1970."""
        off = max(earliest - theirs, theirs - latest, 0.0)
        way = "behind" if theirs < earliest else "ahead of"
        mend = f"on the machine whose clock is wrong ({self.place} or this one): timedatectl set-ntp true"
        if off <= CLOCKS_AGREE:
            self.ok("clock", "agrees with this machine's")
        elif off <= CLOCKS_WORK:
            self.warn("clock", f"is {off:.0f} s {way} this machine's", mend)
        else:
            self.fail(
                "clock", f"is {off:.0f} s {way} this machine's: certificates may not be good yet or no more", mend
            )

    def numpy(self, theirs: str, here: str, install: str) -> None:
        """Judges another version of numpy; empty texts: there is none. ``install``: how libraries come there."""
        if theirs == here:
            self.ok("numpy", theirs or "neither there nor here")
        elif not here:
            self.ok("numpy", f"{theirs} there, none here")
        elif not theirs:
            text = f"none there, {here} here: functions that use arrays fail there"
            self.warn("numpy", text, f"{install} numpy=={here}")
        else:
            text = f"{theirs} there, {here} here: arrays travel, pickles of other numpy objects may not"
            self.warn("numpy", text, f"{install} numpy=={here}")


def numpy_version() -> str:
    """The version of numpy here; empty if there is none."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("numpy")
    except PackageNotFoundError:
        return ""
