"""Machines in network namespaces: the owner at a desk, each of the crew on a host of its own, links private."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from examples.linda.places import MEMBER, Place
from laboratory.grid import Grid
from laboratory.lab import Lab
from laboratory.namespaces import inside
from laboratory.processes import Process

_TOP = Path(__file__).resolve().parents[3]


class Member:
    """A process of the lab with the methods of a `subprocess.Popen` that a place needs."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def poll(self) -> int | None:
        """Its exit code, None while it runs."""
        return self._process.code

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code; TimeoutExpired when it still runs."""
        try:
            return self._process.wait(timeout=60 if timeout is None else timeout)
        except AssertionError:
            raise subprocess.TimeoutExpired(self._process.title, timeout or 60) from None

    def kill(self) -> None:
        """At once."""
        self._process.kill()


@contextmanager
def machines(most: int) -> Iterator[Place]:
    """A place with a host for each of a crew of at most so many; this thread is on the desk meanwhile."""
    with Lab(quiet=True) as lab:
        desk = lab.host("desk")
        grid = Grid(desk)
        hosts = [lab.host(f"crew{number}") for number in range(most)]
        # One folder of identities for all: that of the user who connects, and that of the machines that serve.
        grid.phalanx("grid", "issue", "--role", "executor", "crew", "--out", grid.home / "executor.pem")
        env = {**grid.env, "PYTHONPATH": str(_TOP)}

        def start(me: int, order: dict[str, Any]) -> Member:
            order = {**order, "listen": f"{hosts[me].address}:0"}
            return Member(hosts[me].popen([sys.executable, "-m", MEMBER, json.dumps(order)], env=env))

        with inside(desk.namespace), patch.dict(os.environ, grid.env):
            yield Place("processes", listen=f"{desk.address}:0", start=start)
