"""The machines in network namespaces: a desk and a trusted LAN, and a remote site behind a router."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.papers.muskel.places import Line, Place
from laboratory.grid import Executor, Grid
from laboratory.lab import Host, Lab
from laboratory.namespaces import inside

#: Machines of the LAN, and of the site.
_MACHINES = 4
_DELAY = 50e-6  # seconds, each way: a switch and two network cards


@contextmanager
def lab_place(*, interpreters: int, rate: float) -> Iterator[Place]:
    """A place for so many interpreters, on the LAN and as many on the site; this thread is on the desk meanwhile.

    `rate` in bytes/s is that of the desk's cable, by which it reaches everybody. RuntimeError when this machine
    cannot have namespaces.
    """
    with Lab(quiet=True) as lab:
        desk = lab.host("desk")
        grid = Grid(desk)
        capacity = max(2, -(-interpreters // _MACHINES))  # two for those who compare two kinds of links
        site = lab.site("router")
        lan = f"{lab.lan.address(0)}/24"
        # Who donates a machine must trust the network as well before its links are clear.
        trusting = ["--trusted", lan]
        local = [
            grid.executor(lab.host(f"local{n}"), interpreters=capacity, options=trusting) for n in range(_MACHINES)
        ]
        away = [grid.executor(lab.host(f"remote{n}", site), interpreters=capacity) for n in range(_MACHINES)]
        with inside(desk.namespace):
            yield Place(
                title=f"network namespaces of one machine with {os.cpu_count()} cores",
                local=[_machine(executor) for executor in local],
                remote=[_machine(executor) for executor in away],
                trusted=[f"trusted {lan}"],
                identity=grid.home / "user.pem",
                folder=Path(desk.home),
                lines=_lines(desk, rate),
                cores=os.cpu_count() or 1,
            )


def _lines(desk: Host, rate: float) -> list[Line]:
    shaped = Line(f"a LAN of {rate * 8 / 1e6:g} Mbit/s", rate, partial(desk.cable.shape, rate=rate, delay=_DELAY))
    return [shaped, Line(f"a line that only {os.cpu_count()} cores limit", None, desk.cable.unshape)]


def _machine(executor: Executor) -> str:
    return f"{executor.host.address} {executor.port}"
