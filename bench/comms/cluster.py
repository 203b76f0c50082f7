"""A process of the cluster that is measured: `scheduler SCHEME`, `worker ADDRESS`, or `client ADDRESS`."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import numpy as np
from distributed import Client, Scheduler, Worker

from bench.comms.ends import orders, security, tell, used

#: Arrays that are scattered and gathered at once.
BATCH = 16


async def scheduler(scheme: str) -> None:
    """Dask's scheduler, until the client ends it."""
    async with Scheduler(
        protocol=scheme, host="127.0.0.1", port=0, security=security(), dashboard_address=":0"
    ) as serving:
        tell(address=serving.address)
        await serving.finished()


async def worker(address: str) -> None:
    """Dask's worker, until the scheduler ends it."""
    async with Worker(address, nthreads=1, security=security(), host="127.0.0.1", dashboard_address=":0") as serving:
        tell(address=serving.address)
        await serving.finished()


async def client(address: str) -> None:
    """Scatter and gather arrays through the scheduler, as ordered."""
    async with Client(address, asynchronous=True, security=security(), direct_to_workers=False) as asking:

        async def turn(arrays: list[Any]) -> None:
            futures = await asking.scatter(arrays, direct=False, hash=False)
            found = await asking.gather(futures, direct=False)
            assert sum(map(len, found)) == sum(map(len, arrays))

        async def all_used() -> float:
            there = await asking.run(used)
            return float(used() + sum(there.values()) + await asking.run_on_scheduler(used))

        async for size, amount in orders():
            rng = np.random.default_rng(0)
            arrays = [rng.integers(0, 256, size, dtype=np.uint8) for _ in range(BATCH)]
            rounds = max(amount // size // BATCH // 2, 4)
            await turn(arrays)  # warm
            before, begun = await all_used(), time.perf_counter()
            for _ in range(rounds):
                await turn(arrays)
            seconds, cpu = time.perf_counter() - begun, await all_used() - before
            comm: Any = asking.scheduler_comm.comm
            moved = 2 * rounds * BATCH * size
            tell(seconds=seconds, cpu=cpu, bytes=moved, level=comm.extra_info.get("level"))
        await asking.shutdown()


if __name__ == "__main__":
    asyncio.run({"scheduler": scheduler, "worker": worker, "client": client}[sys.argv[1]](sys.argv[2]))
