"""Volunteers of a grid with a hub: the owner of one returns in mid-run, and everything is computed once."""

from __future__ import annotations

import json
import sys
from collections import Counter
from contextlib import ExitStack

from skips import require

from laboratory import desktop
from laboratory.grid import PHALANX
from laboratory.hub import PATIENCE, HubGrid
from laboratory.lab import Lab
from laboratory.processes import until

WHEN_IDLE = ["--when-idle", "--idle-after", "5s", "--on-battery", "--on-metered", "--nice", "0"]
PROGRAM = """
import os, socket, time
from pathlib import Path

import phalanx as px


def fire(task):
    Path({folder!r}, f"{{task}}-{{os.getpid()}}-{{socket.gethostname()}}").touch()
    time.sleep(0.05)
    return task


with px.Manager("lab") as manager:
    for result in manager.compute(fire, range(1500)):
        print("result", result, flush=True)
print("end", flush=True)
"""


def test_of_two_volunteers_one_returns_in_mid_run_and_all_results_come_once(lab: Lab) -> None:
    require("Xvfb", "xdotool")
    with ExitStack() as displays:
        grid = HubGrid(lab.host("hub"))
        near, far = [displays.enter_context(desktop.x_server()) for _ in range(2)]
        for name, display in (("near", near), ("far", far)):
            host = lab.host(name)
            donated = ["--interpreters", "2", "--grant", f"{grid.granted}:rw", "--env", "PHALANX_TEST_RUN", *WHEN_IDLE]
            joined = host.popen([PHALANX, "join", "--name", name, *donated, grid.token()], env=display.env)
            joined.line("listening on ")
            grid.wait_for(name)

        def closed(name: str) -> str | None:
            found = grid.members()[name]["facts"].get("closed")
            return None if found is None else str(found)

        until(lambda: closed("near") is closed("far") is None, timeout=PATIENCE, what="two open machines")
        user = grid.user(lab.host("desk"))
        program = grid.granted / "program.py"
        program.write_text(PROGRAM.format(folder=str(grid.granted)))
        running = user.desk.popen([sys.executable, program])

        def firings(name: str) -> int:
            return len([*grid.granted.glob(f"*-{name}")])

        until(lambda: firings("near") > 4 and firings("far") > 4, timeout=PATIENCE, what="work at both")
        near.press_key()
        until(lambda: closed("near") == "its owner uses it", timeout=PATIENCE, what="the hub to tell")
        near.press_key()  # so that it is still closed when it is asked
        rows = {it["name"]: it for it in json.loads(user.phalanx("status", "--json").stdout())["executors"]}
        assert (rows["near"]["closed"], rows["near"]["used"]) == ("its owner uses it", 0)
        at_close = firings("near")
        until(lambda: firings("near") > at_close, timeout=PATIENCE, what="work at it again")
        running.line("end", timeout=PATIENCE)
        results = Counter(line.split()[1] for line in running.lines() if line.startswith("result"))
        assert results == Counter(map(str, range(1500)))
