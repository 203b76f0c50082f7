"""Programs that lose ranks and go on: ``python failures_program.py what …``."""

from __future__ import annotations

import os
import signal
import sys
import time
import unittest
from array import array
from collections.abc import Callable
from pathlib import Path

from mpi4py import MPI
from phalanx.adapters.mpi4py import ERR_PROC_FAILED, ERR_REVOKED, Intercomm, Intracomm

#: Numbers whose sum takes some milliseconds.
LONG = 1 << 20


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def recover(comm: Intracomm, victim: int, step: int) -> Intracomm:
    """The last rank dies, at a step of what the others do to go on without the one before."""
    me = comm.rank == victim
    try:
        if me and step == 0:
            die()
        comm.allreduce(1)
        if me and step == 1:
            die()
        comm.barrier()
        comm.Agree(1)
    except MPI.Exception as error:
        if error.Get_error_class() not in (ERR_PROC_FAILED, ERR_REVOKED):
            raise
    comm.Revoke()
    if me and step == 2:
        die()
    request = comm.Iagree(memoryview(bytearray(b"\x01\0\0\0")).cast("i"))
    if me and step == 3:
        die()
    try:
        request.Wait()
    except MPI.Exception as error:
        if error.Get_error_class() != ERR_PROC_FAILED:
            raise
    return comm.Shrink()


def dwindle() -> None:
    comm = Intracomm(MPI.COMM_WORLD)
    for step in range(4):
        comm = recover(comm, comm.size - 1, step)
        groups = comm.allgather([MPI.Group.Translate_ranks(comm.group, None, MPI.COMM_WORLD.group)])
        assert all(group == groups[0] for group in groups)
    print(comm.rank, "of", comm.size, "is left")


def fails(name: str, call: Callable[[], object]) -> None:
    """Says so if a call does."""
    try:
        call()
    except MPI.Exception as error:
        print(name, error.Get_error_class() == ERR_PROC_FAILED, "was killed by signal 9" in str(error), flush=True)


def put_on(window: MPI.Win, memory: bytearray) -> None:
    """Needs no message where memory is shared, and hears of the loss all the same."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        window.Put(memory, 1)


def windows(flavor: str) -> None:
    """Rank 1 dies with a lock, and while the others wait for its memory, unless they have mapped that."""
    world, memory = MPI.COMM_WORLD, bytearray(8)
    window = MPI.Win.Allocate(8, comm=world) if flavor == "allocate" else MPI.Win.Create(bytearray(8), comm=world)
    others, pid = world.Split(world.rank == 1), world.bcast(os.getpid(), root=1)
    window.Lock_all()
    world.Barrier()
    if world.rank == 1:
        window.Unlock_all()
        window.Lock(2, MPI.LOCK_SHARED)
        world.Barrier()
        os.kill(pid, signal.SIGSTOP)  # it answers nothing any more
    world.Barrier()
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.01)
    request = window.Rget(memory, 1)
    others.Barrier()
    if others.rank == 0:
        os.kill(pid, signal.SIGKILL)
    fails("request", request.Wait)
    fails("put", lambda: put_on(window, memory))
    fails("unlock all", window.Unlock_all)
    victim, other = world.group.Incl([1]), 2 - world.rank
    window.Lock(2)  # which rank 1 had locked
    window.Put(memory, 2)
    window.Unlock(2)
    fails("lock", lambda: window.Lock(1))
    window.Start(victim)
    fails("get", lambda: window.Get(memory, 1))
    fails("complete", window.Complete)
    fails("post", lambda: window.Post(victim))
    fails("wait", window.Wait)
    fails("fence", window.Fence)
    window.Lock(other)
    window.Put(memory, other)
    window.Unlock(other)
    others.Barrier()
    print("done", flush=True)


def guards() -> None:
    """Ranks die while they add numbers in shared memory, and while they hold or want its lock: those left go on."""
    world = MPI.COMM_WORLD
    world.Set_errhandler(MPI.ERRORS_RETURN)
    window = MPI.Win.Allocate(8 * LONG, comm=world)
    window.Set_errhandler(MPI.ERRORS_RETURN)
    own, one, seen = array("d", [1]) * LONG, array("q", [1]), array("q", [0])
    pids, last = world.allgather(os.getpid()), world.size - 1
    left = world.Split(world.rank in (0, last))
    if world.rank not in (0, last):
        world.Barrier()
        while True:
            window.Lock(0, MPI.LOCK_SHARED if world.rank == 1 else MPI.LOCK_EXCLUSIVE)
            window.Accumulate(own, 0)
            window.Unlock(0)
    world.Barrier()
    if world.rank == 0:
        numbers, deadline = window.tomemory().cast("d"), time.monotonic() + 30
        while numbers[0] < 10 and time.monotonic() < deadline:
            world.Iprobe()  # moves messages
        for pid in pids[1:last]:
            os.kill(pid, signal.SIGKILL)
    left.Barrier()
    window.Lock(0)
    window.Accumulate(own, 0)
    window.Flush(0)
    window.Unlock(0)
    fails("lock all", window.Lock_all)  # but for those that are left
    window.Fetch_and_op(one, seen, last, op=MPI.SUM)
    window.Flush(last)
    left.Barrier()
    fails("unlock all", window.Unlock_all)
    window.Lock(last)
    window.Get(seen, last)
    window.Unlock(last)
    left.Barrier()
    print("sum", seen[0], flush=True)


def suite(folder: str) -> None:
    """mpi4py's tests of these functions."""
    sys.path.insert(0, folder)
    import test_ulfm  # type: ignore[import-not-found]

    vars(MPI)["ERR_REVOKED"] = ERR_REVOKED  # what its wheel does not know

    class Inter(test_ulfm.TestULFMInter):  # type: ignore[misc]
        @classmethod
        def setUpClass(cls) -> None:
            super().setUpClass()
            cls.COMM = Intercomm(cls.COMM)

    test_ulfm.TestULFMSelf.COMM = Intracomm(MPI.COMM_SELF)
    test_ulfm.TestULFMWorld.COMM = Intracomm(MPI.COMM_WORLD)
    cases: list[type[unittest.TestCase]] = [test_ulfm.TestULFMSelf, test_ulfm.TestULFMWorld]
    if MPI.COMM_WORLD.size > 1:
        cases.append(Inter)
    load = unittest.defaultTestLoader.loadTestsFromTestCase
    done = unittest.TextTestRunner().run(unittest.TestSuite(map(load, cases)))
    sys.exit(not done.wasSuccessful() or bool(done.skipped))


WHAT: dict[str, Callable[..., None]] = {"dwindle": dwindle, "suite": suite, "windows": windows, "guards": guards}

if __name__ == "__main__":
    WHAT[sys.argv[1]](*sys.argv[2:])
