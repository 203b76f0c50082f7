"""The programs of examples/message_passing, run by each of the libraries that are compared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).parents[3]
PROGRAMS = TOP / "examples" / "message_passing"
PHALANX = str(Path(sys.executable).with_name("phalanx"))
#: For one run of a program.
_PATIENCE = 600
#: Looking for results only every millisecond, process 0 leaves its core to the others.
NAP = ("--nap", "0.001")


class RunFailed(Exception):
    """A program ended as it should not, or its launcher did."""


@dataclass(frozen=True)
class Library:
    """What starts programs; ``flags`` are given to the matrix multiplication."""

    title: str
    start: Sequence[str]
    #: What mpi4py loads; none: what the launcher says.
    library: str = ""
    multiply: str = "mpi_matrices.py"
    flags: Sequence[str] = ()

    def seconds(self, processes: int, order: int, times: int) -> list[float]:
        """Of each multiplication of square matrices."""
        program = [str(PROGRAMS / self.multiply), str(order), "--times", str(times), *self.flags]
        return [float(found) for found in re.findall(r": ([0-9.]+) s$", self._run(processes, program), re.MULTILINE)]

    def latencies(self, seconds: float) -> dict[int, float]:
        """Microseconds one way, by bytes of the message."""
        said = self._run(2, [str(PROGRAMS / "mpi_ping_pong.py"), str(seconds)])
        return {int(size): float(taken) for size, taken in re.findall(r"(\d+) bytes: ([0-9.]+) µs", said)}

    def _run(self, processes: int, program: Sequence[str]) -> str:
        command = [word.format(processes=processes) for word in self.start] + [*program]
        # These two will not be started by root otherwise, nor with more processes than cores.
        allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        loads = {"MPI4PY_LIBMPI": self.library} if self.library else {}
        environment = {**os.environ, **allowed, **loads, "OPENBLAS_NUM_THREADS": "1"}
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            raise RunFailed(f"{self.title}: not done after {_PATIENCE} s: {' '.join(command)}") from None
        if done.returncode:
            raise RunFailed(f"{self.title}: {' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
        return done.stdout


def ours(hosts: Path | None, identity: Path | None) -> dict[str, Library]:
    """MPI and BSP of phalanx: on this machine, or on those of a hosts file, a process on each as in the paper."""
    where: list[str] = []
    if hosts:
        where = ["--hosts", str(hosts), "--per-host", "1", "--env", "OPENBLAS_NUM_THREADS=1"]
        where += ["--identity", str(identity)] if identity else []
    common = ["-n", "{processes}", "--no-prefix", *where]
    mpi = Library("MPI", [PHALANX, "mpirun", *common, "python" if hosts else sys.executable])
    return {"mpi": mpi, "bsp": Library("BSP", [PHALANX, "bsprun", *common], multiply="bsp_matrices.py")}


def peers() -> dict[str, Library]:
    """MPICH and Open MPI, as far as they are installed; also with a process 0 that naps."""
    found: dict[str, Library] = {}
    starts = {
        "mpich": ("MPICH 5", "libmpi.so.12", ["mpiexec", "-n", "{processes}"]),
        "openmpi": ("Open MPI 5", "libmpi.so.40", ["mpirun", "--map-by", ":OVERSUBSCRIBE", "-n", "{processes}"]),
    }
    for name, (title, file, (launcher, *words)) in starts.items():
        folder = Path(sys.prefix) / name
        if (folder / "bin" / launcher).exists():
            start, library = [str(folder / "bin" / launcher), *words, sys.executable], str(folder / "lib" / file)
            found[name] = Library(title, start, library)
            found[f"{name}-nap"] = Library(f"{title}, process 0 naps", start, library, flags=NAP)
    return found
