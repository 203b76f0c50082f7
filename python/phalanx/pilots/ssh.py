"""Executors on machines that are reached over ssh."""

from __future__ import annotations

import itertools
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import IO

from phalanx.errors import RecruitError
from phalanx.pilots._order import Order, command
from phalanx.pilots._pilot import Pilot
from phalanx.words import Cage

#: Starts the executor with the first Python that has phalanx: the one that is named, or what ``phalanx deploy`` made.
_FIND = (
    'for it in "$1" "${XDG_DATA_HOME:-$HOME/.local/share}"/phalanx/environment-*/bin/python; do '
    '[ -x "$it" ] || it=$(command -v "$it") || continue; '
    '"$it" -c "import sys; sys.path.pop(0); import phalanx.cli" 2>/dev/null && exec "$it" -c "$2" pilot -; done; '
    'echo "no Python here has phalanx ($1)" >&2; exit 127'
)
#: The exit status of ssh when it cannot connect, and of the script when there is no phalanx.
_NOT_REACHED, _NOT_THERE = 255, 127
#: Seconds before a machine is tried again: the first time, and at most.
_FIRST_PAUSE, _MOST_PAUSE = 1.0, 30.0
#: Seconds that an executor may take to end what it runs. Then ssh is killed, and the executor hears of it.
_PATIENCE = 5.0
#: Bytes of ssh's and the executor's messages that are kept, and lines of them that an error shows.
_KEPT, _SHOWN = 8 << 10, 3


