"""What a copy leaves to links beside it: `python -m bench.transfer.round_trips`, as root, from the top.

64 bytes go to another network namespace and back while a private copy fills the line, which is 200 Mbit/s where it
leaves this end: with a queue that has bands (pfifo_fast, Linux's own default), and with one that has none.
"""

from __future__ import annotations

import socket
import statistics
import subprocess
import sys
import threading
import time

from laboratory.grid import PHALANX, Grid
from laboratory.lab import Host, Lab
from laboratory.processes import until

SHAPE = ("root", "handle", "1:", "tbf", "rate", "200mbit", "burst", "64k", "limit", "4mb")
QUEUES = {"bands": ["pfifo_fast"], "no bands": ["pfifo", "limit", "1000"]}


def shape(host: Host, *words: str) -> None:
    """Change the queue before the host's cable."""
    subprocess.run(["ip", "netns", "exec", host.namespace, "tc", "qdisc", "add", "dev", "eth0", *words], check=True)


def echo(listener: socket.socket) -> None:
    """Send back what comes."""
    accepted, _ = listener.accept()
    while data := accepted.recv(64):
        accepted.sendall(data)


def round_trips(near: Host, far: Host) -> list[float]:
    """Milliseconds of each, in order of length."""
    listener = far.listen()
    threading.Thread(target=echo, args=[listener], daemon=True).start()
    times = []
    with near.connect(far.address, listener.getsockname()[1]) as link:
        for _ in range(200):
            began = time.monotonic()
            link.sendall(bytes(64))
            link.recv(64)
            times.append(1e3 * (time.monotonic() - began))
            time.sleep(0.01)
    return sorted(times)


def received(host: Host) -> int:
    """Bytes that came to the host so far (proc(5), net/dev)."""
    lines = host.run(["cat", "/proc/net/dev"]).stdout().splitlines()
    return next(int(line.partition(":")[2].split()[0]) for line in lines if line.lstrip().startswith("eth0:"))


def main() -> int:
    """Print a line for each queue."""
    for name, queue in QUEUES.items():
        with Lab(quiet=True) as lab:
            grid = Grid(lab.host("desk"))
            far = lab.host("labpc")
            there = grid.executor(far, options=["--export", "memory", "--no-spaces"])
            shape(grid.desk, *SHAPE)
            shape(grid.desk, "parent", "1:", *queue)
            grid.desk.popen([str(PHALANX), "cp", "--json", "memory:900G", f"{there.address}:memory"], env=grid.env)
            until(lambda host=far: received(host) > 20_000_000, timeout=20, what="a copy")  # type: ignore[misc]
            times = round_trips(grid.desk, far)
            print(f"{name}: median {statistics.median(times):.2f} ms, 95 % below {times[190]:.2f} ms", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
