"""Uses everything that an installed phalanx offers, as a user would: each command, and each of the four models.

Needs nothing but the phalanx of the Python that runs it, and works in an empty folder. Prints one line for each use:
`passed NAME`, `absent NAME: what it needs`, or `failed NAME: why`. Exits with 1 if one has failed.

Words of the command line are the only uses that are tried. ``PHALANX_SMOKE_EXECUTOR`` names another Python, whose
phalanx is then the executor's.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

DISTRIBUTION = "phalanx-grid"
#: Emulated machines are slow.
SECONDS = float(os.environ.get("PHALANX_SMOKE_SECONDS", "120"))
#: The user of the grid. A system without accounts has no name to take.
OWNER = "tester"
PHALANX = [sys.executable, "-m", "phalanx"]
EXECUTOR = [os.environ.get("PHALANX_SMOKE_EXECUTOR", sys.executable), "-m", "phalanx"]
FARM = """
import phalanx as px

def double(n):
    return 2 * n

def main():
    program = px.Pipeline(double, px.Farm(abs))
    with px.Manager({hosts}contract=px.ParDegree(2)) as manager:
        print(sum(manager.compute(program, range(-50, 50))), manager.submit(double, 21).result())

if __name__ == "__main__":
    main()
"""
TOTAL = f"{sum(abs(2 * n) for n in range(-50, 50))} 42"
RING = """
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int rank, size, token = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &token, 1, MPI_INT, (rank + size - 1) % size, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    printf("%d got %d\\n", rank, token);
    return MPI_Finalize();
}
"""
#: What programs do that are built for one of MPI's interfaces: they load its library by its name, and call it.
LOADED = """
import ctypes, sys

library, world = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p(int(sys.argv[2], 16))
rank, size = ctypes.c_int(), ctypes.c_int()
assert library.MPI_Init(None, None) == 0
assert library.MPI_Comm_rank(world, ctypes.byref(rank)) == 0
assert library.MPI_Comm_size(world, ctypes.byref(size)) == 0
print(rank.value, "of", size.value, flush=True)
assert library.MPI_Finalize() == 0
"""
#: The libraries of MPI, and what each calls MPI_COMM_WORLD.
INTERFACES = {"libmpi_abi.so.1": "0x101", "libmpi.so.12": "0x44000000", "libmpich.so.12": "0x44000000"}
MPI4PY = """
from mpi4py import MPI

world = MPI.COMM_WORLD
print("sum", world.allreduce(world.rank))
"""
SUPERSTEPS = """
import array
from phalanx import bsp

with bsp.begin():
    sums = array.array("d", bytes(8 * bsp.nprocs()))
    bsp.push_reg(sums)
    bsp.sync()
    for pid in range(bsp.nprocs()):
        bsp.put(pid, array.array("d", [bsp.pid() + 1.0]), sums, bsp.pid())
    bsp.sync()
    print(sum(sums))
"""
SUPERSTEPS_IN_C = """
#include <bsp.h>
#include <stdio.h>

