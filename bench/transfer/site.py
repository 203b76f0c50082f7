"""The two ends of a copy: both on this machine, or each in a network namespace."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bench.peers.processes import tree_cpu_seconds
from laboratory.namespaces import inside

#: For a server to listen, and for one run of a client, in seconds.
_START, _PATIENCE = 20.0, 120.0


class Failure(Exception):
    """A peer did not do what it was asked; says why."""


class Run(NamedTuple):
    """Of one command: seconds on the wall, CPU seconds of both ends, and what it printed."""

    seconds: float
    cpu: float
    output: str


@dataclass(frozen=True)
class Site:
    """Commands run at the namespace ``here``, servers at ``there``, whose address this is; None: this machine's own.

    ``folder`` is seen by both ends.
    """

    folder: Path
    address: str = "127.0.0.1"
    here: str | None = None
    there: str | None = None

    def run(self, command: Sequence[str | Path], env: Mapping[str, str] | None = None) -> Run:
        """Run a client to its end."""
        words = [*_entering(self.here), *map(str, command)]
        before, begin = tree_cpu_seconds(), time.perf_counter()
        try:
            done = subprocess.run(
                words, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, capture_output=True,
                text=True, timeout=_PATIENCE,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Failure(f"{command[0]} was not done after {_PATIENCE:.0f} s") from None
        seconds = time.perf_counter() - begin
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines()
            raise Failure(f"{command[0]}: {' '.join(said[-2:]) or f'exit code {done.returncode}'}")
        return Run(seconds, tree_cpu_seconds() - before, done.stdout)

    @contextmanager
    def serve(
        self, command: Sequence[str | Path], port: int, env: Mapping[str, str] | None = None
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A server within the block, from when it listens at `port`."""
        words = [*_entering(self.there), *map(str, command)]
        log = self.folder / f"server-{port}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                words, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )
        try:
            self._wait(process, port, log)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def port(self) -> int:
        """One that is free: here, and in a namespace, where nobody else is, very likely too."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            return int(free.getsockname()[1])

    def _wait(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        deadline = time.monotonic() + _START
        while time.monotonic() < deadline and process.poll() is None:
            with inside(self.here) if self.here else nullcontext(), socket.socket() as probe:
                probe.settimeout(1)
                if probe.connect_ex((self.address, port)) == 0:
                    return
            time.sleep(0.02)
        said = log.read_text(errors="replace").strip().splitlines()
        raise Failure(f"its server did not start: {' '.join(said[-4:])}")


def absent(package: str, *programs: str) -> str | None:
    """Why programs cannot be run, and the Debian package that has them; None when they are there."""
    lacking = [program for program in programs if shutil.which(program) is None]
    return f"not installed: {', '.join(lacking)} (Debian: {package})" if lacking else None


def _entering(namespace: str | None) -> list[str]:
    return ["ip", "netns", "exec", namespace] if namespace else []
