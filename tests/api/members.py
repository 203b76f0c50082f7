"""A grid that the command line makes, and members of it with folders of their own."""

from __future__ import annotations

import os
from pathlib import Path

from api.executors import PHALANX
from click.testing import CliRunner
from phalanx import _native
from phalanx.cli import commands
from phalanx.cli.grid import _register

from laboratory import identities
from laboratory.processes import Process

PATIENCE = 60


class Lab:
    """A grid, and processes of its members, each of which has its identity file in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "grid"
        self.started: list[Process] = []
        self.grid("create", "--user", "ada")

    def grid(self, *words: str, fails: bool = False) -> str:
        done = CliRunner().invoke(commands, ["grid", *words, "--home", str(self.home)])
        assert (done.exit_code != 0) == fails, done.output
        return str(done.exception) if fails else done.output

    def issue(self, role: str, name: str, seconds: float | None = None) -> Path:
        """The identity file of a new member, whose certificate is good for so long, by default for a year."""
        identity = self.folder / name / "identity.pem"
        identity.parent.mkdir()
        if seconds is None:
            self.grid("issue", "--role", role, name, "--out", str(identity))
        else:
            authority = self.home / "authority.pem"
            days = seconds / (24 * 3600)
            text = _native.issue_member(authority.read_text(), role, name, str(authority), None, days)
            identities.write(identity, text)
            _register(str(authority), text)
        return identity

    def start(self, name: str, *words: str, seconds: float | None = None) -> tuple[Process, str]:
        """An executor or a server of spaces; and where it listens."""
        identity = self.issue("executor", name, seconds)
        env = {**os.environ, "PHALANX_HOME": str(identity.parent), "XDG_RUNTIME_DIR": str(identity.parent)}
        command = [PHALANX, *words, "127.0.0.1:0", "--identity", str(identity)]
        process = Process(command, title=name, files=self.folder / f"{name}-says", cwd=self.folder, env=env)
        self.started.append(process)
        return process, process.line("listening on ", timeout=PATIENCE).split()[2]

    def executor(self, name: str, *options: str, seconds: float | None = None) -> tuple[Process, str]:
        return self.start(name, "executor", "--interpreters", "2", *options, "--listen", seconds=seconds)

    def revoke(self, name: str, *to: Path) -> None:
        """Revokes all certificates of a member, and takes the list to the folders."""
        assert name in self.grid("revoke", name)
        for folder in to:
            (folder / "revoked.txt.part").write_bytes((self.home / "revoked.txt").read_bytes())
            (folder / "revoked.txt.part").replace(folder / "revoked.txt")

    def end(self) -> None:
        for process in self.started:
            process.kill()
