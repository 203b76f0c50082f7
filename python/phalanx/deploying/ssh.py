"""One shared connection of OpenSSH's client to a machine, over which functions of :mod:`phalanx.deploying.there` are
called.

ssh alone decides whom it trusts: it asks about host keys and for passwords on the terminal, and reads the user's
configuration. A function, its arguments and its data travel on standard input. So no shell sees a word of them.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

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
    'found=$(command -v "$it") && printf "\\n%s%s\\n" "$1" "$found" && exit 0; done; exit 0'
)
_THERE = Path(__file__).with_name("there.py")
#: Seconds between two looks for the connection. A look costs microseconds.
_PAUSE = 0.02
#: Seconds until ssh, asked to end, is killed.
_END_PATIENCE = 5.0
#: Lines of ssh's own messages that an error shows.
_SHOWN = 6
#: Bytes of an answer, and the last bytes of messages that are kept. A machine may send without an end.
_MOST, _KEPT = 4 << 20, 1 << 16
#: Seconds for a call: an installation over a slow line takes minutes.
_PATIENCE = 1800.0
#: What functions return: a type, or names with their types. ``state`` has some of its names.
_SHAPES: dict[str, Any] = {
    "facts": {
        **dict.fromkeys(("python", "implementation", "system", "machine", "glibc", "host", "account"), str),
        **dict.fromkeys(("uv", "base", "certificate"), str),
        **dict.fromkeys(("free_threaded", "has_venv", "has_environment", "runs"), bool),
        "state": dict,
        "time": float,
    },
    "installed": dict.fromkeys(("python", "phalanx", "numpy"), str),
    "install": type(None),
    "accept": type(None),
    "request": str,
    "start": str,
    "log": str,
    "remove": list,
}
_STATE = {"digest": str, "version": str, "name": str, "port": int, "words": list}


class Gate:
    """Lets one ssh at a time ask on the terminal, where there is one. Shut, it lets no further one start."""

    def __init__(self) -> None:
        self.is_shut = False
        self._asking = threading.Lock()
        self._open: list[Connection] = []

    @contextmanager
    def passing(self, connection: Connection) -> Iterator[None]:
        """While a connection is made."""
        self._open.append(connection)
        with self._asking if _has_terminal() else nullcontext():
            if self.is_shut:
                raise DeployError("interrupted")
            yield

    def shut(self) -> None:
        """Ends all connections; what goes on over them fails."""
        self.is_shut = True
        for connection in [*self._open]:
            connection.close()


#: Machines at a time.
_AT_ONCE = 16

It = TypeVar("It")
Result = TypeVar("Result")


def for_each(work: Callable[[It], Result], all_of: Sequence[It], gate: Gate) -> list[Result]:
    """The results of a function for several machines, called at the same time. An interrupt shuts the gate."""
    with ThreadPoolExecutor(min(_AT_ONCE, len(all_of))) as pool:
        try:
            return list(pool.map(work, all_of))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            gate.shut()
            raise


def _end_of(messages: Path) -> str:
    """The last messages in a file."""
    with messages.open("rb") as said:
        said.seek(max(0, said.seek(0, os.SEEK_END) - _KEPT))
        return said.read(_KEPT).decode(errors="replace")


def _has_terminal() -> bool:
    """Whether ssh can ask: it opens the terminal itself, whatever standard input is."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _check(function: str, result: Any) -> None:
    """Raises ValueError if a result has not the types of the function's. The machine may have chosen any."""
    shape = _SHAPES[function]
    parts = [(result, shape)]
    if isinstance(shape, dict):
        if not isinstance(result, dict):
            raise ValueError("no table")
        parts = [(result.get(name), kind) for name, kind in shape.items()]
        state = result.get("state")
        if isinstance(state, dict):
            parts += [(state[name], kind) for name, kind in _STATE.items() if name in state]
            if not 1 <= state.get("port", 1) <= 65535:
                raise ValueError("no port")
    if not all(type(part) is kind for part, kind in parts):
        raise ValueError("wrong types")


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
    gate
        Keeps questions of several connections apart, and ends them all.

    Raises
    ------
    DeployError
        There is no ssh, ssh does not reach the machine, or no Python is there.
    """

    def __init__(self, call: Call, python: str, gate: Gate | None = None) -> None:
        program = shutil.which(call.ssh[0])
        if program is None:
            raise DeployError(f"there is no {call.ssh[0]} here: install OpenSSH's client (Debian: openssh-client)")
        self._machine = call.machine
        # The path of a unix socket has 107 bytes at most, and TMPDIR may be long.
        self._folder = Path(tempfile.mkdtemp(prefix="phalanx-ssh-", dir="/tmp"))
        self._socket = self._folder / "socket"
        options = ["-o", f"ControlPath={self._socket}", "-o", "ServerAliveInterval=15", "-T"]
        # The first value of an option counts, but the last -S.
        self._ssh = [program, *options, *call.ssh[1:], "-S", str(self._socket)]
        self._gate = gate or Gate()
        self._master: subprocess.Popen[bytes] | None = None
        try:
            with self._gate.passing(self):
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
        try:
            answer = json.loads(answers[-1])
            if "failure" in answer:
                raise DeployError(f"{self._machine}: {answer['failure']}")
            _check(function, answer["result"])
        except (ValueError, TypeError, LookupError, RecursionError) as error:
            raise DeployError(f"{self._machine}: its answer to {function} makes no sense ({error})") from None
        return answer["result"]

    def close(self) -> None:
        """Ends the connection."""
        if self._master is not None:
            with suppress(OSError):
                if self._master.stdin is not None:
                    self._master.stdin.close()
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
        # It ends with its standard input, so also when this process is killed.
        master = ["-M", "-o", "ControlPersist=no", "-o", "ExitOnForwardFailure=no"]
        with messages.open("wb") as said:
            self._master = subprocess.Popen(
                [*self._ssh[:1], *master, *self._ssh[1:], "--", self._machine, "cat"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=said,
            )
        while not self._socket.exists():
            if self._gate.is_shut:
                raise DeployError(f"{self._machine}: interrupted")
            code = self._master.poll()
            if code is not None:
                raise DeployError(f"{self._machine}: {self._why(_end_of(messages), code)}")
            time.sleep(_PAUSE)

    def _find(self, python: str) -> str:
        mark = f"phalanx-{secrets.token_hex(8)} "
        told, said, code = self._run(f"sh -c {shlex.quote(_FIND)} {shlex.quote(python)} {shlex.quote(mark)}", [])
        marked = [line.removeprefix(mark) for line in told.split("\n") if line.startswith(mark)]
        found = [path for path in marked if path.startswith("/")]
        if code:
            raise DeployError(f"{self._machine}: {self._why(said, code)}")
        if not found:
            raise DeployError(f"{self._machine} has no {python}: install it there (Debian: {python} {python}-venv)")
        return found[0]

    def _run(self, command: str, data: Iterable[bytes]) -> tuple[str, str, int]:
        """What a command prints there, what it and ssh complain about, and its exit status."""
        words = [*self._ssh, "-o", "ControlMaster=no", "--", self._machine, command]
        pipe, messages = subprocess.PIPE, self._folder / secrets.token_hex(4)
        with messages.open("wb") as said, subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=said) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            timer = threading.Timer(_PATIENCE, process.kill)
            timer.daemon = True
            timer.start()
            try:
                with suppress(BrokenPipeError), process.stdin:  # what it says instead of reading tells why
                    for part in data:
                        process.stdin.write(part)
                told = process.stdout.read(_MOST + 1)
                if len(told) > _MOST:
                    process.kill()
                    raise DeployError(f"{self._machine}: its answer has more than {_MOST >> 20} MiB")
                code = process.wait()
            finally:
                timer.cancel()
            return told.decode(errors="replace"), _end_of(messages), code

    @staticmethod
    def _why(said: str, code: int) -> str:
        lines = [line for line in said.strip().splitlines() if line.strip()]
        return "\n".join(lines[-_SHOWN:]) or f"ssh ended with status {code}"
