"""What a newcomer does: installs into an empty environment, runs a program of a few lines, imports."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_UV = str(Path(sys.executable).with_name("uv"))
_PROGRAMS = Path(__file__).with_name("programs")
#: So that a peer that hangs is an error.
_SECONDS = 600
#: What would let a peer find this repository or its environment, or stop Python from keeping bytecode.
_HIDDEN = ("PYTHONDONTWRITEBYTECODE", "PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV")


class TrialError(Exception):
    """What went wrong in an installation or a program, with its output."""


@dataclass(frozen=True)
class Peer:
    """What is installed, what its program imports, and the program."""

    title: str
    requirement: str
    imports: str
    program: str


class Seconds(NamedTuple):
    """From an empty environment to the first result, in two parts."""

    install: float
    program: float


class Milliseconds(NamedTuple):
    """Of a process: from its start to its end, and its processor time, which other processes disturb least."""

    elapsed: float
    cpu: float


class Environment:
    """A virtual environment in a folder, which is emptied. uv's cache of downloads is in another folder."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder, self.cache = folder, cache
        python = Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")
        self._uv("venv", "--quiet", "--clear", "--python", str(python), str(folder))

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(self.folder / "bin" / "python")

    @property
    def megabytes(self) -> float:
        """The size of all files that are installed, in MB (10**6 bytes); bytecode of the first run included."""
        files = (self.folder / "lib").rglob("*")
        return sum(path.lstat().st_size for path in files if path.is_file()) / 1e6

    def first_result(self, peer: Peer) -> Seconds:
        """Installs a peer and runs its program, up to the first line that it prints."""
        begun = time.perf_counter()
        self._uv("pip", "install", "--quiet", "--system-certs", "--python", self.python, peer.requirement)
        installed = time.perf_counter()
        program = [self.python, str(_PROGRAMS / peer.program)]
        with subprocess.Popen(
            program, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as running:
            assert running.stdout is not None
            line = running.stdout.readline()
            done = time.perf_counter()
            _, told = running.communicate(timeout=_SECONDS)
        if line != "0\n" or running.returncode:
            raise TrialError(f"{peer.title}: {' '.join(program)}: {line}{told}")
        return Seconds(installed - begun, done - installed)

    def milliseconds(self, statement: str) -> Milliseconds:
        """How long a new process takes that executes a statement."""
        begun, before = time.perf_counter(), _children_seconds()
        _run([self.python, "-c", statement], _environment())
        return Milliseconds((time.perf_counter() - begun) * 1000, (_children_seconds() - before) * 1000)

    def _uv(self, *words: str) -> None:
        _run([_UV, *words], _environment() | {"UV_CACHE_DIR": str(self.cache)})


def _children_seconds() -> float:
    """The processor time of all processes that this one has started and waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _HIDDEN}


def _run(command: Sequence[str], env: dict[str, str]) -> None:
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=_SECONDS)
    if done.returncode:
        raise TrialError(f"{' '.join(command)}: {done.stderr.strip()}")
