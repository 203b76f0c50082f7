"""Two unconnected processes: what two cores can do when nobody talks.

As a program (`python -m bench.peers.silent`): reads lines `SECONDS FILTER RENDER` from its standard input,
computes `filter_and_render` with these iterations again and again for that long, and answers each line with
the rate reached, in tasks per second.
"""

from __future__ import annotations

import subprocess
import sys
import time

from bench.peers.interface import INTERPRETERS
from bench.peers.work import filter_and_render


class SilentProcesses:
    """As many processes as a farm has interpreters, each computing from its own loop."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "bench.peers.silent"]
        self._processes = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(INTERPRETERS)
        ]

    def rate(self, first: int, second: int, seconds: float) -> float:
        """Return tasks per second of all together, a task being `first` and then `second` iterations."""
        for process in self._processes:
            assert process.stdin
            process.stdin.write(f"{seconds} {first} {second}\n")
            process.stdin.flush()
        return sum(float(process.stdout.readline()) for process in self._processes if process.stdout)

    def stop(self) -> None:
        """End them. By force: a copy of the pipe to them may live on in a process that the farm forked."""
        for process in self._processes:
            process.kill()
            process.communicate()


def _rate(seconds: float, first: int, second: int) -> float:
    """Return tasks per second of this process alone, over whole tasks only."""
    count = 0
    begin = time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < seconds:
        filter_and_render((first, second))
        count += 1
    return count / elapsed


def main() -> None:
    """Answer each line of standard input until it ends."""
    for line in sys.stdin:
        seconds, first, second = line.split()
        print(_rate(float(seconds), int(first), int(second)), flush=True)


if __name__ == "__main__":
    main()
