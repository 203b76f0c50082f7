"""How soon a machine that joins works for others."""

from __future__ import annotations

import time
from pathlib import Path

from bench.grid.samples import Samples, Settings, figures, hub, program, two_networks
from laboratory.hub import PATIENCE
from laboratory.processes import until

#: Executors of the row `recruit`.
_EIGHT = 8


def join(settings: Settings, samples: Samples) -> None:
    """A farm runs. One machine after the other joins, and stays."""
    with hub() as grid:
        lab = grid.host.lab
        user = grid.user(lab.host("desk"))
        grid.join(lab.host("before"), interpreters=1)
        farm = program(user, "farming.py", grid.granted, 0.02)
        farm.line("0", timeout=PATIENCE)
        for turn in range(settings.rounds):
            name, token = f"fresh{turn}", grid.token()
            host = lab.host(name)
            begun = time.time()
            joined = grid.begin_join(host, interpreters=1, token=token)
            joined.process.line("listening on ", timeout=PATIENCE)
            samples.put("join_known", time.time() - begun)
            fired = until(lambda n=name: firings(grid.granted, n), timeout=PATIENCE, what=f"a firing at {name}")  # type: ignore[misc]
            samples.put("join", min(fired) - begun)


def firings(folder: Path, machine: str) -> list[float]:
    """When instructions were fired at a machine, in seconds since 1970."""
    return [path.stat().st_mtime for path in folder.glob(f"*-{machine}")]


def behind_nats(settings: Settings, samples: Samples) -> None:
    """A machine behind one NAT joins; then a program behind another NAT starts, and prints its first result."""
    for _ in range(settings.rounds):
        with two_networks() as (user, (left, _)):
            token = user.grid.token()
            begun = time.time()
            joined = user.grid.begin_join(left, interpreters=1, token=token)
            joined.process.line("listening on ", timeout=PATIENCE)
            (done,) = figures(program(user, "first.py"))
            samples.put("nats", done - begun)


def recruit(settings: Settings, samples: Samples) -> None:
    """A program asks for a manager on eight executors, which are at rest."""
    with hub() as grid:
        lab = grid.host.lab
        user = grid.user(lab.host("desk"))
        for number in range(_EIGHT):
            grid.join(lab.host(f"ws{number}"), interpreters=1)
        for _ in range(settings.rounds):
            first, last = figures(program(user, "eight.py", _EIGHT), 2)
            samples.put("recruit_first", first)
            samples.put("recruit_all", last)
