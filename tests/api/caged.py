"""What a process at an executor tries that it must not, and what it needs. A file of its own: ranks are sent it."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import platform
import resource
import signal
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

PTRACE_ATTACH, PTRACE_DETACH = 16, 17
NEW_USERS = 0x10000000
#: System calls that the cage refuses, by the architecture.
CALLS = {
    "unshare": {"x86_64": 272, "aarch64": 97},
    "mount": {"x86_64": 165, "aarch64": 40},
    "keyctl": {"x86_64": 250, "aarch64": 219},
    "bpf": {"x86_64": 321, "aarch64": 280},
    "userfaultfd": {"x86_64": 323, "aarch64": 282},
}


def attacks(private: list[str], writable: list[str]) -> dict[str, str]:
    """What came of each attack: the name of an exception, or what was read.

    Parameters
    ----------
    private
        Files and folders that are another's.
    writable
        Files that must not be written.
    """
    keeper = os.getppid()
    executor = parent_of(keeper)
    tries: dict[str, Callable[[], object]] = {path: partial(read, path) for path in private}
    tries |= {f"write {path}": partial(Path(path).write_text, "x") for path in writable}
    for title, process in (("KEEPER", keeper), ("EXECUTOR", executor)):
        for name in ("mem", "environ", "maps", "fd/0", "cwd/.", "root/etc"):
            tries[f"/proc/{title}/{name}"] = partial(read, f"/proc/{process}/{name}")
        tries[f"signal {title}"] = partial(os.kill, process, 0)
        tries[f"trace {title}"] = partial(trace, process)
    tries |= {f"call {name}": partial(call, numbers) for name, numbers in CALLS.items()}
    tries["programs"] = partial(read, str(Path.cwd().parent))
    return {name: outcome(attack) for name, attack in tries.items()}


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def read(path: str) -> object:
    try:
        return list(Path(path).iterdir())
    except NotADirectoryError:
        with Path(path).open("rb") as opened:
            return opened.read(10)


def trace(process: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.ptrace(PTRACE_ATTACH, process, None, None):
        raise OSError(ctypes.get_errno(), "not traced")
    library.ptrace(PTRACE_DETACH, process, None, None)


def leave() -> int:
    """Start a process in a session of its own, whose parents have ended. Returns its number."""
    received, sent = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(sent, os.getpid().to_bytes(4, "little"))
            time.sleep(10_000)
        os._exit(0)
    os.wait()
    return int.from_bytes(os.read(received, 4), "little")


def call(numbers: dict[str, int]) -> None:
    """Make a system call with a few arguments of 0, and a namespace of users for those that make one."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.syscall(numbers[platform.machine()], NEW_USERS, 0, 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "not made")


def outcome(attack: Callable[[], object]) -> str:
    try:
        return repr(attack())
    except OSError as error:
        return type(error).__name__


def needs() -> dict[str, Any]:
    """What an ordinary task does, and what came of it."""
    import numpy as np

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pooled = pool.map(abs, [-1, -2])
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pooled += pool.map(abs, [-3])
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a").write_text("kept")
        Path(folder, "a").replace("b")
    segment = shared_memory.SharedMemory(create=True, size=1 << 20)
    here = np.frombuffer(segment.buf, dtype="u1") if segment.buf else np.zeros(0)
    here[:4] = 7
    again = shared_memory.SharedMemory(segment.name)
    there = np.frombuffer(again.buf, dtype="u1") if again.buf else np.zeros(0)
    seen = int(there[:4].sum())
    del here, there
    again.close()
    segment.close()
    segment.unlink()
    shell = ["/bin/sh", "-c", "echo $((1 + 1)) > /dev/null; echo $HOME"]
    child = subprocess.Popen(["sleep", "1000"])
    child.send_signal(signal.SIGTERM)
    return {
        "numpy": float(np.ones((300, 300)).dot(np.ones(300)).sum()),
        "pool": pooled,
        "file": Path("b").read_text(),
        "shell": subprocess.run(shell, capture_output=True, text=True, check=True).stdout,
        "shared": seen,
        "child": child.wait(),
        "localhost": socket.gethostbyname("localhost"),
        "certificates": ssl.create_default_context().check_hostname,
        "random": len(os.urandom(8)),
    }


def state() -> dict[str, Any]:
    """What the process has been given."""
    return {
        "environment": dict(os.environ),
        "folder": str(Path.cwd()),
        "core": resource.getrlimit(resource.RLIMIT_CORE),
    }