int main(void) {
    bsp_begin(bsp_nprocs());
    printf("%d of %d\\n", bsp_pid(), bsp_nprocs());
    bsp_sync();
    bsp_end();
    return 0;
}
"""


class Absent(Exception):
    """What this use needs is not here."""


def run(*words: str | Path, **more: str) -> str:
    """What a command prints; an error with all of it where the command fails."""
    env = os.environ | more
    done = subprocess.run([*words], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS)
    told = done.stdout.decode(errors="replace").strip()
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, words))} ended with {done.returncode}: {told}")
    return told


def phalanx(*words: str | Path) -> str:
    """What a command of phalanx prints."""
    return run(*PHALANX, *words)


def equal(found: object, expected: object) -> None:
    """Raises where they differ."""
    if found != expected:
        raise AssertionError(f"{found!r} instead of {expected!r}")


def version() -> None:
    """Equal in the package, the command and the metadata; and the package is not that of a source tree."""
    from importlib.metadata import version as installed

    import phalanx as px

    equal(px.__version__, installed(DISTRIBUTION))
    equal(phalanx("--version"), f"phalanx, version {px.__version__}")
    if (Path(px.__file__).parents[2] / "Cargo.toml").exists():
        raise AssertionError(f"{px.__file__} is a source tree")


def commands() -> None:
    """Each command and each below it says how it is used."""
    from phalanx.cli import MODULES

    below = {"grid": ["accept", "create", "issue", "list", "lock", "renew", "request", "revoke", "sign"]}
    below |= {"known": ["forget", "list"], "space": ["create", "info", "members", "move", "serve"]}
    for name in MODULES:
        for words in [[name], *([name, it] for it in below.get(name, []))]:
            usage = phalanx(*words, "--help").split("\n")[0]
            equal(usage.startswith(f"Usage: phalanx {' '.join(words)} "), True)


def farm() -> None:
    """A pipeline with a farm, on interpreters of this machine."""
    Path("farm.py").write_text(FARM.format(hosts=""))
    equal(run(sys.executable, "farm.py"), TOTAL)


def space() -> None:
    """A tuple space of threads."""
    import phalanx as px

    with px.Space() as own:
        threading.Thread(target=own.out, args=("answer", 42)).start()
        equal(own.in_("answer", int), ("answer", 42))


def grid() -> None:
    """An executor of a grid: a farm, a served space, and every command for files there."""
    phalanx("grid", "create", "--user", OWNER)
    phalanx("grid", "issue", "--role", "executor", "here", "--out", "here.pem")
    shared = Path("shared")
    shared.mkdir()
    Path("data").mkdir()
    Path("data/one.txt").write_text("one\n")
    command = [*EXECUTOR, "executor", "--listen", "127.0.0.1:0", "--identity", "here.pem", "--allow-root"]
    command += ["--interpreters", "2", "--export", f"{shared.resolve()}:rw", "--accept", OWNER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as executor:
        try:
            assert executor.stdout is not None
            use_executor(_address(executor.stdout), shared.resolve())
        finally:
            executor.send_signal(signal.SIGINT)


def _address(lines: object) -> str:
    told = []
    for line in lines:  # type: ignore[attr-defined]
        told.append(line)
        if "listening on " in line:
            return str(line.split("listening on ")[1].split()[0])
    raise RuntimeError(f"the executor ended: {''.join(told)}")


def use_executor(address: str, shared: Path) -> None:
    """All that an executor offers."""
    Path("far.py").write_text(FARM.format(hosts=f"{address!r}, "))
    equal(run(sys.executable, "far.py"), TOTAL)
    phalanx("cp", "data/one.txt", f"{address}:{shared}/copy.txt")
    equal(phalanx("cat", f"{address}:{shared}/copy.txt"), "one")
    phalanx("sync", "data", f"{address}:{shared}/data")
    equal("copy.txt" in phalanx("ls", f"{address}:{shared}"), True)
    phalanx("rm", f"{address}:{shared}/copy.txt")
    equal((shared / "copy.txt").exists(), False)
    equal((shared / "data" / "one.txt").read_text(), "one\n")
    phalanx("space", "create", f"{address}/jobs")
    run(sys.executable, "-c", f"import phalanx as px; px.Space({address!r} + '/jobs').out('n', 1)")
    equal("jobs" in phalanx("space", "info", f"{address}/jobs"), True)
    phalanx("known", "list")
    phalanx("explain", _hosts(address))


def _hosts(address: str) -> str:
    Path("hosts.txt").write_text(f"here = {address}\n")
    return "hosts.txt"


def mpi_in_c() -> None:
    """A program in C with the standard's interface."""
    _compiler()
    Path("ring.c").write_text(RING)
    phalanx("mpicc", "ring.c", "-o", "ring")
    told = phalanx("mpirun", "-n", "3", "--no-prefix", "./ring")
    equal(sorted(told.splitlines()), ["0 got 2", "1 got 0", "2 got 1"])
    equal(run("./ring"), "0 got 0")


def interfaces() -> None:
    """Programs that load MPI's libraries: the standard's, and MPICH's by its name and by Debian's."""
    Path("loaded.py").write_text(LOADED)
    for name, world in INTERFACES.items():
        told = phalanx("mpirun", "-n", "2", "--no-prefix", sys.executable, "loaded.py", name, world)
        equal(sorted(told.splitlines()), ["0 of 2", "1 of 2"])


def mpi4py() -> None:
    """A program with mpi4py's own wheel."""
    if importlib.util.find_spec("mpi4py") is None:
        raise Absent("mpi4py")
    Path("sum.py").write_text(MPI4PY)
    told = phalanx("mpirun", "-n", "3", "--no-prefix", sys.executable, "sum.py")
    equal(told.splitlines(), ["sum 3"] * 3)


def bsp() -> None:
    """Supersteps in Python."""
    Path("supersteps.py").write_text(SUPERSTEPS)
    told = phalanx("bsprun", "-n", "3", "--no-prefix", sys.executable, "supersteps.py")
    equal(told.splitlines(), ["6.0"] * 3)


def bsp_in_c() -> None:
    """Supersteps in C."""
    _compiler()
    Path("supersteps.c").write_text(SUPERSTEPS_IN_C)
    phalanx("bspcc", "supersteps.c", "-o", "supersteps")
    told = phalanx("bsprun", "-n", "2", "--no-prefix", "./supersteps")
    equal(sorted(told.splitlines()), ["0 of 2", "1 of 2"])


def _compiler() -> None:
    if shutil.which("cc") is None:
        raise Absent("a C compiler")


def demo() -> None:
    """The demo on the scans that pydicom ships; without its libraries it says what to install."""
    if importlib.util.find_spec("skimage") is None:
        raise Absent(f"{DISTRIBUTION}[demo]")
    phalanx("demo", "--tasks", "4", "--out", "pictures")
    equal((Path("pictures") / "contact-sheet.png").exists(), True)


USES: list[Callable[[], None]] = [
    version,
    commands,
    farm,
    space,
    grid,
    mpi_in_c,
    interfaces,
    mpi4py,
    bsp,
    bsp_in_c,
    demo,
]


def main() -> int:
    """Runs the uses; returns how many have failed."""
    failed = 0
    for use in [it for it in USES if it.__name__ in sys.argv[1:] or not sys.argv[1:]]:
        try:
            use()
            print("passed", use.__name__, flush=True)
        except Absent as needed:
            print(f"absent {use.__name__}: {needed}", flush=True)
        except Exception as error:
            failed += 1
            print(f"failed {use.__name__}: {error!r}", flush=True)
    return failed


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="phalanx-smoke-") as folder:
        os.chdir(folder)
        os.environ["PHALANX_HOME"] = str(Path(folder) / "home")
        sys.exit(main() > 0)
