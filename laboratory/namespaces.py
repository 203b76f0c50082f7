"""Network namespaces: names that tell who owns them, entering one, removing what a dead owner left.

A name is `phalanx-<pid>-<start time of that pid>-<serial>.<host>`: parallel test processes never collide, and
a later run can tell a crashed one's namespaces from a living one's even when the pid was given out again.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from laboratory.needs import lacking
from laboratory.processes import until

NAMES = Path("/run/netns")
#: Needs of a lab.
LAB = ("root", "ip", "bridge", "nft")
# The files of a lab are in a folder of this name and the prefix of its namespaces.
FOLDER = "lab-of-"
CLONE_NEWNET = 0x40000000


def obstacle() -> str | None:
    """Why this machine cannot make namespaces, and what to do about it; None when it can."""
    reason = lacking(*LAB)
    return f"network namespaces: {reason}" if reason else None


def ip(*arguments: str, namespace: str | None = None, program: str = "ip") -> str:
    """What `ip` (or `bridge`, its sibling) prints; RuntimeError with its complaint when it refuses."""
    command = [program, *(["-n", namespace] if namespace else []), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def start_time(pid: int) -> str | None:
    """When `pid` started, in clock ticks since boot (proc(5), field 22); None when there is no such one."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return None


def own_prefix() -> str:
    """What the names of all namespaces of this process begin with."""
    return f"phalanx-{os.getpid()}-{start_time(os.getpid())}-"


def add(namespace: str) -> None:
    """Make a namespace whose loopback is up."""
    ip("netns", "add", namespace)
    ip("link", "set", "lo", "up", namespace=namespace)


def pids(namespace: str) -> list[int]:
    """The processes that live in `namespace`, whoever started them and in whatever session they are."""
    return [int(pid) for pid in ip("netns", "pids", namespace).split()]


def remove(prefix: str) -> None:
    """Kill all processes in the namespaces whose names begin with `prefix`, delete these and folders."""
    names = [entry.name for entry in NAMES.glob(f"{prefix}*")]
    until(lambda: not any(map(kill_all, names)), timeout=30, what=f"the end of all in {prefix}*")
    for name in names:
        with suppress(RuntimeError):  # another test process collected it at the same time
            ip("netns", "delete", name)
    for folder in folders(prefix):
        shutil.rmtree(folder, ignore_errors=True)


def folders(prefix: str) -> list[Path]:
    """The folders of the labs whose names begin with `prefix`, which may be a pattern."""
    return list(Path(tempfile.gettempdir()).glob(f"{FOLDER}{prefix}*"))


def kill_all(namespace: str) -> list[int]:
    """SIGKILL whoever is in `namespace`, frozen or not. Returns those seen: an empty list means quiet."""
    try:
        found = pids(namespace)
    except RuntimeError:
        return []  # deleted meanwhile
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return found


def collect_stale() -> None:
    """Remove what test processes that are gone left: namespaces, the processes in them, folders of files."""
    names = {entry.name for entry in NAMES.glob("phalanx-*-*-*.*")}
    names |= {entry.name.removeprefix(FOLDER) for entry in folders("phalanx-*-*-*.")}
    for prefix in {name.split(".")[0] for name in names}:
        _, pid, started, _ = prefix.split("-")
        if start_time(int(pid)) != started:
            remove(f"{prefix}.")


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """This thread is in `namespace` within the block; a socket made there stays there for its whole life."""
    with Path("/proc/thread-self/ns/net").open() as before, (NAMES / namespace).open() as there:
        set_namespace(there.fileno())
        try:
            yield
        finally:
            set_namespace(before.fileno())


def set_namespace(descriptor: int) -> None:
    """setns(2); Python has it as os.setns only since 3.12."""
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
