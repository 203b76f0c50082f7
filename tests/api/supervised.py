"""An executor of its own process, whose supervisor starts it again at the same port when it is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from phalanx import _native

from laboratory import identities

PHALANX = Path(sys.executable).with_name("phalanx")


class Grid:
    """A grid with the user ada."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = _native.create_grid()
        self.identity = folder / "user.pem"
        identities.write(self.identity, _native.issue_member(self.authority, "user", "ada"))

    def executor(self, name: str, interpreters: int = 2) -> Supervised:
        identity = self.folder / f"{name}.pem"
        identities.write(identity, _native.issue_member(self.authority, "executor", name))
        return Supervised(identity, interpreters)


class Supervised:
    """The executor and its supervisor."""

    def __init__(self, identity: Path, interpreters: int) -> None:
        self._identity = identity
        self._interpreters = interpreters
        self._lock = threading.Lock()
        self.address = "127.0.0.1:0"
        self.starts = 0
        self.process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        listen = ["--listen", self.address, "--identity", str(self._identity)]
        command = [str(PHALANX), "executor", *listen, "--interpreters", str(self._interpreters)]
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}  # the modules that tasks name
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)
        assert process.stdout is not None
        self.address = next(line.split()[2] for line in process.stdout if line.startswith("listening on "))
        self.starts += 1
        return process

    def kill(self) -> None:
        """Ends it as a power failure would, and waits for its end."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def restart(self) -> None:
        """Starts it again at the same port."""
        with self._lock:
            self.process = self._start()

    @contextmanager
    def killed_on_progress(self, done: Callable[[], int], every: int, times: int = 3) -> Iterator[None]:
        """Meanwhile it is killed each time that so many more are ``done``, and started again a second later; so many
        ``times``, of which the last one may not come."""
        over = threading.Event()

        def supervise() -> None:
            for kill in range(1, times + 1):
                while done() < kill * every:
                    if over.wait(0.01):
                        return
                self.kill()
                over.wait(1)
                self.restart()

        thread = threading.Thread(target=supervise)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
