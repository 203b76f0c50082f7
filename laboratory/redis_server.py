"""A Redis server of one's own, for tests and benchmarks: nothing on disk, gone at the end."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from laboratory.needs import lacking

_START_SECONDS = 20.0


@dataclass(frozen=True)
class RedisServer:
    """Where it listens: a TCP port of this machine, and a unix socket."""

    port: int
    socket: Path

    @property
    def tcp(self) -> str:
        """Spaces there are `tcp`/NAME."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def unix(self) -> str:
        """The same server without TCP."""
        return f"redis+unix://{self.socket}/0"


def missing() -> str | None:
    """What to install; None when it is there."""
    return lacking("redis-server")


@contextmanager
def redis_server(*options: str, host: str = "127.0.0.1") -> Iterator[RedisServer]:
    """A server for the block, at a free port of `host`; `options` go to its command line. RuntimeError if it fails."""
    with tempfile.TemporaryDirectory(prefix="redis-") as folder, socket.socket() as free:
        free.bind((host, 0))
        made = RedisServer(free.getsockname()[1], Path(folder, "socket"))
        free.close()
        settings = ["--bind", host, "--port", str(made.port), "--unixsocket", str(made.socket), "--save", ""]
        log = Path(folder, "log")
        process = subprocess.Popen(
            ["redis-server", *settings, "--dir", folder, "--logfile", str(log), "--daemonize", "no", *options],
            stdin=subprocess.DEVNULL,
        )
        try:
            _wait(process, made.socket, log)
            yield made
        finally:
            process.kill()
            process.wait()


def _wait(process: subprocess.Popen[bytes], path: Path, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket(socket.AF_UNIX) as probe:
            if path.exists() and probe.connect_ex(str(path)) == 0:
                return
        time.sleep(0.01)
    raise RuntimeError(f"redis-server did not start:\n{log.read_text() if log.exists() else ''}")
