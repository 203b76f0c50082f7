"""A grid with a hub in a lab: `phalanx up` on one host, `phalanx join` on others, which may be behind NATs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laboratory.grid import PHALANX
from laboratory.lab import Host
from laboratory.processes import Process, until

#: Seconds until a test calls something hung.
PATIENCE = 60.0
NAME = "lab"


@dataclass
class Joined:
    """An executor that has joined: its host, and the process of `phalanx join`."""

    host: Host
    process: Process
    name: str
    grid: str = NAME

    def restart(self) -> None:
        """Start it again, where it listened before."""
        self.process = self.host.popen([PHALANX, "join", self.grid])
        self.process.line("listening on ")


@dataclass
class Further:
    """A hub of the grid: its host, and the process of `phalanx up`."""

    host: Host
    process: Process


@dataclass
class User:
    """A user of the grid, at a desk."""

    desk: Host
    grid: HubGrid

    @property
    def env(self) -> dict[str, str]:
        """What makes a process one of this user: nothing, for the user has joined."""
        return {}

    @property
    def granted(self) -> Path:
        """A folder that all executors let users' processes change."""
        return self.grid.granted

    def phalanx(self, *arguments: str | Path) -> Process:
        """Run a `phalanx` command of this user."""
        return self.desk.run([PHALANX, *arguments])


class HubGrid:
    """A grid whose hub is `host`. Everything is done with commands that people type."""

    def __init__(
        self, host: Host, *, port: int = 443, options: Sequence[str] = ("--hub-only",), name: str = NAME
    ) -> None:
        self.host, self.port, self._options, self.name = host, port, options, name
        self.hubs: dict[str, Further] = {}
        self.process = self.start()
        self.hubs[host.name] = Further(host, self.process)

    def start(self) -> Process:
        """Start the hub, for the first time or again."""
        listen = ["--listen", f"0.0.0.0:{self.port}"]
        self.process = self.host.popen([PHALANX, "up", "--grid", self.name, *listen, *self._options])
        self.process.line("listening on ")
        return self.process

    def further(self, host: Host) -> Further:
        """Make `host` a further hub, and wait until the others know it."""
        words = ["--listen", f"0.0.0.0:{self.port}", "--hub-only"]
        process = host.popen([PHALANX, "up", "--join", self.token("hub"), *words])
        process.line("listening on ")
        self.hubs[host.name] = Further(host, process)
        until(lambda: host.name in self.hubs_here(), timeout=PATIENCE, what=f"{host.name} to be a hub")
        return self.hubs[host.name]

    def hubs_here(self, host: Host | None = None) -> dict[str, dict[str, Any]]:
        """The hubs that keep the state together, by name."""
        shown = json.loads((host or self.host).run([PHALANX, "members", "--json"]).stdout())
        return {it["name"]: it for it in shown if it["role"] == "hub" and it["is_here"]}

    def leader(self, host: Host | None = None) -> Further:
        """The hub that leads, as `phalanx members` shows it at `host`."""
        (name,) = [name for name, it in self.hubs_here(host).items() if it["facts"].get("leads") == "yes"]
        return self.hubs[name]

    @property
    def granted(self) -> Path:
        """A folder that all executors let users' processes change."""
        folder = self.host.lab.path / "granted"
        folder.mkdir(exist_ok=True)
        return folder

    def token(self, role: str = "executor", uses: int = 1) -> str:
        """What the grid's owner sends to someone who joins."""
        asked = ["--role", role, "--uses", str(uses), "--json"]
        token: str = json.loads(self.host.run([PHALANX, "invite", *asked]).stdout())["token"]
        return token

    def user(self, host: Host, name: str = "eve") -> User:
        """Make the person at `host` a user of the grid."""
        host.run([PHALANX, "join", "--name", name, self.token("user")])
        return User(host, self)

    def join(self, host: Host, *options: str, interpreters: int = 2, name: str | None = None) -> Joined:
        """Make `host` an executor of the grid, and wait until the hub knows that it is here."""
        joined = self.begin_join(host, *options, interpreters=interpreters, name=name)
        joined.process.line("listening on ")
        self.wait_for(joined.name)
        return joined

    def begin_join(
        self, host: Host, *options: str, interpreters: int = 2, name: str | None = None, token: str | None = None
    ) -> Joined:
        """Type `phalanx join` at `host`."""
        name = name or host.name
        donated = ["--interpreters", str(interpreters), "--grant", f"{self.granted}:rw", "--env", "PHALANX_TEST_RUN"]
        process = host.popen([PHALANX, "join", "--name", name, *donated, *options, token or self.token()])
        return Joined(host, process, name, self.name)

    def members(self, host: Host | None = None) -> dict[str, dict[str, Any]]:
        """The executors by name, as `phalanx members` shows them at `host`, the hub by default."""
        shown = json.loads((host or self.host).run([PHALANX, "members", "--json"]).stdout())
        return {member["name"]: member for member in shown if member["role"] == "executor"}

    def wait_for(self, name: str, *, is_here: bool = True) -> None:
        """Wait until a member is here, or is here no more, as the hub sees it."""
        what = f"{name} to {'come' if is_here else 'go'}"
        until(lambda: self.members().get(name, {}).get("is_here") is is_here, timeout=PATIENCE, what=what)

    def expel(self, name: str) -> None:
        """Expel a member."""
        self.host.run([PHALANX, "expel", "--yes", name])
