"""The owner's pause: a file in the home folder, which every executor of the account polls at least twice a second.

A file needs no hub, no port and no rights. It outlives executors, and works on every system.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import NamedTuple

from phalanx._identities import home
from phalanx._voluntary.files import write
from phalanx.errors import IdentityError

_FILE = "paused.json"
_LONGEST = 1 << 12


class Pause(NamedTuple):
    """A pause, by the system's clock. If ``until`` is None, it lasts until the owner resumes."""

    since: float
    until: float | None


def pause(seconds: float | None) -> Pause:
    """Pauses all executors of this account for ``seconds``. None: until the owner resumes."""
    since = time.time()
    made = Pause(since, None if seconds is None else since + seconds)
    write(home() / _FILE, json.dumps(made._asdict()))
    return made


def resume() -> bool:
    """Ends the pause. Returns whether there was one."""
    was_paused = paused() is not None
    (home() / _FILE).unlink(missing_ok=True)
    return was_paused


def paused() -> Pause | None:
    """The current pause. A file that cannot be read counts as a pause, because the owner has made it."""
    try:
        made = _read(home() / _FILE)
    except (FileNotFoundError, IdentityError):  # an account without a home folder cannot pause
        return None
    except (OSError, ValueError, KeyError, TypeError):
        return Pause(0.0, None)
    return made if made.until is None or time.time() < made.until else None


def _read(file: Path) -> Pause:
    with file.open(encoding="utf-8") as opened:
        told = json.loads(opened.read(_LONGEST))
    since, until = float(told["since"]), told["until"]
    return Pause(since, None if until is None else float(until))
