"""Servers of spaces and programs that use them, each on a host of a lab."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.grid import PATIENCE, PHALANX, Grid

from laboratory.lab import Host
from laboratory.processes import Process, until

PROGRAM = Path(__file__).with_name("space_program.py")


@dataclass
class Served:
    """`phalanx space serve` on a host of its own."""

    host: Host
    process: Process
    identity: Path
    port: int

    def space(self, name: str = "tasks") -> str:
        """The address of a space there."""
        return f"{self.host.address}:{self.port}/{name}"


def serve(grid: Grid, at: str | Served, *options: str) -> Served:
    """Start a server on a new host of this name, or one that has ended again, and wait until it listens; it has an
    identity and nothing else of the grid."""
    if isinstance(at, Served):
        host, port, identity = at.host, at.port, at.identity
    else:
        host, port, identity = grid.desk.lab.host(at), 0, grid.issue(at)
    address = ["--address", f"{host.address}:{port}", "--identity", str(identity)]
    process = host.popen([PHALANX, "space", "serve", *address, *options])
    ready = process.line("listening on ")
    return Served(host, process, identity, int(ready.split()[2].rpartition(":")[2]))


class Use:
    """A running `space_program.py`, as the grid's owner or as another user."""

    def __init__(
        self, grid: Grid, address: str, what: str, *, host: Host | None = None, user: str | None = None, **options: Any
    ) -> None:
        if user or host:
            name = user or f"user-{(host or grid.desk).name}"
            issued = grid.desk.home / f"{grid.name}-{name}.pem"
            options["identity"] = str(issued if issued.exists() else grid.issue(name, role="user"))
        command = [sys.executable, str(PROGRAM), address, what, json.dumps(options)]
        self.process = (host or grid.desk).popen(command, env=grid.env)

    def facts(self, kind: str) -> list[Any]:
        """What it has said of one kind so far."""
        said = [json.loads(line) for line in self.process.lines() if line.startswith("{")]
        return [fact[kind] for fact in said if kind in fact]

    def first(self, kind: str) -> Any:
        """The first fact of a kind; AssertionError where it ends without one."""

        def found() -> list[Any]:
            ended = self.process.code is not None
            facts = self.facts(kind)
            assert facts or not ended, self.process.report()
            return facts

        return until(found, timeout=PATIENCE, what=f"a line of the kind {kind} from {self.process.title}")[0]

    def sees(self, *expected: int) -> None:
        """Wait until `look` has lately seen these numbers: tasks, takers, tuples on their way."""

        def seen() -> bool:
            return self.facts("seen")[-1:] == [list(expected)]

        until(seen, timeout=PATIENCE, what=f"{expected}, but it sees {self.facts('seen')[-1:]}")
