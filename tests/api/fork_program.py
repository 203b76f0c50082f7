"""What ranks that fork do in the tests: `python fork_program.py MODEL HOW WHAT`, two of them."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Callable

import numpy as np
from phalanx import bsp

LENGTH = 200_000
#: The number of the system call, by the architecture.
CLONE = {"x86_64": 56, "aarch64": 220}


def refused(*attempts: Callable[[], object]) -> None:
    """Say what became of what a child tries."""
    for attempt in attempts:
        try:
            attempt()
        except Exception as error:
            print("refused:", error, flush=True)
        else:
            print("not refused", flush=True)


def make(how: str, child: Callable[[], None]) -> None:
    """Run `child` in a child, which ends as children made so do, and say its exit code."""
    if how == "fork":
        pid = os.fork()
        if pid == 0:
            child()
            sys.exit(0)  # the functions of atexit run
        print("child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    elif how == "multiprocessing":
        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        process.join()
        print("child", process.exitcode, flush=True)
    else:
        command = [sys.executable, "-c", "print('elsewhere')"]
        before = child if how == "preexec" else None  # runs between fork and exec
        done = subprocess.run(command, preexec_fn=before, capture_output=True, text=True, check=False)
        print(done.stdout, "child ", done.returncode, sep="", flush=True)


def passing(how: str, what: str) -> None:
    """Messages that are under way while rank 0 has a child, and others afterwards."""
    from mpi4py import MPI  # its atexit function finalizes

    world = MPI.COMM_WORLD
    rank, peer = world.rank, 1 - world.rank
    window = MPI.Win.Allocate(8 * LENGTH, 8, comm=world)
    numbers = np.arange(LENGTH, dtype=np.float64)
    got, sent = np.empty_like(numbers), numbers + rank
    requests = [world.Irecv(got, source=peer, tag=1), world.Isend(sent, dest=peer, tag=1)]

    def child() -> None:
        assert (world.rank, world.size, MPI.Is_finalized()) == (rank, 2, True)
        if what == "send":
            refused(
                lambda: world.send(b"from a child", dest=peer),
                lambda: world.Send(sent, dest=peer),
                lambda: world.Ssend(sent[:10], dest=peer),
                lambda: world.recv(source=peer),
                lambda: world.Barrier(),
                lambda: world.allreduce(1),
                lambda: world.Dup(),
                lambda: MPI.Request.Waitall(requests),
                lambda: requests[0].Test(),
                lambda: window.Lock(peer),
                lambda: MPI.Init(),
            )

    if rank == 0:
        make(how, child)
    MPI.Request.Waitall(requests)
    assert (got == numbers + peer).all()
    for number in range(50):
        assert world.sendrecv((rank, number), dest=peer, source=peer) == (peer, number)
    world.Sendrecv(sent, dest=peer, recvbuf=got, source=peer)
    assert (got == numbers + peer).all()
    window.Free()
    print("went on", flush=True)


def supersteps(how: str, what: str) -> None:
    """The same in supersteps."""
    with bsp.begin():
        peer = 1 - bsp.pid()

        def child() -> None:
            assert bsp.nprocs() == 2
            if what == "send":
                bsp.send(peer, b"from a child")
                refused(bsp.sync, bsp.sync)

        bsp.send(peer, b"before")
        if bsp.pid() == 0:
            make(how, child)
        for number in range(10):
            bsp.sync()
            assert [message.payload for message in bsp.messages()] == [number or b"before"]
            bsp.send(peer, number + 1)
    print("went on", flush=True)


def falls_out() -> None:
    """A child that leaves the program's block as its parent does."""
    with bsp.begin():
        child = os.fork() if bsp.pid() == 0 else None
        if child:
            print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        if child != 0:
            bsp.sync()
    if child != 0:
        print("went on", flush=True)


def without_handlers() -> None:
    """A child of the system call, in which no handler of a library runs, sends in its parent's name."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    if world.rank == 0:
        world.send("before", dest=1)
        child = ctypes.CDLL(None).syscall(CLONE[platform.machine()], signal.SIGCHLD, 0, 0, 0, 0)
        if child == 0:
            refused(lambda: world.send("from a child", dest=1))
            os._exit(0)
        print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        world.send("afterwards", dest=1)
        assert world.recv(source=1) == ["before", "afterwards"]
    else:
        world.send([world.recv(source=0) for _ in range(2)], dest=0)
    print("went on", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "falls-out":
        falls_out()
    elif sys.argv[1] == "without-handlers":
        without_handlers()
    else:
        {"mpi": passing, "bsp": supersteps}[sys.argv[1]](*sys.argv[2:])
