"""One end of the links that are measured: `python -m bench.comms.ends sink SCHEME`, or `source ADDRESS`.

Both print JSON lines. The source reads orders, as `[SIZE, BYTES]`, until its input ends. Which comm it is stands in the
address, and in the environment: `COMMS_TLS` has the paths of the authority, the certificate and the key.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
from distributed import Security
from distributed.comm import connect, listen
from distributed.protocol import to_serialize

#: Messages on their way at once, as workers fetch data of each other.
WINDOW = 8


def tell(**found: Any) -> None:
    """Print a line for the benchmark."""
    print(json.dumps(found), flush=True)


def security() -> Security:
    """Dask's certificates, or none."""
    if "COMMS_TLS" not in os.environ:
        return Security()
    authority, certificate, key = json.loads(os.environ["COMMS_TLS"])
    ends = {
        f"tls_{role}_{what}": path
        for role in ("scheduler", "worker", "client")
        for what, path in (("cert", certificate), ("key", key))
    }
    return Security(require_encryption=True, tls_ca_file=authority, **ends)


def used() -> float:
    """CPU seconds of this process, of all its threads."""
    mine = resource.getrusage(resource.RUSAGE_SELF)
    return mine.ru_utime + mine.ru_stime


async def sink(scheme: str) -> None:
    """Take messages, and say that each has arrived."""
    done = asyncio.Event()

    async def serve(comm: Any) -> None:
        while True:
            message = await comm.read()
            if message["op"] == "mark":
                await comm.write(used())
                continue
            if message["op"] == "end":
                await comm.close()
                done.set()
                return
            assert message["array"].nbytes == message["size"]
            await comm.write(message["number"])

    args = security().get_listen_args("worker")
    async with listen(f"{scheme}://127.0.0.1:0", serve, **args) as listener:
        tell(address=listener.contact_address)
        await done.wait()


async def orders() -> AsyncIterator[tuple[int, int]]:
    """The sizes of arrays, and how many bytes to send in such arrays, as the benchmark asks for them."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        size, amount = json.loads(line)
        yield size, amount


async def source(address: str) -> None:
    """Send arrays as ordered."""
    comm = await connect(address, **security().get_connection_args("worker"))

    async def send(count: int, size: int, array: Any) -> None:
        arrived = 0
        for number in range(count):
            await comm.write({"op": "data", "number": number, "size": size, "array": to_serialize(array)})
            if number - arrived >= WINDOW - 1:
                assert await comm.read() == arrived
                arrived += 1
        while arrived < count:
            assert await comm.read() == arrived
            arrived += 1

    async def used_by_both() -> float:
        await comm.write({"op": "mark"})
        return used() + float(await comm.read())

    async for size, amount in orders():
        array = np.random.default_rng(0).integers(0, 256, size, dtype=np.uint8)
        count = max(amount // size, 4 * WINDOW)
        await send(2 * WINDOW, size, array)  # warm
        before, begun = await used_by_both(), time.perf_counter()
        await send(count, size, array)
        seconds, cpu = time.perf_counter() - begun, await used_by_both() - before
        tell(seconds=seconds, cpu=cpu, bytes=count * size, level=comm.extra_info.get("level"))
    await comm.write({"op": "end"})
    await comm.close()


if __name__ == "__main__":
    if sys.argv[1] == "sink":
        asyncio.run(sink(sys.argv[2]))
    else:
        asyncio.run(source(sys.argv[2]))
