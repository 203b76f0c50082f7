"""A process of a lab or a test, and waiting for what it does: with a deadline, never by a guessed sleep."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T], *, timeout: float, what: str) -> T:
    """Ask `condition` until its answer is true, and return that; AssertionError after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        # Asked once more after the deadline: a machine that froze for a while must not fail what is true.
        late = time.monotonic() > deadline
        answer = condition()
        if answer:
            return answer
        if late:
            raise AssertionError(f"waited {timeout} s in vain for {what}")
        time.sleep(0.01)


def reads(pid: int, name: str) -> bool:
    """Whether a process has a file of this name open; on Linux."""
    found = []
    with suppress(OSError):
        for one in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                found.append(one.readlink().name)
    return name in found


def freeze(pid: int) -> None:
    """Stop a process, and return when none of its threads runs any more. After SIGSTOP is sent they run on for a while,
    on a busy machine long enough to answer a question."""
    os.kill(pid, signal.SIGSTOP)

    def stopped() -> bool:
        stats = []
        for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
            with suppress(OSError):  # a thread that has ended meanwhile
                stats.append(stat.read_text())
        return all(stat.rpartition(")")[2].split()[0] in "TtZX" for stat in stats)

    until(stopped, timeout=60, what=f"the last thread of process {pid} to stop")


def thaw(pid: int) -> None:
    """Let a process that was frozen go on."""
    os.kill(pid, signal.SIGCONT)


class Process:
    """A command in a session and process group of its own. It prints to files, so it never blocks on us."""

    def __init__(self, command: Sequence[str], *, title: str, files: Path, cwd: Path, env: Mapping[str, str]) -> None:
        self.title = title
        self._files = {name: files.with_suffix(f".{name}") for name in ("stdout", "stderr")}
        with self._files["stdout"].open("wb") as stdout, self._files["stderr"].open("wb") as stderr:
            # A shell starts what it puts in the background with Ctrl-C ignored, and that is inherited.
            self._popen = subprocess.Popen(
                ["env", "--default-signal=INT", *command],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                env=env,
                cwd=cwd,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process, also when it has ended."""
        return self._popen.pid

    @property
    def code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._popen.poll()

    def stdout(self) -> str:
        """What it has printed so far."""
        return self._files["stdout"].read_text(errors="replace")

    def stderr(self) -> str:
        """What it has complained about so far."""
        return self._files["stderr"].read_text(errors="replace")

    def lines(self) -> list[str]:
        """The complete lines on stdout so far."""
        return self.stdout().split("\n")[:-1]

    def line(self, start: str, *, timeout: float = 30) -> str:
        """The first line on stdout that begins with `start`; AssertionError if the process ends before."""

        def found() -> str | None:
            ended = self.code is not None  # asked before reading: the last words count
            line = next((line for line in self.lines() if line.startswith(start)), None)
            if line is None and ended:
                raise AssertionError(f"no line {start!r} from {self.report()}")
            return line

        return until(found, timeout=timeout, what=f"a line {start!r} from {self.title}") or ""

    def wait(self, *, timeout: float = 30) -> int:
        """The exit code; AssertionError with all it printed when it still runs after `timeout` seconds."""
        try:
            return self._popen.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {timeout} s: {self.report()}") from None

    def signal(self, number: signal.Signals, *, group: bool = False) -> None:
        """Send a signal to the process, or as a terminal does to its whole group."""
        if group:
            os.killpg(self.pid, number)
        else:
            self._popen.send_signal(number)

    def freeze(self) -> None:
        """As :func:`freeze`."""
        freeze(self.pid)

    def thaw(self) -> None:
        """As :func:`thaw`."""
        thaw(self.pid)

    def kill(self) -> None:
        """SIGKILL, and gone when this returns."""
        self._popen.kill()
        self._popen.wait()

    def report(self) -> str:
        """What a person needs who reads the failure of a test."""
        return f"{self.title} (exit code {self.code})\n-- stdout\n{self.stdout()}\n-- stderr\n{self.stderr()}"
