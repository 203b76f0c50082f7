"""Parents, and the children that they spawn: what each does is a function here, called by name."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from mpi4py import MPI
from phalanx.adapters.mpi4py import ERR_PROC_FAILED

WORLD = MPI.COMM_WORLD


def spawn(role: str, *words: str, count: int = 2, comm: MPI.Intracomm = WORLD) -> MPI.Intercomm:
    return comm.Spawn(sys.executable, [__file__, role, *words], count)


def parent() -> MPI.Intercomm:
    found = MPI.Comm.Get_parent()
    assert found != MPI.COMM_NULL
    return found


def tell() -> None:
    """Parents and children write."""
    children = spawn("child_tells")
    print("parent")
    children.Disconnect()


def child_tells() -> None:
    print("child")
    print("wrong", file=sys.stderr)
    parent().Disconnect()


def sleep() -> None:
    """All sleep, and say who they are."""
    spawn("child_sleeps")
    print("began", os.getpid(), flush=True)
    time.sleep(1000)


def child_sleeps() -> None:
    print("began", os.getpid(), flush=True)
    time.sleep(1000)


def fail() -> None:
    """A child ends as its argument says; the parents wait for what it will not send."""
    children = spawn("child_fails", sys.argv[2])
    children.Barrier()  # a child that ends before all have begun is none
    try:
        children.recv(source=1)
    except MPI.Exception as error:
        print("heard", error.Get_error_class() == ERR_PROC_FAILED, flush=True)
    children.Free()


def child_fails() -> None:
    parent().Barrier()
    if WORLD.rank == 1:
        if sys.argv[2] == "abort":
            WORLD.Abort(7)
        if sys.argv[2] == "exit":
            os._exit(6)
        os.kill(os.getpid(), signal.SIGKILL)
    parent().Free()


def cannot() -> None:
    """Words of errors."""
    for command in (sys.argv[2:], ["/no/such/program"]):
        try:
            WORLD.Spawn(command[0], command[1:], 2)
        except MPI.Exception as error:
            print(error.Get_error_class() == MPI.ERR_SPAWN, error.Get_error_string())


def many() -> None:
    """Worlds that come and go leave nothing behind, here and at the launcher."""
    files = {"own": "/proc/self/fd", "launcher's": f"/proc/{os.getppid()}/fd"}
    before: dict[str, int] = {}
    for round_ in range(12):
        spawn("child_leaves", count=1).Disconnect()
        if round_ == 3:
            before = {name: len(list(Path(path).iterdir())) for name, path in files.items()}
    for name, path in files.items():
        deadline = time.monotonic() + 20
        while len(list(Path(path).iterdir())) > before[name] and time.monotonic() < deadline:
            MPI.COMM_SELF.Iprobe()  # what is no more needed is let go of by who makes progress
            time.sleep(0.01)
        print(name, len(list(Path(path).iterdir())) <= before[name])


def child_leaves() -> None:
    parent().Disconnect()


def forget() -> None:
    """Children that nobody speaks to end before their parents do."""
    children = spawn("child_forgets")
    while not WORLD.Iprobe() and not Path("left").exists():
        time.sleep(0.01)
    children.Free()
    print("went on", flush=True)


def child_forgets() -> None:
    parent().Free()
    MPI.Finalize()
    Path("left").touch()


def find() -> None:
    """Grandchildren find their grandparents by the name of a service, without their parents."""
    port = MPI.Open_port()
    MPI.Publish_name("grandparents", port)
    children = spawn("child_spawns", comm=MPI.COMM_SELF)
    grandchildren = MPI.COMM_SELF.Accept(port)
    print(sorted(grandchildren.recv() for _ in range(3)), flush=True)
    grandchildren.Disconnect()
    children.Disconnect()
    MPI.Unpublish_name("grandparents", port)
    MPI.Close_port(port)


def child_spawns() -> None:
    children = spawn("grandchild_finds", count=3)
    assert children.remote_size == 3
    children.Disconnect()
    parent().Disconnect()


def grandchild_finds() -> None:
    parent().Disconnect()
    port = MPI.Lookup_name("grandparents") if WORLD.rank == 0 else None
    grandparent = WORLD.Connect(port or "")
    grandparent.send(f"grandchild {WORLD.rank}", dest=0)
    grandparent.Disconnect()


def widen() -> None:
    """One rank spawns alone, and the others meet the children over it."""
    alone = spawn("child_widens", comm=MPI.COMM_SELF) if WORLD.rank == 0 else None
    bridge = alone.Merge(high=False) if alone else MPI.Intracomm(MPI.COMM_NULL)
    both = WORLD.Create_intercomm(0, bridge, 1)
    total = both.allreduce(10)
    if WORLD.rank == WORLD.size - 1:
        both.send(b"x" * 300_000, dest=1)
    print("sum", total, flush=True)
    both.Disconnect()


def child_widens() -> None:
    bridge = parent().Merge(high=True)
    both = WORLD.Create_intercomm(0, bridge, 0)
    both.allreduce(1)
    if WORLD.rank == 1:
        assert len(both.recv()) == 300_000
    both.Disconnect()


globals()[sys.argv[1]]()