class Ssh(Pilot):
    """Executors on machines that are reached over ssh, without a password.

    Each machine needs phalanx of the same version, as ``phalanx deploy`` installs it, or a Python that has it. Nothing
    of it needs to run there. The order for the executor, with its secret, travels on the standard input of ssh. An
    executor ends when ssh ends. A machine that is lost is tried again, less and less often.

    Parameters
    ----------
    machines : iterable of str
        The machines, as ssh knows them: ``"ws7"``, ``"ada@10.0.0.7"``.
    ssh : str
        OpenSSH's client, with options like ``"ssh -p 2222"``.
    python : str, optional
        The Python there that has phalanx. By default that of this program, or that which ``phalanx deploy`` has
        installed there.
    interpreters : int, optional
        How many interpreters each executor offers. By default one for each core.
    at_least : int, optional
        The number of executors that are waited for. By default all: those that cannot be reached are named in a
        warning, as long as there is one.
    wait : float
        Maximum seconds to wait for them. Default: 60.
    address : str or iterable of str
        By which hosts the machines reach this one. By default by all addresses that it has.
    cage : {"none", "limits", "files", "full"}
        What keeps your processes there from the rest of your account. Default: ``"none"``.
    export : str or iterable of str
        Folders there that copies may read, or read and write, like ``"/scratch:rw"``. Default: none.

    Raises
    ------
    RecruitError
        There is no machine, or an option is wrong.

    Examples
    --------
    >>> import phalanx as px
    >>> with px.Manager(px.Ssh(["ws7", "ada@ws8"])) as manager:  # doctest: +SKIP
    ...     print(list(manager.map(abs, [-1, 2])))
    [1, 2]
    """

    def __init__(
        self,
        machines: Iterable[str],
        *,
        ssh: str = "ssh",
        python: str | None = None,
        interpreters: int | None = None,
        at_least: int | None = None,
        wait: float = 60.0,
        address: str | Iterable[str] = (),
        cage: Cage = "none",
        export: str | Iterable[str] = (),
    ) -> None:
        named = [machines] if isinstance(machines, str) else [*machines]
        self._machines = (*dict.fromkeys(named),)
        if not self._machines:
            raise RecruitError("px.Ssh has no machine: write px.Ssh(['ws7', 'ada@ws8'])")
        for machine in self._machines:
            if not isinstance(machine, str) or not machine or machine.startswith("-") or not machine.isprintable():
                raise RecruitError(f"{machine!r:.80} is no machine: write HOST or USER@HOST, as for ssh")
        super().__init__(
            interpreters=interpreters,
            at_least=len(self._machines) if at_least is None else at_least,
            wait=wait,
            address=address,
            cage=cage,
            export=export,
        )
        self._ssh, self._python = shlex.split(ssh), python
        self._failures: dict[str, str] = {}
        self._given_up: set[str] = set()
        self._closing = threading.Event()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._threads: list[threading.Thread] = []

    def _start(self, order: Order) -> None:
        if not self._ssh or shutil.which(self._ssh[0]) is None:
            name = self._ssh[0] if self._ssh else "ssh"
            raise RecruitError(f"there is no {name} here: install OpenSSH's client (Debian: openssh-client)")
        self._closing.clear()
        self._failures.clear()
        self._given_up.clear()
        keep = [threading.Thread(target=self._keep, args=(machine, order), daemon=True) for machine in self._machines]
        self._threads = keep
        for thread in keep:
            thread.start()

    def _end(self) -> None:
        self._closing.set()
        for process in [*self._running.values()]:
            with suppress(OSError):
                if process.stdin is not None:
                    process.stdin.close()  # the executor reads the end of it, and ends
        for thread in self._threads:
            thread.join()

    def _failure(self, here: int) -> str | None:
        return self._why() if len(self._given_up) + here >= len(self._machines) else None

    def _state(self) -> str:
        return self._why() or f"{', '.join(self._machines)}: nothing was heard"

    def _why(self) -> str:
        return "; ".join(f"{machine}: {why}" for machine, why in [*self._failures.items()])

    def _keep(self, machine: str, order: Order) -> None:
        """Runs the executor of a machine, and runs it again after it was lost. It gives up a machine that was never
        reached."""
        pause, was_there, name = _FIRST_PAUSE, False, machine.rpartition("@")[2].partition(".")[0]
        for times in itertools.count():
            if self._closing.is_set():
                return
            began = time.monotonic()
            try:
                code, said = self._run(machine, order._replace(name=f"{name}-{times}" if times else name))
            except OSError as error:  # this machine starts no further process
                self._failures[machine] = f"ssh cannot be started here: {error}"
                self._given_up.add(machine)
                return
            if self._closing.is_set():
                return
            lasted = time.monotonic() - began
            was_there = was_there or "listening on " in said
            self._failures[machine] = _explained(code, said)
            if not was_there:
                self._given_up.add(machine)
                return
            pause = _FIRST_PAUSE if lasted > _MOST_PAUSE else min(2 * pause, _MOST_PAUSE)
            self._closing.wait(pause)

    def _run(self, machine: str, order: Order) -> tuple[int, str]:
        """Runs an executor to its end. Returns the exit status of ssh, and the last words of both."""
        # The first value of an option counts: those of the user are before ours.
        options = ["-o", "BatchMode=yes", "-o", "ServerAliveInterval=15", "-T"]
        code = command("python")[2]
        script = ["sh", "-c", _FIND, "sh", self._python or _here(), code]
        words = [*self._ssh, *options, "--", machine, shlex.join(script)]
        with tempfile.TemporaryFile() as said:
            # In a session of its own, so that a Ctrl-C on the terminal ends the executor after the program's end.
            process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
            )
            self._running[machine] = process
            try:
                self._feed(process, order)
                self._until_end(process)
            finally:
                if process.stdin is not None:
                    with suppress(OSError, ValueError):
                        process.stdin.close()
                self._running.pop(machine, None)
            return process.returncode, _end_of(said)

    @staticmethod
    def _feed(process: subprocess.Popen[bytes], order: Order) -> None:
        assert process.stdin is not None
        with suppress(OSError, ValueError):  # what it says instead of reading tells why; the pilot may be closed
            process.stdin.write(order.line())
            process.stdin.flush()

    def _until_end(self, process: subprocess.Popen[bytes]) -> None:
        """Waits for the end of ssh, which is soon after the pilot is closed."""
        while process.poll() is None and not self._closing.is_set():
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.2)
        if process.poll() is None:
            if process.stdin is not None:
                with suppress(OSError, ValueError):
                    process.stdin.close()
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def __repr__(self) -> str:
        return f"Ssh({[*self._machines]!r})"


def _here() -> str:
    """The path of this Python, which another machine may have, too."""
    return command()[0]


def _end_of(said: IO[bytes]) -> str:
    said.seek(max(0, said.seek(0, 2) - _KEPT))
    return said.read(_KEPT).decode(errors="replace")


def _explained(code: int, said: str) -> str:
    """Why an executor ended, and what to do."""
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith("Warning: ")]
    last = "; ".join("".join(c if c.isprintable() else "?" for c in line) for line in lines[-_SHOWN:])
    if code == _NOT_THERE:
        return f"{last}: install it there with phalanx deploy, or say which Python has it: python="
    if code == _NOT_REACHED:
        return f"ssh ended: {last or 'without a word'}; it must connect without a password"
    return f"the executor ended with status {code}: {last or 'without a word'}"
