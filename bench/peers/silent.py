"""Two unconnected processes: what two cores can do when nobody talks.

As a program (`python -m bench.peers.silent`): reads lines `SECONDS FILTER RENDER` from its standard input,
computes `filter_and_render` with these milliseconds again and again for that long, and answers each line with
the number of tasks and the rate reached, in tasks per second.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import NamedTuple

from bench.peers.interface import INTERPRETERS
from bench.peers.processes import tree_cpu_seconds
from bench.peers.work import filter_and_render


class Sample(NamedTuple):
    """What silent processes or a farm reached in one turn."""

    rate: float  # tasks/s
    cpu: float  # seconds per task, of all processes


class SilentProcesses:
    """As many processes as a farm has interpreters, each computing from its own loop. A context manager."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "bench.peers.silent"]
        self._processes = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(INTERPRETERS)
        ]
        self.sample(0, 0, 0.001)  # they have started now

    def sample(self, first: float, second: float, seconds: float) -> Sample:
        """Compute for that long, a task being `first` and then `second` milliseconds: the rates added up."""
        before = tree_cpu_seconds()
        for process in self._processes:
            assert process.stdin
            process.stdin.write(f"{seconds} {first} {second}\n")
            process.stdin.flush()
        answers = [process.stdout.readline().split() for process in self._processes if process.stdout]
        cpu = tree_cpu_seconds() - before
        return Sample(sum(float(rate) for _, rate in answers), cpu / sum(int(count) for count, _ in answers))

    def __enter__(self) -> SilentProcesses:
        return self

    def __exit__(self, *_: object) -> None:
        """End them. By force: a copy of the pipe to them may live on in a process that the farm forked."""
        for process in self._processes:
            process.kill()
            process.communicate()


def _compute(seconds: float, first: float, second: float) -> str:
    """Return tasks and tasks per second of this process alone, over whole tasks only."""
    count = 0
    begin = time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < seconds:
        filter_and_render((first, second))
        count += 1
    return f"{count} {count / elapsed}"


def main() -> None:
    """Answer each line of standard input until it ends."""
    for line in sys.stdin:
        seconds, first, second = line.split()
        print(_compute(float(seconds), float(first), float(second)), flush=True)


if __name__ == "__main__":
    main()
