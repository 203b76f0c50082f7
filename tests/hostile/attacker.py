"""What another account of the machine tries. Standard library only, so that a task can be sent it too.

As a program it begins as root and becomes another account. Then it attacks what its standard input names, or listens.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

#: No account of this machine has it.
ACCOUNT = 65533
PTRACE_ATTACH, PTRACE_DETACH, PTRACE_SEIZE = 16, 17, 0x4206
#: System calls by number, which is the same on x86_64 and aarch64.
PIDFD_SEND_SIGNAL, PIDFD_GETFD = 424, 438
#: Entries of /proc that show a process's memory, secrets or files.
SECRETS = ("mem", "environ", "maps", "smaps", "auxv", "io", "syscall", "fd", "map_files", "cwd/.", "root/etc")
#: What system calls answer for refused attempts.
REFUSED = "PermissionError"


def on_process(process: int) -> dict[str, str]:
    """What came of each attack on a process: the name of an exception, or what was read."""
    tries: dict[str, Callable[[], object]] = {name: partial(read, f"/proc/{process}/{name}") for name in SECRETS}
    tries |= {
        "kill": partial(os.kill, process, signal.SIGKILL),
        "stop": partial(os.kill, process, signal.SIGSTOP),
        "trace": partial(trace, process, PTRACE_ATTACH),
        "seize": partial(trace, process, PTRACE_SEIZE),
        "read memory": partial(move_memory, "process_vm_readv", process),
        "write memory": partial(move_memory, "process_vm_writev", process),
        "signal by descriptor": partial(signal_by_descriptor, process),
        "limit": partial(resource.prlimit, process, resource.RLIMIT_NOFILE, (0, 0)),
        "slow down": partial(os.setpriority, os.PRIO_PROCESS, process, 19),
        "pin": partial(os.sched_setaffinity, process, [0]),
    }
    tries |= {
        f"set {name}": partial(set_fact, process, name) for name in ("oom_score_adj", "coredump_filter", "clear_refs")
    }
    tries |= {f"take descriptor {number}": partial(take_descriptor, process, number) for number in range(3)}
    return outcomes(process, tries)


def on_all(files: list[str], sockets: list[str], processes: list[int]) -> dict[str, str]:
    """What came of each attack on files and folders, sockets with names, and processes."""
    found = outcomes("read", {path: partial(read, path) for path in files})
    found |= outcomes("write", {path: partial(write, path) for path in files})
    found |= outcomes("remove", {path: partial(remove, path) for path in files + sockets})
    found |= outcomes("connect to", {name: partial(connect, name) for name in sockets})
    for process in processes:
        found |= on_process(process)
    return found


def outcomes(prefix: object, tries: dict[str, Callable[[], object]]) -> dict[str, str]:
    return {f"{prefix} {name}": outcome(attack) for name, attack in tries.items()}


def outcome(attack: Callable[[], object]) -> str:
    try:
        return repr(attack())
    except OSError as error:
        return type(error).__name__


def read(path: str) -> object:
    try:
        return os.listdir(path)  # noqa: PTH208  (names are enough)
    except NotADirectoryError:
        with Path(path).open("rb") as opened:
            return opened.read(10)


def write(path: str) -> object:
    if Path(path).is_dir():
        return Path(path, "planted").write_bytes(b"")
    with Path(path).open("r+b"):
        return "opened for writing"


def remove(path: str) -> None:
    Path(path).rename(f"{path}.taken")


def connect(name: str) -> int:
    """Connects to a unix socket. The name of an abstract one begins with @, as /proc/net/unix shows it."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(10)
        client.connect(f"\0{name[1:]}" if name.startswith("@") else name)
        return client.send(b"x")


def set_fact(process: int, name: str) -> None:
    """Makes a process the first one that the kernel ends for want of memory, for example."""
    with Path(f"/proc/{process}/{name}").open("wb", buffering=0) as opened:
        opened.write(b"1")


def trace(process: int, how: int) -> None:
    called("ptrace", how, process, None, None)
    called("ptrace", PTRACE_DETACH, process, None, None)


def move_memory(call: str, process: int) -> int:
    """Any address suffices: rights are checked before addresses."""
    here = ctypes.create_string_buffer(8)
    area = (ctypes.c_size_t * 2)(ctypes.addressof(here), 8)
    return called(call, process, area, 1, area, 1, 0)


def signal_by_descriptor(process: int) -> None:
    descriptor = os.pidfd_open(process)
    try:
        called("syscall", PIDFD_SEND_SIGNAL, descriptor, signal.SIGKILL, None, 0)
    finally:
        os.close(descriptor)


def take_descriptor(process: int, number: int) -> int:
    descriptor = os.pidfd_open(process)
    try:
        return called("syscall", PIDFD_GETFD, descriptor, number, 0)
    finally:
        os.close(descriptor)


def called(name: str, *arguments: object) -> int:
    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    function.restype = ctypes.c_long
    result = int(function(*arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), f"{name} was refused")
    return result


def become_another() -> None:
    """Gives up all rights of root. Modules are loaded before, because the account may not reach their files."""
    os.setgroups([])
    os.setresgid(ACCOUNT, ACCOUNT, ACCOUNT)
    os.setresuid(ACCOUNT, ACCOUNT, ACCOUNT)


def listen(path: str) -> None:
    """Takes one connection after the other at a path, and prints what each says first."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        Path(path).chmod(0o777)
        listener.listen()
        print("ready", flush=True)
        while True:
            with listener.accept()[0] as connection:
                print("heard", connection.recv(1 << 16).hex(), flush=True)


if __name__ == "__main__":
    become_another()
    match sys.argv[1:]:
        case ["attack"]:
            print(json.dumps(on_all(**json.load(sys.stdin))))
        case ["listen", where]:
            listen(where)
