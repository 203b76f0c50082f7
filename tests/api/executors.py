"""Executors on this machine as processes of their own, and the users of their grid."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import pytest
from phalanx import _native

from laboratory import identities
from laboratory.processes import Process

PHALANX = str(Path(sys.executable).with_name("phalanx"))


def keeps_files_apart(executor: Process) -> bool:
    """Whether its kernel has Landlock. Without it, tasks count as processes of the executor's owner."""
    return executor.line("cage: ").startswith(("cage: files", "cage: full"))


class Executors:
    """A grid whose executors end with the ``with``. ``identity``: ada's file, in `folder`.

    ``before``: words before the command that starts an executor.
    """

    def __init__(self, folder: Path, before: Sequence[str] = ()) -> None:
        self._folder, self._before = folder, before
        self._authority = _native.create_grid()
        self.started: list[Process] = []
        self.identity = self.user("ada")

    def user(self, name: str) -> Path:
        """The identity file of a user."""
        return self.issue("user", name)

    def start(
        self,
        name: str,
        *options: str,
        interpreters: int | None = 2,
        env: Mapping[str, str] | None = None,
        listen: str = "127.0.0.1:0",
    ) -> str:
        """The address of one more. ``interpreters``: None for as many as it offers by itself."""
        identity = self.issue("executor", name)
        command = [*self._before, PHALANX, "executor", "--listen", listen, "--identity", str(identity)]
        places = [] if interpreters is None else ["--interpreters", str(interpreters)]
        # So that what a test leaves is found.
        marked = ["--env", "PHALANX_TEST_RUN"]
        process = Process(
            [*command, *places, *marked, *options],
            title=f"the executor {name}",
            files=self._folder / name,
            cwd=self._folder,
            env={**os.environ, **(env or {})},
        )
        self.started.append(process)
        return process.line("listening on ").split()[2]

    def need_cages(self) -> None:
        """Skips the test where executors do not keep files apart: tasks count as the owner's processes there."""
        if not keeps_files_apart(self.started[0]):
            pytest.skip("this kernel has no Landlock")

    def issue(self, role: str, name: str) -> Path:
        """The identity file of a member."""
        path = self._folder / f"{role}-{name}.pem"
        identities.write(path, _native.issue_member(self._authority, role, name))
        return path

    def __enter__(self) -> Executors:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.started:
            with suppress(ProcessLookupError):
                process.kill()
