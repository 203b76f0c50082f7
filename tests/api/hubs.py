"""Grids with a hub, as processes of this machine: each member has a home folder of its own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import CompletedProcess, run
from textwrap import dedent
from typing import Any

from laboratory.processes import Process, until

PHALANX = str(Path(sys.executable).with_name("phalanx"))
PATIENCE = 60.0


class Site:
    """A machine of several members. ``member`` is a folder's name in the site: the member's PHALANX_HOME."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[Process] = []
        self.running: dict[str, Process] = {}

    def home(self, member: str) -> Path:
        return self.folder / member

    def env(self, member: str) -> dict[str, str]:
        return {**os.environ, "PHALANX_HOME": str(self.home(member))}

    def call(self, member: str, *words: str) -> CompletedProcess[str]:
        """A command of a member, to its end."""
        command = [PHALANX, *words]
        return run(command, cwd=self.folder, env=self.env(member), capture_output=True, text=True, timeout=PATIENCE)

    def say(self, member: str, *words: str) -> str:
        """What a command prints, which must succeed."""
        done = self.call(member, *words)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def python(self, member: str, source: str) -> str:
        """What a program of a member prints, which must succeed. Its process keeps a link to the hub until it ends."""
        command = [sys.executable, "-c", "import phalanx as px\n" + dedent(source)]
        done = run(command, cwd=self.folder, env=self.env(member), capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, f"{source}: {done.stdout}{done.stderr}"
        return done.stdout

    def error(self, member: str, *words: str) -> str:
        """The error of a command, which must fail."""
        done = self.call(member, *words)
        assert done.returncode == 1, f"{words}: {done.stdout}{done.stderr}"
        return done.stderr

    def start(self, member: str, *words: str, env: dict[str, str] | None = None) -> Process:
        """A service of a member, once it listens."""
        files = self.folder / f"{member}-{len(self.started)}"
        was_started = (self.home(member) / "grids" / "lab" / "listening.json").exists()
        options = [] if was_started else ["--listen", "127.0.0.1:0"]
        process = Process(
            [PHALANX, *words, *options],
            title=f"{member}: phalanx {' '.join(words)}",
            files=files,
            cwd=self.folder,
            env=self.env(member) | (env or {}),
        )
        self.started.append(process)
        self.running[member] = process
        process.line("listening on ", timeout=PATIENCE)
        return process

    def up(self, *options: str) -> str:
        """Starts the hub of the grid ``lab``; returns the first token, if there is one."""
        is_first = not (self.home("hub") / "grids").exists()
        process = self.start("hub", "up", "--grid", "lab", "--interpreters", "2", "--env", "PHALANX_TEST_RUN", *options)
        return process.line("phalanx join ", timeout=PATIENCE).split()[2] if is_first else ""

    def invite(self, *options: str) -> str:
        return self.say("hub", "invite", *options).split()[2]

    def join(self, member: str, token: str, *options: str) -> Process:
        """A machine joins, and its executor starts."""
        words = ["--interpreters", "2", "--env", "PHALANX_TEST_RUN", *options]
        named = [] if token == "lab" else ["--name", member]
        return self.start(member, "join", *words, *named, token)

    def members(self, member: str = "hub") -> dict[str, dict[str, Any]]:
        """The executors that the hub knows, by name."""
        found = json.loads(self.say(member, "members", "--json"))
        return {it["name"]: it for it in found if it["role"] == "executor"}

    def await_members(self, **here: bool) -> None:
        """Waits until the hub says that these members are here, or not."""

        def as_wanted() -> bool:
            found = self.members()
            return all(name in found and found[name]["is_here"] == wanted for name, wanted in here.items())

        until(as_wanted, timeout=PATIENCE, what=f"members as {here}")

    def kill(self, member: str) -> None:
        self.running[member].kill()

    def end(self) -> None:
        for process in self.started:
            with suppress(ProcessLookupError):
                process.kill()


@contextmanager
def site(folder: Path) -> Iterator[Site]:
    """A site whose processes end with the ``with``."""
    found = Site(folder)
    try:
        yield found
    finally:
        found.end()
