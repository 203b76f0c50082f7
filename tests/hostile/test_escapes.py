"""Ways out of an account: each is tried by a task that runs under an account of its user's.

Accounts and the filter of system calls alone leave open what every account may read, and its unix sockets.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import cast

import cloudpickle
import phalanx as px
import pytest
from hostile import attacker
from hostile.test_accounts import FIRST, Site

from laboratory.processes import Process, until

cloudpickle.register_pickle_by_value(attacker)  # executors do not have it
cloudpickle.register_pickle_by_value(sys.modules[__name__])
#: The numbers of system calls.
KEYS = {"x86_64": (248, 249, 250), "aarch64": (217, 218, 219)}


@pytest.fixture(scope="module")
def site(place: Path) -> Iterator[Site]:
    folder = place / "escapes"
    folder.mkdir(mode=0o755)
    made = Site(folder, FIRST + 80)
    with made.grid:
        yield made


def tried(site: Site, attack: Callable[..., object], *words: object) -> object:
    """What came of an attack by a task of ada's."""
    with site.manager("ada") as manager:
        return manager.submit(attack, *words).result(60)


def keyring() -> list[str]:
    """The keys of the account: add one, ask for one, and join the session of another process."""
    libc = ctypes.CDLL(None, use_errno=True)
    add, request, control = KEYS[platform.machine()]
    found = []
    for words in (
        (add, b"user", b"phalanx", b"x", 1, -3),
        (request, b"user", b"phalanx", None, -3),
        (control, 0, -3, 1),  # the number of the session's keyring
        (control, 1, None),  # a session of its own
    ):
        outcome = libc.syscall(*words)
        found.append("done" if outcome >= 0 else errno.errorcode[ctypes.get_errno()])
    return found


def test_the_keys_of_the_kernel_are_closed(site: Site) -> None:
    assert set(tried(site, keyring)) == {"EPERM"}  # type: ignore[call-overload]


def later(folder: str) -> dict[str, str]:
    """Ways to have the system start something later, outside of the program."""
    job = f"* * * * * root touch {folder}/escaped\n"
    found = {}
    for path in (
        "/etc/crontab",
        "/etc/cron.d/phalanx",
        "/var/spool/cron/crontabs/root",
        "/var/spool/cron/atjobs/a00001",
        "/etc/systemd/system/phalanx.service",
        "/run/systemd/system/phalanx.service",
        "/etc/profile.d/phalanx.sh",
        "/etc/ld.so.preload",
        "/root/.bashrc",
    ):
        try:
            Path(path).write_text(job)
            found[path] = "written"
        except OSError as error:
            found[path] = type(error).__name__
    for command in (
        ["crontab", "-"],
        ["at", "now"],
        ["batch"],
        ["systemd-run", "touch", f"{folder}/escaped"],
        ["systemd-run", "--user", "touch", f"{folder}/escaped"],
        ["loginctl", "enable-linger"],
    ):
        if shutil.which(command[0]):
            done = subprocess.run(command, input=job, capture_output=True, text=True, check=False, timeout=30)
            found[" ".join(command)] = "done" if done.returncode == 0 else REFUSED
    return found


REFUSED = "PermissionError"


def test_nothing_starts_something_later(site: Site, place: Path) -> None:
    found = tried(site, later, str(place / "escapes" / "open"))
    assert {name: came for name, came in found.items() if came not in (REFUSED, "FileNotFoundError")} == {}  # type: ignore[attr-defined]
    assert not (place / "escapes" / "open" / "escaped").exists()


def gain(program: str) -> list[str]:
    """What the account is in a program with the set-user-ID bit of root, and what comes of becoming root."""
    said = subprocess.run([program, "-u"], capture_output=True, text=True, check=True).stdout.strip()
    return [said, attacker.outcome(partial(os.setuid, 0)), attacker.outcome(partial(os.setgroups, [0]))]


def test_a_program_with_the_set_user_id_bit_gives_no_rights(site: Site, place: Path) -> None:
    program = place / "escapes" / "open" / "id"
    shutil.copy("/usr/bin/id", program)
    program.chmod(0o4755)
    found = cast("list[str]", tried(site, gain, str(program)))
    account, others = found[0], found[1:]
    assert (int(account) in range(site.first, site.first + 2), others) == (True, [REFUSED, REFUSED])


def out_of_scratch(path: str) -> dict[str, str]:
    """Ways to another file through links in the own folder."""
    Path("link").symlink_to(path)
    Path("above").symlink_to(Path(path).parent)
    tries: dict[str, Callable[[], object]] = {
        "read": lambda: Path("link").read_bytes(),
        "write": lambda: Path("link").write_bytes(b"x"),
        "beside": lambda: Path("above", "new").write_bytes(b"x"),
        "hard link": lambda: os.link(path, "hard"),
        "rename": lambda: Path(path).rename("taken"),
        "root": lambda: Path(f"/proc/{os.getppid()}/root{path}").read_bytes(),
        "open in keeper": lambda: [*Path(f"/proc/{os.getppid()}/fd").iterdir()],
    }
    return attacker.outcomes("out", tries)


