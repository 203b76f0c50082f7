"""A mixed grid: what a clear link gives when others of the same manager are private."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import cloudpickle
import numpy as np
import numpy.typing as npt
import phalanx as px

_PHALANX = Path(sys.executable).with_name("phalanx")
#: Two executors of this machine; the first is trusted, the second only in the clear grid.
_ADDRESSES = ("127.0.0.1", "127.0.0.2")
_TASK_SECONDS = 0.002
_TASK_BYTES = 100_000


def render(picture: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Stand for a render that waits for something, so that the two interpreters leave room on two cores."""
    time.sleep(_TASK_SECONDS)
    return picture


def clear_share(turns: int, seconds: float) -> dict[str, list[float]]:
    """Return tasks/s over the first executor's link, in a grid of clear links and in a mixed one, in turn."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the executors have nothing of this repository
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        os.environ.update({"PHALANX_HOME": folder, "PHALANX_ALLOW_ROOT": "1"})
        ports = [stack.enter_context(_executor(Path(folder), address)) for address in _ADDRESSES]
        grids = {"clear": ["127.0.0.0/8"], "mixed": ["127.0.0.1/32"]}
        rates: dict[str, list[float]] = {name: [] for name in grids}
        for _ in range(turns):
            for name, trusted in grids.items():
                hosts = Path(folder, "hosts.txt")
                lines = [f"{address} {port}" for address, port in zip(_ADDRESSES, ports, strict=True)]
                hosts.write_text("\n".join([*lines, *(f"trusted {network}" for network in trusted)]) + "\n")
                rates[name].append(_rate(hosts, seconds, private=name == "mixed"))
    return rates


def _rate(hosts: Path, seconds: float, private: bool) -> float:
    pictures = np.zeros(_TASK_BYTES, np.uint8)
    with px.Manager(px.Hosts(hosts), contract=px.ParDegree(2)) as manager:
        list(manager.compute(render, [pictures] * 20))
        before, begin = manager.summary(), time.perf_counter()
        count = round(2 * seconds / _TASK_SECONDS)
        delivered = sum(1 for _ in manager.compute(render, [pictures] * count))
        elapsed, after = time.perf_counter() - begin, manager.summary()
    if delivered != count:
        raise RuntimeError(f"{delivered} results for {count} tasks")
    levels = sorted(one.level for one in after.interpreters)
    if levels != (["clear", "private"] if private else ["clear", "clear"]):
        raise RuntimeError(f"the links are {levels}")
    done = [now.tasks - then.tasks for now, then in zip(after.interpreters, before.interpreters, strict=True)
            if now.machine.startswith(_ADDRESSES[0])]  # fmt: skip
    return sum(done) / elapsed


@contextmanager
def _executor(folder: Path, address: str) -> Iterator[int]:
    """An executor on this machine that takes clear links; gives its port."""
    if not (folder / "user.pem").exists():
        subprocess.run([_PHALANX, "grid", "create"], check=True, stdout=subprocess.DEVNULL)
    identity = folder / f"{address}.pem"
    name = f"executor-{address.rpartition('.')[2]}"
    issue: list[str | Path] = [_PHALANX, "grid", "issue", "--role", "executor", name, "--out", identity]
    subprocess.run(issue, check=True, stdout=subprocess.DEVNULL)
    serve: list[str | Path] = [
        _PHALANX,
        "executor",
        "--listen",
        f"{address}:0",
        "--identity",
        identity,
        "--interpreters",
        "1",
    ]
    process = subprocess.Popen(
        [*serve, "--interpreters", "1", "--trusted", "127.0.0.0/8"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout
        yield int(process.stdout.readline().split()[2].rpartition(":")[2])
    finally:
        process.terminate()
        process.communicate()
