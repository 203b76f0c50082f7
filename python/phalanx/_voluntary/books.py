"""Books: files in the home folder, in which executors of this account report to their owner.

Each executor has a file ``here/PID.json``, and a lock on ``here/PID.lock`` while it runs. It writes its state when the
machine opens or closes, when the owner asks, and once a minute, with the usage of each day. When an executor ends, its
days are added to ``here/days.json``. If it was killed, another executor adds them.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any, TextIO

from phalanx._file_locks import try_lock
from phalanx._identities import home
from phalanx._voluntary.files import write

#: Days that the books keep.
_MOST_DAYS = 31
#: Longest file that a reader accepts, in bytes: 31 days of a thousand users need 3 MB.
_LONGEST = 16 << 20
_DAYS, _ASKED = "days.json", "asked"
#: Sums for each day and user, in seconds, seconds, and processes.
SUMS = "processor", "places", "started"
#: Pause between two attempts to lock, in seconds.
_MOMENT = 0.01
#: Polling interval for answers, in seconds.
_LOOK = 0.05

#: Sums by day and user.
Days = dict[str, dict[str, dict[str, float]]]


def folder() -> Path:
    """The folder of the books."""
    return home() / "here"


class Books:
    """The file of this process. Closing the books removes it."""

    def __init__(self) -> None:
        self._folder = folder()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        gather(self._folder)
        self._file = self._folder / f"{os.getpid()}.json"
        self._lock = _locked(self._file.with_suffix(".lock"))
        self._asked = _time_of(self._folder / _ASKED)
        #: Each user's usage since the start of this executor, at the latest booking.
        self._booked: dict[str, dict[str, float]] = {}
        self._days: Days = {}

    def is_asked(self) -> bool:
        """Whether the owner has asked since the last call."""
        before, self._asked = self._asked, _time_of(self._folder / _ASKED)
        return self._asked != before

    def write(self, told: dict[str, Any], used: dict[str, dict[str, float]]) -> None:
        """Writes the state of this executor, and books each user's usage since the previous call."""
        today = self._days.setdefault(date.today().isoformat(), {})
        for user, sums in used.items():
            before, row = self._booked.get(user, {}), today.setdefault(user, dict.fromkeys(SUMS, 0.0))
            for name in SUMS:
                row[name] += max(0.0, sums[name] - before.get(name, 0.0))
        self._booked = used
        text = json.dumps({**told, "pid": os.getpid(), "written": time.time(), "days": self._days})
        with suppress(OSError):  # a full disk must not end an executor
            write(self._file, text)

    def close(self) -> None:
        """Adds the days to those of all executors, and removes the file."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
            with suppress(OSError):
                gather(self._folder)


def asked(seconds: float) -> list[dict[str, Any]]:
    """Asks the running executors. Returns the latest report of each. ``is_new``: it has answered within ``seconds``."""
    place = folder()
    if not place.is_dir():
        return []
    began = time.time()
    (place / _ASKED).touch()
    os.utime(place / _ASKED, (began, began))
    until = time.monotonic() + seconds
    while True:
        found = [told for file, told in _states(place) if _runs(file)]
        late = [it for it in found if it["written"] < began]
        if not late or time.monotonic() >= until:
            return [{**it, "is_new": it["written"] >= began} for it in found]
        time.sleep(_LOOK)


def days() -> Days:
    """The usage of each day, including the bookings of running executors."""
    place = folder()
    return summed([_read(place / _DAYS).get("days", {}), *(told.get("days", {}) for _, told in _states(place))])


def gather(place: Path) -> None:
    """Adds the days of ended executors to the days of all, and removes their files."""
    over = [(file, told) for file, told in _states(place) if not _runs(file)]
    if not over:
        return
    all_of = summed([_read(place / _DAYS).get("days", {}), *(told.get("days", {}) for _, told in over)])
    kept = dict(sorted(all_of.items())[-_MOST_DAYS:])
    for file, _ in over:  # removes first, because lost sums are better than sums that count twice
        file.unlink(missing_ok=True)
        file.with_suffix(".lock").unlink(missing_ok=True)
    write(place / _DAYS, json.dumps({"days": kept}))


def summed(all_of: Iterable[Any]) -> Days:
    """The sums of several days."""
    found: Days = {}
    for days_of_one in all_of:
        for day, users in days_of_one.items():
            for user, sums in users.items():
                row = found.setdefault(day, {}).setdefault(user, dict.fromkeys(SUMS, 0.0))
                for name in SUMS:
                    row[name] += float(sums.get(name, 0.0))
    return found


def _states(place: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    for file in sorted(place.glob("[0-9]*.json")):
        told = _read(file)
        if isinstance(told.get("written"), (int, float)) and isinstance(told.get("days"), dict):
            yield file, told


def _read(file: Path) -> dict[str, Any]:
    """The object in a file. It is empty if the file has none, for example because its executor has just ended."""
    try:
        with file.open(encoding="utf-8") as opened:
            told = json.loads(opened.read(_LONGEST))
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def _locked(file: Path) -> TextIO | None:
    """The file, locked until it is closed."""
    opened = file.open("w")
    while not try_lock(opened):  # a process that asks whether its executor runs has it for a moment
        time.sleep(_MOMENT)
    return opened


def _runs(file: Path) -> bool:
    """Whether the executor of a file runs, because it holds the lock."""
    try:
        with file.with_suffix(".lock").open() as opened:
            return not try_lock(opened, shared=True)
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _time_of(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0