def test_no_link_leads_out_of_the_own_folder(site: Site) -> None:
    secret = site.closed / "secret"
    secret.write_text("of root")
    found = tried(site, out_of_scratch, str(secret))
    assert {name: came for name, came in found.items() if came != REFUSED} == {}  # type: ignore[attr-defined]
    assert secret.read_text() == "of root"


def on_bus(address: str) -> str:
    """What a bus of D-Bus answers to one that says to be root."""
    with socket.socket(socket.AF_UNIX) as bus:
        bus.connect(address)
        bus.sendall(b"\0AUTH EXTERNAL 30\r\n")
        return bus.recv(100).decode().split()[0]


def test_a_bus_of_another_account_refuses_a_task(site: Site, place: Path) -> None:
    if not shutil.which("dbus-daemon"):
        pytest.skip("there is no dbus-daemon (Debian: dbus)")
    path = place / "escapes" / "bus"
    command = ["dbus-daemon", "--session", "--nofork", "--print-address=1", f"--address=unix:path={path}"]
    bus = Process(command, title="the bus", files=place / "bus", cwd=place, env=os.environ)
    try:
        bus.line("unix:")
        assert on_bus(str(path)) == "OK", "its own account is let in"
        path.chmod(0o777)
        assert tried(site, on_bus, str(path)) == "REJECTED"
    finally:
        bus.kill()


def leave(name: str) -> bool:
    """Leaves named memory, a segment of System V and a queue of messages."""
    Path("/dev/shm", name).write_bytes(bytes(1 << 20))
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.shmget(KEY, 1 << 20, 0o1600) >= 0 and libc.msgget(KEY, 0o1600) >= 0)


#: Of a segment of System V.
KEY = 0x70687831


def seen(name: str) -> list[str]:
    """Whether named memory is seen by its name."""
    return [str(Path("/dev/shm", name).exists())]


def system_v() -> str:
    return Path("/proc/sysvipc/shm").read_text() + Path("/proc/sysvipc/msg").read_text()


def memory_of(site: Site) -> list[Path]:
    """The folders of named memory that the first executor has made for programs. Its own ones are root's."""
    found = []
    for path in Path("/dev/shm").glob(f"phalanx-{site.grid.started[0].pid}-program-*"):
        with suppress(FileNotFoundError):
            found += [path] if path.stat().st_uid else []
    return found


def test_named_memory_is_seen_by_its_program_only_and_ends_with_it(site: Site) -> None:
    name, shared = f"left-{os.getpid()}", Path("/dev/shm")
    with site.manager("ada") as adas, site.manager("bob") as bobs, site.manager("ada", degree=2) as others:
        assert adas.submit(leave, name).result(60)
        assert adas.submit(seen, name).result(60) == ["True"]
        assert bobs.submit(seen, name).result(60) == ["False"]
        assert others.submit(seen, name).result(60) == ["False"], "it is another program of ada's"
        assert not (shared / name).exists()
        assert str(KEY) not in system_v()
    until(lambda: not memory_of(site), timeout=60, what="the end of the named memory")


def test_interpreters_of_a_program_share_named_memory(site: Site) -> None:
    name = f"shared-{os.getpid()}"
    with site.manager("ada", degree=2) as manager:
        manager.submit(leave, name).result(60)
        assert {tuple(found) for found in manager.map(seen, [name] * 8)} == {("True",)}


def test_named_memory_of_a_killed_executor_is_gone_after_the_next_start(place: Path) -> None:
    folder = place / "killed-memory"
    folder.mkdir(mode=0o755)
    made = Site(folder, FIRST + 84)
    with made.grid:
        with suppress(px.PhalanxError), made.manager("ada") as manager:
            manager.submit(leave, "left").result(60)
            made.grid.started[0].kill()
        until(lambda: not made.processes(), timeout=60, what="the end of the account's processes")
        left = memory_of(made)
        assert left, "nobody was there to remove it"
        for path in left:  # a folder that was made a moment ago may belong to an executor that starts
            os.utime(path, (path.stat().st_mtime - 3600,) * 2)
        made.address = made.grid.start("next", *made.words, env=made.env)
        with made.manager("ada") as manager:  # a program that begins cleans too: the keeper may have lived until then
            manager.submit(len, "").result(60)
        until(lambda: not memory_of(made), timeout=60, what="the end of what was left")


def test_other_processes_of_the_machine_cannot_be_read_signalled_or_traced(site: Site) -> None:
    """The executor, its keeper, and the process of this test."""
    executor = site.grid.started[0].pid

    def attack(processes: list[int]) -> dict[str, str]:
        found = attacker.on_all([], [], [*processes, os.getppid()])
        return {name: came for name, came in found.items() if name.partition(" ")[2] not in ("fd",)}

    found = tried(site, attack, [executor, os.getpid()])
    assert {name: came for name, came in found.items() if came != REFUSED} == {}  # type: ignore[attr-defined]
