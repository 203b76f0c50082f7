"""What ranks of several machines do in the tests: `python rank_links.py WHAT [ARGUMENT]...`, with mpi4py or BSP."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import mpi4py
import numpy as np
from phalanx import bsp

mpi4py.rc.initialize, mpi4py.rc.finalize = False, True
from mpi4py import MPI  # noqa: E402
from phalanx.adapters.mpi4py import ERR_PROC_FAILED, Intracomm  # noqa: E402

#: Stands in what ranks send to each other, for those who listen on the way.
MARKER = os.environ["MARKER"].encode()
#: Known before MPI_Init too.
RANK = int(dict(pair.split("=", 1) for pair in os.environ["PHALANX_RANK"].split())["rank"])


def everything() -> None:
    """Objects, arrays, collectives, windows: what each gives is compared with what it must be."""
    MPI.Init()
    world = MPI.COMM_WORLD
    rank, size = world.rank, world.size
    right, left = (rank + 1) % size, (rank - 1) % size
    assert world.sendrecv({"from": rank, "words": MARKER}, dest=right, source=left)["from"] == left
    sent = np.arange(500_000, dtype=np.float64) + rank
    got = np.empty_like(sent)
    world.Sendrecv(sent, dest=right, recvbuf=got, source=left)
    assert (got == np.arange(500_000) + left).all()
    for source in range(size):
        text = world.bcast(MARKER * 10_000 if rank == source else None, root=source)
        assert text == MARKER * 10_000
    assert world.allreduce(rank) == size * (size - 1) // 2
    sums = np.empty_like(sent)
    world.Allreduce(sent, sums)
    assert (sums == size * np.arange(500_000) + size * (size - 1) // 2).all()
    assert world.alltoall([(rank, to) for to in range(size)]) == [(of, rank) for of in range(size)]
    here = world.Split_type(MPI.COMM_TYPE_SHARED)
    assert isinstance(here, MPI.Intracomm)
    names = here.allgather(os.uname().nodename)
    assert set(names) == {os.uname().nodename}
    shared = MPI.Win.Allocate_shared(8 if here.rank == 0 else 0, 8, comm=here)
    memory = np.frombuffer(shared.Shared_query(0)[0].cast("q"), dtype=np.int64)
    shared.Fence()
    if here.rank == here.size - 1:
        memory[0] = 42
    shared.Fence()
    assert memory[0] == 42
    shared.Free()
    window = MPI.Win.Allocate(8 * size, 8, comm=world)
    memory = np.frombuffer(window.tomemory().cast("q"), dtype=np.int64)
    memory[:] = -1
    window.Fence()
    for to in range(size):
        window.Put(np.array([100 * rank + to]), to, rank)
    window.Fence()
    assert memory.tolist() == [100 * of + rank for of in range(size)]
    window.Lock_all()
    count = np.zeros(1, dtype=np.int64)
    window.Fetch_and_op(np.ones(1, dtype=np.int64), count, 0, 0, MPI.SUM)
    window.Unlock_all()
    window.Free()
    print("done on", os.uname().nodename, here.size, flush=True)


def supersteps() -> None:
    with bsp.begin():
        sums = np.zeros(bsp.nprocs())
        bsp.push_reg(sums)
        bsp.sync()
        for pid in range(bsp.nprocs()):
            bsp.put(pid, np.array([1.0 + bsp.pid()]), sums, bsp.pid())
            bsp.send(pid, MARKER)
        bsp.sync()
        assert sums.tolist() == [1.0 + pid for pid in range(bsp.nprocs())]
        assert [message.payload for message in bsp.messages()] == [MARKER] * bsp.nprocs()
        print("done", flush=True)


def late(path: str) -> None:
    """The last rank joins when there is a file at the path."""
    if RANK == 3:
        while not Path(path).exists():
            time.sleep(0.01)
    everything()


def lose(how: str) -> None:
    """Waits for a message that rank 3 will never send, or together with it; says what came of that."""
    MPI.Init()
    world = MPI.COMM_WORLD
    print("pid", world.rank, os.getpid(), flush=True)
    if world.rank == 3:
        time.sleep(1000)
    try:
        if how == "receive":
            world.recv(source=3)
        world.barrier()
    except MPI.Exception as error:
        code = error.Get_error_class()
        print("lost" if code == ERR_PROC_FAILED else code, error, flush=True)
        others = world.Create_group(world.group.Excl([3]))
        print("survivors", others.allreduce(1), flush=True)


def recover(path: str) -> None:
    """Adds up until ranks are lost and there is a file at the path; says who is left, and why the others are not."""
    MPI.Init()
    world = comm = Intracomm(MPI.COMM_WORLD)
    print("pid", world.rank, os.getpid(), flush=True)
    done = False
    while not done:
        try:
            comm.barrier()
            done = comm.bcast(comm.size < world.size and Path(path).exists())
        except MPI.Exception as error:
            print("heard", error, flush=True)
            comm.Revoke()
            comm = comm.Shrink()
            print("left", comm.size, flush=True)
    print("survivors", sum(comm.allgather(1)), flush=True)


WHAT: dict[str, Callable[..., None]] = {
    "everything": everything,
    "supersteps": supersteps,
    "late": late,
    "lose": lose,
    "recover": recover,
}

if __name__ == "__main__":
    WHAT[sys.argv[1]](*sys.argv[2:])
