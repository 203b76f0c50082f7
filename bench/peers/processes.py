"""What Linux tells about a tree of processes: who is in it, its CPU and memory; and how to end all of it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_TICKS = os.sysconf("SC_CLK_TCK")


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that daemons stay in the tree: prctl(2)."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat from the third on (state, parent, ...), None when it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def descendants(root: int) -> list[int]:
    """Return the process ids below `root`, not `root` itself."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: list[int] = []
    unseen = [root]
    while unseen:
        below = children.get(unseen.pop(), [])
        found += below
        unseen += below
    return found


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return user and system time of the processes and of the children they have waited for."""
    return sum(sum(map(int, fields[11:15])) for pid in pids if (fields := _stat(pid))) / _TICKS


def tree_cpu_seconds() -> float:
    """Return the CPU time of this process and everything below it."""
    return cpu_seconds([os.getpid(), *descendants(os.getpid())])


def machine_cpu_seconds() -> tuple[float, float]:
    """Return the CPU time that all processes of this machine used, and what other machines took from it."""
    user, nice, system, _, _, interrupt, soft_interrupt, stolen = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    )
    return (user + nice + system + interrupt + soft_interrupt) / _TICKS, stolen / _TICKS


class Strangers:
    """How much of this machine others use, from when this was made."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self._used, self._stolen = _strangers_cpu_seconds()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self.begun

    def percents(self) -> tuple[float, float]:
        """Of the cores' time so far: what strangers on this machine used, and what other machines took from it."""
        used, stolen = _strangers_cpu_seconds()
        capacity = self.seconds * (os.cpu_count() or 1)
        return (used - self._used) / capacity * 100, (stolen - self._stolen) / capacity * 100


#: Others' use of this machine, in percent of its cores, from which figures are called uncertain.
DISTURBED_PERCENT = 5


def disturbance(others_percent: float) -> str:
    """What is to be said of figures that others disturbed; empty: nothing."""
    if others_percent <= DISTURBED_PERCENT:
        return ""
    return f"the machine was not silent: others used {others_percent:.0f} % of it"


def _strangers_cpu_seconds() -> tuple[float, float]:
    everybody, stolen = machine_cpu_seconds()
    return everybody - tree_cpu_seconds(), stolen


def memory(pid: int) -> tuple[float, float]:
    """Return resident and proportional size of a process in MB (10**6 bytes): VmRSS and Pss of proc(5).

    The resident size counts a page shared with other processes in full, the proportional size its share.
    """
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    sizes = {line.split(":")[0]: line.split()[1] for line in lines[1:]}
    return int(sizes["Rss"]) * 1024 / 1e6, int(sizes["Pss"]) * 1024 / 1e6


def end_descendants() -> int:
    """Kill everything below this process, wait until it is gone, and return how many there were."""
    ended: set[int] = set()
    deadline = time.monotonic() + 10
    while (left := descendants(os.getpid())) and time.monotonic() < deadline:
        for pid in left:
            if (fields := _stat(pid)) and fields[0] != "Z":
                ended.add(pid)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _reap()
        time.sleep(0.01)
    return len(ended)


def _reap() -> None:
    """Collect the children that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
