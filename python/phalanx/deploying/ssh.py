"""One shared connection of OpenSSH's client to a machine, over which functions of :mod:`phalanx.deploying.there` are
called.

ssh alone decides whom it trusts: it asks about host keys and for passwords on the terminal, and reads the user's
configuration. A function, its arguments and its data travel on standard input. So no shell sees a word of them.
"""

from __future__ import annotations

import json
import secrets
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from phalanx.errors import DeployError

#: What the machine's Python executes first: it reads one line with the rest.
_STUB = (
    "import json,sys;"
    "order=json.loads(sys.stdin.buffer.readline());"
    "scope=dict(__name__=order['module']);"
    "exec(compile(order['source'],order['module'],'exec'),scope);"
    "scope['serve'](order)"
).replace("'", '"')
#: Prints the path of a Python there: of the wanted version, also in the folders of uv and pyenv, or else any.
_FIND = (
    'for it in "$0" "$HOME"/.local/share/uv/python/*/bin/"$0" "$HOME"/.pyenv/versions/*/bin/"$0" python3; do '
    'command -v "$it" && exit 0; done; exit 0'
)
_THERE = Path(__file__).with_name("there.py")
#: Seconds between two looks for the connection. A look costs microseconds.
_PAUSE = 0.02
#: Seconds until ssh, asked to end, is killed.
_END_PATIENCE = 5.0
#: Lines of ssh's own messages that an error shows.
_SHOWN = 6


class Call(NamedTuple):
    """A machine as the user names it, and ssh with the user's own options."""

    machine: str
    ssh: tuple[str, ...] = ("ssh",)


def host_of(call: Call) -> str:
    """The host that ssh connects to, after the user's configuration; an address of IPv6 in brackets."""
    command = [*call.ssh, "-G", "--", call.machine]
    told = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True).stdout
    named = [line.split()[1] for line in told.splitlines() if line.startswith("hostname ")]
    host = named[0] if named else call.machine.rpartition("@")[2]
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


class Connection:
    """A connection to a machine.

    Parameters
    ----------
    call
        The machine, and ssh.
    python
        The Python that is wanted there, like ``"python3.11"``, or the path of one.

    Raises
    ------
    DeployError
        There is no ssh, ssh does not reach the machine, or no Python is there.
    """

    def __init__(self, call: Call, python: str) -> None:
        program = shutil.which(call.ssh[0])
        if program is None:
            raise DeployError(f"there is no {call.ssh[0]} here: install OpenSSH's client (Debian: openssh-client)")
        self._machine = call.machine
        # The path of a unix socket has 107 bytes at most, and TMPDIR may be long.
        self._folder = Path(tempfile.mkdtemp(prefix="phalanx-ssh-", dir="/tmp"))
        self._socket = self._folder / "socket"
        options = ["-o", f"ControlPath={self._socket}", "-o", "ServerAliveInterval=15", "-T"]
        self._ssh = [program, *call.ssh[1:], *options]
        self._master: subprocess.Popen[bytes] | None = None
        try:
            self._open()
            self.python = self._find(python)
        except BaseException:
            self.close()
            raise

    def call(self, function: str, data: Iterable[bytes] = (), **arguments: Any) -> Any:
        """Calls a function there.

        Parameters
        ----------
        function
            Its name in :mod:`phalanx.deploying.there`.
        data
            What it reads from its standard input.
        **arguments
            Values that JSON has.

        Returns
        -------
        object
            What it returns, as JSON has it. The machine may have chosen any words.

        Raises
        ------
        DeployError
            It raises one, or the connection ended.
        """
        mark = f"phalanx-{secrets.token_hex(8)} "
        order = {"source": _THERE.read_text(encoding="utf-8"), "module": "there", "mark": mark}
        line = json.dumps({**order, "call": function, "arguments": arguments}).encode() + b"\n"
        told, said, code = self._run(f"{shlex.quote(self.python)} -c {shlex.quote(_STUB)}", [line, *data])
        # What the start files of a shell print stands before it.
        answers = [text.removeprefix(mark) for text in told.split("\n") if text.startswith(mark)]
        if not answers:
            raise DeployError(f"{self._machine}: {self._why(said, code)}")
        answer = json.loads(answers[-1])
        if "failure" in answer:
            raise DeployError(f"{self._machine}: {answer['failure']}")
        return answer["result"]

    def close(self) -> None:
        """Ends the connection."""
        if self._master is not None:
            self._master.terminate()
            try:
                self._master.wait(_END_PATIENCE)
            except subprocess.TimeoutExpired:
                self._master.kill()
                self._master.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> None:
        messages = self._folder / "messages"
        master = ["-M", "-N", "-o", "ControlPersist=no", "-o", "ExitOnForwardFailure=no"]
        with messages.open("wb") as said:
            self._master = subprocess.Popen(
                [*self._ssh, *master, "--", self._machine],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
            )
        while not self._socket.exists():
            code = self._master.poll()
            if code is not None:
                raise DeployError(f"{self._machine}: {self._why(messages.read_text(errors='replace'), code)}")
            time.sleep(_PAUSE)

    def _find(self, python: str) -> str:
        told, said, code = self._run(f"sh -c {shlex.quote(_FIND)} {shlex.quote(python)}", [])
        found = [line for line in told.splitlines() if line.startswith("/")]
        if code:
            raise DeployError(f"{self._machine}: {self._why(said, code)}")
        if not found:
            raise DeployError(f"{self._machine} has no {python}: install it there (Debian: {python} {python}-venv)")
        return found[0]

    def _run(self, command: str, data: Iterable[bytes]) -> tuple[str, str, int]:
        """What a command prints there, what it and ssh complain about, and its exit status."""
        words = [*self._ssh, "-o", "ControlMaster=no", "--", self._machine, command]
        pipe, messages = subprocess.PIPE, self._folder / secrets.token_hex(4)
        with messages.open("w+b") as said, subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=said) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            with suppress(BrokenPipeError), process.stdin:  # what it says instead of reading tells why
                for part in data:
                    process.stdin.write(part)
            told = process.stdout.read()
            code = process.wait()
            said.seek(0)
            return told.decode(errors="replace"), said.read().decode(errors="replace"), code

    @staticmethod
    def _why(said: str, code: int) -> str:
        lines = [line for line in said.strip().splitlines() if line.strip()]
        return "\n".join(lines[-_SHOWN:]) or f"ssh ended with status {code}"
