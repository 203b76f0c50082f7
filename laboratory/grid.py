"""A grid in a lab: real certificates, and real executors each on its own host."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner
from phalanx.cli import commands

from laboratory.lab import Host
from laboratory.processes import Process

PHALANX = Path(sys.executable).with_name("phalanx")


@dataclass
class Executor:
    """`phalanx executor` on a host of its own."""

    host: Host
    process: Process
    port: int

    @property
    def address(self) -> str:
        """`host:port`, as a manager names it."""
        return f"{self.host.address}:{self.port}"


@dataclass
class Grid:
    """A grid made on `desk`, the user's machine, with `phalanx grid`.

    Those commands touch files only, so they run in this process: that takes a few milliseconds instead of a third of a
    second, and most tests of several machines need four.
    """

    desk: Host
    name: str = "grid"

    def __post_init__(self) -> None:
        self._command("create")

    @property
    def home(self) -> Path:
        """Where the grid's authority and the user's identity are."""
        return self.desk.home / self.name

    @property
    def env(self) -> dict[str, str]:
        """What makes a process one of the grid's owner."""
        return {"PHALANX_HOME": str(self.home)}

    @property
    def granted(self) -> Path:
        """A folder that all executors let users' processes change."""
        folder = self.desk.lab.path / "granted"
        folder.mkdir(exist_ok=True)
        return folder

    def phalanx(self, *arguments: str | Path) -> Process:
        """Run a `phalanx` command of the grid's owner."""
        return self.desk.run([PHALANX, *arguments], env=self.env)

    def issue(self, name: str, role: str = "executor") -> Path:
        """A new member's identity."""
        out = self.desk.home / f"{self.name}-{name}.pem"
        self._command("issue", "--role", role, name, "--out", str(out))
        return out

    def _command(self, *words: str) -> None:
        """Run a command of `phalanx grid`."""
        done = CliRunner().invoke(commands, ["grid", *words], env=self.env, catch_exceptions=False)
        assert done.exit_code == 0, done.output

    def executor(
        self, host: Host, *, identity: Path | None = None, interpreters: int = 2, options: Sequence[str] = ()
    ) -> Executor:
        """Start an executor and wait until it listens. It has the identity and nothing else of the grid."""
        serve = [str(PHALANX), "executor", "--listen", f"{host.address}:0"]
        identified = ["--identity", str(identity or self.issue(host.name))]
        marked = ["--env", "PHALANX_TEST_RUN"]  # so that what a test leaves is found
        caged = ["--grant", f"{self.granted}:rw", *marked]
        process = host.popen([*serve, *identified, "--interpreters", str(interpreters), *caged, *options])
        ready = process.line("listening on ")
        return Executor(host, process, int(ready.split()[2].rpartition(":")[2]))

    def executors(self, *names: str) -> list[Executor]:
        """One executor per name, each on a new host."""
        return [self.executor(self.desk.lab.host(name)) for name in names]
