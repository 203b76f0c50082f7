"""Other machines: each is an sshd of Debian's OpenSSH at 127.0.0.1 with a home folder of its own."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import phalanx

from laboratory.processes import Process, until
from laboratory.sshd import EMPTY, settings

SSHD = "/usr/sbin/sshd"
#: The mode of one that tests have made. Debian's is another one.
_OF_TESTS = 0o711
_CLIENT = """
Host {name}
  HostName 127.0.0.1
  Port {port}
  IdentityFile {keys}/user
  IdentitiesOnly yes
  UserKnownHostsFile {keys}/known
  GlobalKnownHostsFile none
  StrictHostKeyChecking yes
  BatchMode yes
"""
#: The Python of no environment, which a machine has in its PATH.
BASE = Path(sys.base_prefix) / "bin"


def free_port() -> int:
    """A port where no process listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Machines:
    """Machines that ssh reaches by their names, with a configuration of its own."""

    def __init__(self, folder: Path, mark: str) -> None:
        self._folder, self._mark = folder, mark
        self._config = folder / "config"
        self._config.touch()
        self._servers: list[Process] = []

    @property
    def ssh(self) -> str:
        """The client, as the user names it."""
        return f"ssh -F {self._config}"

    def add(self, name: str, *, path: tuple[Path, ...] = (), is_known: bool = True, **variables: str) -> Path:
        """One more machine; its home folder. ``path``: folders that stand first in its PATH."""
        keys, home, port = self._folder / name, self._folder / f"{name}-home", free_port()
        for folder in (keys, home):
            folder.mkdir()
        for key in ("host", "user"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", key, "-f", str(keys / key)]
            subprocess.run(command, check=True)
        host = (keys / "host.pub").read_text() if is_known else ""
        (keys / "known").write_text(f"[127.0.0.1]:{port} {host}\n" if host else "")
        with self._config.open("a") as config:
            config.write(_CLIENT.format(name=name, port=port, keys=keys))
        places = os.pathsep.join([*map(str, path), str(BASE), "/usr/bin", "/bin"])
        own = {"HOME": str(home), "PATH": places, "PHALANX_TEST_RUN": self._mark, **variables}
        words = " ".join(f'"{variable}={value}"' for variable, value in own.items())
        server = keys / "server"
        server.write_text(settings(keys, "127.0.0.1", port, f"SetEnv {words}"))
        process = Process(
            [SSHD, "-D", "-e", "-f", str(server)],
            title=f"sshd of {name}",
            files=keys / "sshd",
            cwd=keys,
            env=os.environ,
        )
        self._servers.append(process)
        until(lambda: "listening" in process.stderr().lower(), timeout=30, what=f"sshd of {name}: {process.report()}")
        return home

    def name(self, name: str) -> None:
        """A machine that is off: its port is closed."""
        with self._config.open("a") as config:
            config.write(_CLIENT.format(name=name, port=free_port(), keys=self._folder))

    def close(self) -> None:
        """Ends all servers, and the executors of tests that have failed."""
        for server in self._servers:
            server.kill()
        for file in self._folder.glob("*-home/.local/share/phalanx/executor.pid"):
            with suppress(OSError, ValueError):
                os.kill(int(file.read_text().split()[0]), signal.SIGTERM)


@contextmanager
def machines(folder: Path, mark: str) -> Iterator[Machines]:
    """Machines for the block."""
    empty = _hold_empty() if os.geteuid() == 0 else None
    all_of = Machines(folder, mark)
    try:
        yield all_of
    finally:
        all_of.close()
        if empty is not None:
            _leave_empty(empty)


def _hold_empty() -> int:
    """Makes the empty folder if there is none. Other tests use it too: each of them holds a shared lock on it."""
    while True:
        with suppress(FileExistsError):
            EMPTY.mkdir(mode=_OF_TESTS)
        with suppress(FileNotFoundError):  # another test has just removed it
            held = os.open(EMPTY, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(held, fcntl.LOCK_SH)
            if EMPTY.exists() and EMPTY.stat().st_ino == os.fstat(held).st_ino:
                return held
            os.close(held)


def _leave_empty(held: int) -> None:
    """Removes the empty folder if tests have made it and no other one uses it."""
    with suppress(OSError):
        if stat.S_IMODE(os.fstat(held).st_mode) == _OF_TESTS:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            EMPTY.rmdir()
    os.close(held)


def quick_wheel(folder: Path) -> Path:
    """A wheel of the package as it is in the source tree, without the libraries of MPI and BSP."""
    package, version = Path(phalanx.__file__).parent, phalanx.__version__
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    tag, info = f"{python}-{python}-linux_{os.uname().machine}", f"phalanx_grid-{version}.dist-info"
    files = {
        str(it.relative_to(package.parent)): it.read_bytes()
        for it in sorted(package.rglob("*"))
        if it.is_file() and "__pycache__" not in it.parts and "_mpi" not in it.parts and it.suffix != ".so"
    }
    [extension] = package.glob("_native.*.so")
    files[f"phalanx/{extension.name}"] = _stripped(extension, folder)
    needs = "".join(f"Requires-Dist: {name}\n" for name in ("click", "cloudpickle", "rich"))
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: phalanx-grid\nVersion: {version}\n{needs}\n".encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    files[f"{info}/entry_points.txt"] = b"[console_scripts]\nphalanx = phalanx.cli:main\n"
    wheel = folder / f"phalanx_grid-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        archive.writestr(f"{info}/RECORD", "".join(map(_record, files, files.values())) + f"{info}/RECORD,,\n")
    return wheel


def _record(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def _stripped(extension: Path, folder: Path) -> bytes:
    """The extension without what debuggers read, which is most of it."""
    strip = shutil.which("strip")
    if strip is None:
        return extension.read_bytes()
    subprocess.run([strip, "--strip-debug", "-o", str(folder / extension.name), str(extension)], check=True)
    return (folder / extension.name).read_bytes()
