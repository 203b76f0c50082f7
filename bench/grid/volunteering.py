"""What the owner of a volunteer's machine notices."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.grid.samples import PROGRAMS, Samples, Settings, figures, hub, program
from laboratory import desktop
from laboratory.grid import PHALANX
from laboratory.hub import PATIENCE, HubGrid, User
from laboratory.lab import Host
from laboratory.needs import lacking
from laboratory.processes import Process, until

#: Seconds without a key after which the machine works again. It is short, so that a run is.
_IDLE = 2
#: Seconds of frames, and of computing for each: more than half of a core.
_FRAMES, _WORK = 10.0, 0.010
#: Seconds of null tasks.
_NULLS = 4.0


def returns(settings: Settings, samples: Samples) -> None:
    """A key is pressed at a desktop that works: to the end of the last process of a task. xdotool's own start is
    included."""
    if reason := lacking("Xvfb", "xdotool"):
        samples.notes.append(f"no keys: {reason}")
        return
    with _volunteer() as (_, user, host, display, joined):
        program(user, "farming.py", user.granted, 0.05)
        for _ in range(settings.rounds):
            found = until(lambda: _interpreters(host, joined), timeout=PATIENCE, what="work")
            begun = time.time()
            display.press_key()
            until(lambda f=found: not set(f) & set(host.pids()), timeout=PATIENCE, what="its end")  # type: ignore[misc]
            samples.put("key_to_end", time.time() - begun)


def frames(settings: Settings, samples: Samples) -> None:
    """Frames without anything beside them, and beside a farm that computes on all cores, in turns."""
    with _volunteer() as (_, user, host, _, joined):
        for _ in range(settings.rounds):
            samples.put("frames_alone", _lost(host))
            burning = program(user, "burning.py", 0.1)
            until(lambda: len(_interpreters(host, joined)) > 0, timeout=PATIENCE, what="work")
            burning.line("5", timeout=PATIENCE)  # all interpreters have been started
            samples.put("frames_beside", _lost(host))
            burning.kill()
            until(lambda: not _interpreters(host, joined), timeout=PATIENCE, what="its end")


def nulls(settings: Settings, samples: Samples) -> None:
    """Null tasks at an executor whose interpreters are as nice as can be, and at one where they are not, in turns."""
    with hub() as grid:
        lab = grid.host.lab
        user = grid.user(lab.host("desk"))
        for label, nice in (("nice", 19), ("plain", 0)):
            grid.join(lab.host(label), "--nice", str(nice), "--label", label, interpreters=2)
        for _ in range(settings.rounds):
            for label in ("nice", "plain"):
                (rate,) = figures(program(user, "nulls.py", label, _NULLS))
                samples.put(f"nulls_{label}", rate)


@contextmanager
def _volunteer() -> Iterator[tuple[HubGrid, User, Host, desktop.Display, Process]]:
    """A grid with one volunteer, and its desktop."""
    with hub() as grid, desktop.x_server() as display:
        lab = grid.host.lab
        user, host = grid.user(lab.host("desk")), lab.host("left")
        rules = ["--when-idle", "--idle-after", f"{_IDLE}s", "--on-battery", "--on-metered"]
        donated = ["--interpreters", "2", "--grant", f"{grid.granted}:rw"]
        joined = host.popen([PHALANX, "join", "--name", "left", *donated, *rules, grid.token()], env=display.env)
        joined.line("listening on ")
        grid.wait_for("left")
        until(lambda: "closed" not in grid.members()["left"]["facts"], timeout=PATIENCE, what="an open machine")
        yield grid, user, host, display, joined


def _interpreters(host: Host, joined: Process) -> list[int]:
    """The processes of tasks: all of the host but the executor."""
    return [pid for pid in host.pids() if pid != joined.pid]


def _lost(host: Host) -> float:
    process = host.popen([sys.executable, str(PROGRAMS / "frames.py"), str(_FRAMES), str(_WORK)])
    (lost,) = figures(process)
    process.wait(timeout=PATIENCE)
    return lost
